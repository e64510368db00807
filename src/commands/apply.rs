//! `holo apply`

use super::Desk;
use crate::apply::{self, View};
use crate::cli::Apply;
use crate::error::Fatal;
use crate::exit;
use crate::lock::{Lock, LockError};
use crate::report::{Console, Paragraphs};
use crate::survey::survey;
use holo_protocol::session::Stream;

pub(super) fn run(arguments: &Apply, desk: &mut Desk) -> Result<u8, Fatal> {
    let Desk { settings, interrupt, console } = desk;
    let mut survey = survey(settings, interrupt, console)?;
    let entities = super::select(std::mem::take(&mut survey.entities), &arguments.selection.selectors, console)?;
    let _lock = acquire(&settings.root.lock(), console)?;
    console.flush();
    let mut reporter = Paragraphs::new(console);
    let tally = apply::apply(
        &entities,
        &mut survey.plugins,
        View { root: &settings.root, resources: &survey.resources },
        arguments.force,
        interrupt,
        &mut reporter,
    )?;
    let ends_well = tally.failed == 0 || arguments.exit_zero || settings.exit_zero;
    Ok(if ends_well { exit::DONE } else { exit::FAILED })
}

fn acquire(path: &std::path::Path, console: &mut Console) -> Result<Lock, Fatal> {
    let acquired = Lock::acquire(path).map_err(|error| refused(&error, console))?;
    if let Some(pid) = acquired.taken_over_from {
        let path = path.display();
        console.warning(format!("Taking over lock file {path} from process {pid}, which does not exist any more"));
        console.end_paragraph();
    }
    Ok(acquired.lock)
}

fn refused(error: &LockError, console: &mut Console) -> Fatal {
    console.error(error.to_string());
    if error.exists {
        console.write(Stream::Stderr, b"This usually means that another instance of Holo is currently running.\n");
        console.write(Stream::Stderr, b"If not, you can try to delete the lock file manually.\n");
    }
    Fatal::Reported
}

//! `holo apply`

use super::Context;
use super::check::Preview;
use crate::apply::Walk;
use crate::cli::Apply;
use crate::error::Fatal;
use crate::exit;
use crate::inventory::{Purpose, discover};
use crate::lock::{self, Lock, LockError};
use crate::plugin::Task;
use crate::refresh::Refreshes;
use crate::report::line::Tally;
use crate::report::{self, Console};
use holo_protocol::session::Stream;
use holo_protocol::words;
use std::time::Instant;

pub(super) fn run(arguments: &Apply, desk: &mut Context) -> Result<u8, Fatal> {
    if let Some(time) = arguments.timeout {
        let cannot = |error| Fatal::CouldNotRun(format!("cannot watch the time: {}", words::reason(&error)));
        desk.interrupt.after(time).map_err(cannot)?;
    }
    desk.settings.verify = arguments.verify;
    desk.settings.jobs = arguments.jobs.unwrap_or(desk.settings.jobs);
    let tally = if arguments.dry_run {
        super::check::walk(
            desk,
            &arguments.selection,
            Preview { force: arguments.force, fail_fast: arguments.fail_fast },
        )?
    } else {
        walk(arguments, desk)?
    };
    let ends_well = (!tally.has_failed() && tally.hindered() == 0) || arguments.exit_zero || desk.settings.exit_zero;
    Ok(match (ends_well, arguments.dry_run) {
        (_, true) => super::check::exit_code(tally),
        (true, false) => exit::DONE,
        (false, false) => exit::FAILED,
    })
}

fn walk(arguments: &Apply, desk: &mut Context) -> Result<Tally, Fatal> {
    let Context { settings, interrupt, console } = desk;
    lock::wait_for_survivors(&settings.root.lock(), interrupt, |survivors| {
        console.warning(format!("Waiting: {survivors}"));
        console.end_paragraph();
        console.flush();
    })?;
    // It is given back when the sessions of the plugins have ended.
    let _lock;
    let mut inventory = discover(settings, Purpose::Apply, &arguments.selection.selectors, interrupt, console)?;
    let selected = super::select("apply", &inventory, &arguments.selection.selectors, console)?;
    super::show_slips(&inventory, &selected, console);
    let flawed = inventory.is_flawed_for(&arguments.selection);
    _lock = acquire(&settings.root.lock(), console)?;
    let mut refreshes = Refreshes::load(&settings.root)?;
    inventory.hand_over_refreshes(&mut refreshes);
    inventory.forget_refreshes(&mut refreshes);
    console.flush();
    let task = if arguments.force { Task::ForceApply } else { Task::Apply };
    let walk = Walk::over(&mut inventory, settings, interrupt, task, refreshes).fail_fast(arguments.fail_fast);
    let began = Instant::now();
    let tally = Tally { flawed, ..walk.go(&selected, &mut *report::on(console, false))? };
    if console.is_terminal() {
        console.end_paragraph();
        console.raw(Stream::Stdout, format!("{tally} in {:.1} s\n", began.elapsed().as_secs_f64()).as_bytes());
    }
    Ok(tally)
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
    if error.is_held() {
        console.hint("This usually means that another instance of Holo is currently running.");
        console.hint("If not, you can try to delete the lock file manually.");
    } else if !rustix::process::geteuid().is_root() {
        console.advise("an apply has to be run as root, who owns what it changes");
    }
    Fatal::Reported
}

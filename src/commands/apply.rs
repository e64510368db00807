//! `holo apply`

use super::Context;
use super::check::Preview;
use crate::apply::Walk;
use crate::cli::Apply;
use crate::discovery::discover;
use crate::error::FatalError;
use crate::exit;
use crate::inventory::Purpose;
use crate::lock::{self, Lock, LockError};
use crate::plugin::Task;
use crate::refresh::Refreshes;
use crate::report::line::Tally;
use crate::report::{Event, Remarks, Reporter};
use std::time::Instant;

pub(super) fn run(arguments: &Apply, context: &mut Context<'_>) -> Result<u8, FatalError> {
    if let Some(time) = arguments.timeout {
        context.interrupt.after(time).map_err(FatalError::could_not_run)?;
    }
    context.settings.verify = arguments.verify;
    context.settings.jobs = arguments.jobs.unwrap_or(context.settings.jobs);
    let tally = if arguments.dry_run {
        let Context { settings, interrupt, reporter } = &mut *context;
        super::check::walk(
            settings,
            interrupt,
            *reporter,
            &arguments.selection,
            Preview { force: arguments.force, fail_fast: arguments.fail_fast, differences: arguments.diff },
        )?
    } else {
        walk(arguments, context)?
    };
    let ends_well = (!tally.has_failed() && tally.hindered() == 0) || arguments.exit_zero || context.settings.exit_zero;
    Ok(match (ends_well, arguments.dry_run) {
        (_, true) => super::check::exit_code(tally),
        (true, false) => exit::DONE,
        (false, false) => exit::FAILED,
    })
}

fn walk(arguments: &Apply, context: &mut Context<'_>) -> Result<Tally, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    lock::wait_for_survivors(&settings.root.lock(), interrupt, |survivors| {
        reporter.warning(format!("Waiting: {survivors}"));
        reporter.end_paragraph();
    })?;
    // It is given back when the sessions of the plugins have ended.
    let _lock;
    let mut inventory = discover(settings, Purpose::Apply, &arguments.selection.selectors, interrupt, *reporter)?;
    let selected = super::select("apply", &inventory, &arguments.selection.selectors, *reporter)?;
    super::show_slips(&inventory, &selected, *reporter);
    let flawed = inventory.is_flawed_for(&arguments.selection);
    _lock = acquire(&settings.root.lock(), *reporter)?;
    let mut refreshes = Refreshes::load(&settings.root)?;
    inventory.hand_over_refreshes(&mut refreshes);
    inventory.forget_refreshes(&mut refreshes);
    let task = if arguments.force { Task::ForceApply } else { Task::Apply };
    let walk = Walk::new(&mut inventory, &selected, settings, interrupt, task, refreshes)
        .fail_fast(arguments.fail_fast)
        .with_differences(arguments.diff);
    let began = Instant::now();
    let tally = Tally { flawed, ..walk.go(*reporter)? };
    reporter.event(Event::Applied(&tally, began.elapsed()));
    Ok(tally)
}

fn acquire(path: &std::path::Path, reporter: &mut dyn Reporter) -> Result<Lock, FatalError> {
    let acquired = Lock::acquire(path).map_err(|error| refused(&error, reporter))?;
    if let Some(pid) = acquired.taken_over_from {
        let path = path.display();
        reporter.warning(format!("Taking over lock file {path} from process {pid}, which does not exist any more"));
        reporter.end_paragraph();
    }
    Ok(acquired.lock)
}

fn refused(error: &LockError, reporter: &mut dyn Reporter) -> FatalError {
    reporter.error(error.to_string());
    if error.is_held() {
        reporter.explain("This usually means that another instance of Holo is currently running.");
        reporter.explain("If not, you can try to delete the lock file manually.");
    } else if !rustix::process::geteuid().is_root() {
        reporter.advise("an apply has to be run as root, who owns what it changes");
    }
    FatalError::Reported
}

//! `holo apply`

use super::Context;
use super::check::Preview;
use super::inputs::Inputs;
use super::repairs::{Limits, lift};
use crate::apply::Walk;
use crate::cli::Apply;
use crate::discovery::inventory::{Inventory, Purpose};
use crate::discovery::settled;
use crate::error::{FatalError, exit};
use crate::generations::{self, Keeper, Values};
use crate::history::{Recorder, Standings};
use crate::host::interrupt::Interrupt;
use crate::host::lock::{self, Acquired, Lock, LockError};
use crate::host::root::Root;
use crate::host::settings::Settings;
use crate::plan::refresh::Refreshes;
use crate::plan::select::Selected;
use crate::plan::sent::SentValues;
use crate::plugin::Task;
use crate::report::{Event, Remarks, Reporter};
use holo_events::Tally;
use holo_state::Database;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

pub(super) fn run(arguments: &Apply, context: &mut Context<'_>) -> Result<u8, FatalError> {
    if let Some(time) = arguments.timeout {
        context.interrupt.after(time).map_err(FatalError::could_not_run)?;
    }
    context.settings.verify |= arguments.verify;
    context.settings.on_edit = arguments.policy.on_edit.unwrap_or(context.settings.on_edit);
    context.settings.jobs = arguments.jobs.unwrap_or(context.settings.jobs);
    let Context { settings, interrupt, reporter } = &mut *context;
    if arguments.dry_run {
        let preview = Preview {
            force: arguments.force,
            fail_fast: arguments.fail_fast,
            differences: arguments.diff,
            names_all: arguments.output.json,
            ..Preview::default()
        };
        let tally = super::check::walk(settings, interrupt, *reporter, &arguments.selection, preview)?;
        return Ok(super::check::exit_code(tally));
    }
    reporter.event(Event::RunBegins(&settings.run));
    apply(arguments, settings, interrupt, *reporter, None).map(|(_, exit_code)| exit_code)
}

/// Applies the selected entities and records the run. The lock is taken unless the caller holds it.
pub(super) fn apply(
    arguments: &Apply,
    settings: &Settings,
    interrupt: &Interrupt,
    reporter: &mut dyn Reporter,
    mut lock: Option<Lock>,
) -> Result<(Tally, u8), FatalError> {
    let database = Rc::new(Database::new(settings.root.state_database()));
    let mut standings = Standings::new(reporter, arguments.selection.selectors.is_empty());
    let mut recorder = Recorder::new(settings, &database, &mut standings);
    // The lock is released after the sessions of the plugins have ended and the result of the run is recorded.
    let done = walk(arguments, settings, interrupt, &mut recorder, &database, &mut lock);
    let exit_code = match &done {
        // What is left for the first boot must not make the build of an image fail.
        Ok(tally) if tally.has_reached() && (tally.pending == 0 || settings.is_offline) => exit::DONE,
        Ok(_) if arguments.exit_zero || settings.exits_zero() => exit::DONE,
        Ok(tally) if tally.has_failed() || tally.hindered() > 0 => exit::FAILED,
        Ok(_) => exit::PENDING,
        Err(fatal) => fatal.exit_code(),
    };
    recorder.finish(&done, exit_code);
    if lock.is_some() {
        let is_whole = arguments.selection.selectors.is_empty();
        if !settings.is_offline
            && is_whole
            && done.as_ref().is_ok_and(|tally| tally.has_reached() && tally.pending == 0)
        {
            // Otherwise, the next boot tries again.
            let _ = fs::remove_file(settings.root.first_boot());
        }
        standings.keep(settings, "apply", &done, &database);
        // Ignored, as the work is done and recorded.
        let _ = database.tidy();
    }
    done.map(|tally| (tally, exit_code))
}

fn walk(
    arguments: &Apply,
    settings: &Settings,
    interrupt: &Interrupt,
    reporter: &mut Recorder<'_>,
    database: &Rc<Database>,
    lock: &mut Option<Lock>,
) -> Result<Tally, FatalError> {
    let began = Instant::now();
    lock::wait_for_survivors(&settings.root.lock(), interrupt, |survivors| {
        reporter.warning(format!("Waiting: {survivors}"));
        reporter.end_paragraph();
    })?;
    let mut inputs = Inputs::new(settings, &arguments.selection.selectors).with_memory();
    if !(arguments.force || arguments.forgets || arguments.output.json || arguments.unattended.is_some())
        && let Some(entities) = inputs.settled()
    {
        *lock = Some(lock_up(arguments, settings, interrupt, reporter)?);
        if settled::still_holds(settings) {
            lift(database, |_| true)?;
            let tally = super::show_settled(entities, settings, reporter);
            reporter.event(Event::Applied(&tally, began.elapsed()));
            return Ok(tally);
        }
    }
    let (mut inventory, selected) = loop {
        let inventory = inputs.discover(Purpose::Apply, interrupt, reporter)?;
        let selected = super::select("apply", &inventory, &arguments.selection.selectors, reporter)?;
        if lock.is_none() {
            *lock = Some(lock_up(arguments, settings, interrupt, reporter)?);
        }
        if inputs.is_consistent(&inventory, &selected, interrupt, reporter)? {
            break (inventory, selected);
        }
    };
    inventory.remembered.confirm();
    let Inputs { settings, fingerprint, .. } = &inputs;
    super::show_slips(&inventory, &selected, reporter);
    if arguments.forgets && !can_forget(&inventory, &selected, reporter) {
        return Err(FatalError::Reported);
    }
    let flawed = inventory.is_flawed_for(&arguments.selection);
    let mut refreshes = Refreshes::load(database).map_err(FatalError::could_not_run)?;
    let mut sent = SentValues::load(database, inventory.cache()).map_err(FatalError::could_not_run)?;
    inventory.hand_over_refreshes(&mut refreshes);
    for gone in inventory.forget_gone(&mut refreshes, &mut sent) {
        reporter.warning(format!("{gone} was to be refreshed, and is not defined any more"));
    }
    let limits = Limits::load(arguments, (&inventory, &selected), &refreshes, &settings.root, database, reporter)?;
    let mut keeper = Keeper::begin(settings, &inventory.resources);
    let task = match arguments.force {
        true => Task::ForceApply,
        false if arguments.forgets => Task::Forget,
        false => Task::Apply,
    };
    let walk = Walk::new(&mut inventory, &selected, settings, interrupt, task, (refreshes, sent))
        .fail_fast(arguments.fail_fast)
        .with_differences(arguments.diff)
        .with_values(Values::new(settings))
        .with_inputs(fingerprint)
        .with_limits(&limits.left_alone, &limits.acted);
    let mut observer = limits.observe(reporter);
    let done = walk.go(&mut keeper.observe(&mut observer));
    let seen = observer.seen;
    let counted = limits.count(&seen, &inventory, &settings.root, database);
    keeper.finish(settings, || inventory.sources_elsewhere(&settings.root), reporter);
    super::show_generation(&settings.root, reporter);
    let tally = Tally { flawed, ..done? };
    inventory.tidy_idle_plugins();
    counted.map_err(FatalError::could_not_run)?;
    let is_idle =
        tally == Tally { unchanged: inventory.entities.len(), ..Tally::default() } && !reporter.has_remarked();
    inventory.remembered.save(&inventory.plugins, &inventory.entities, database, settings, is_idle);
    reporter.event(Event::Applied(&tally, began.elapsed()));
    Ok(tally)
}

/// Returns true if all selected entities can be forgotten. Reports the others.
fn can_forget(inventory: &Inventory, selected: &Selected, reporter: &mut dyn Reporter) -> bool {
    let mut can = true;
    for (_, entity) in inventory.selected_of(selected) {
        let why = if !entity.is_orphan() {
            "it is defined, so that the next apply would manage it again; remove its definition first".to_owned()
        } else if !inventory.plugins[entity.plugin].forgets() {
            format!("the plugin {} does not support that", entity.plugin_id())
        } else {
            continue;
        };
        can = false;
        reporter.error(format!("cannot forget {}: {why}", entity.id()));
    }
    can
}

/// Takes the lock, waiting for other applies as long as the arguments say.
fn lock_up(
    arguments: &Apply,
    settings: &Settings,
    interrupt: &Interrupt,
    reporter: &mut dyn Reporter,
) -> Result<Lock, FatalError> {
    let path = settings.root.lock();
    let acquired = lock::acquire_within(arguments.wait.unwrap_or_default(), &path, interrupt)?;
    if acquired.as_ref().is_err_and(LockError::is_held) && settings.is_in_transaction() {
        reporter.warning("Another apply is running; the next apply does the work of this one");
        reporter.end_paragraph();
        return Err(FatalError::LeftToTheNext);
    }
    let lock = take(acquired, &path, reporter)?;
    generations::tidy(&settings.root);
    if settings.is_offline {
        leave_to_first_boot(&settings.root)?;
    }
    Ok(lock)
}

/// Has the system apply everything when it boots. What is deferred is due then, and facts may differ from those of the machine on which
/// the system was changed.
fn leave_to_first_boot(root: &Root) -> Result<(), FatalError> {
    let file = root.first_boot();
    let create = || {
        root.create_states()?;
        DirBuilder::new().recursive(true).mode(0o700).create(root.engine_state())?;
        File::create(&file)?.sync_all()
    };
    create().map_err(|error| FatalError::io("create", &file, error))
}

/// Takes the lock.
pub(super) fn acquire(path: &Path, reporter: &mut dyn Reporter) -> Result<Lock, FatalError> {
    take(Lock::acquire(path), path, reporter)
}

/// Reports a lock that was taken over or could not be acquired.
fn take(acquired: Result<Acquired, LockError>, path: &Path, reporter: &mut dyn Reporter) -> Result<Lock, FatalError> {
    let acquired = acquired.map_err(|error| refused(&error, reporter))?;
    if let Some(pid) = acquired.taken_over_from {
        let path = path.display();
        // A process of ours that has the same number as the one that has ended.
        let command = lock::command_of(pid).filter(|_| pid.unsigned_abs() != std::process::id());
        let owner = match command {
            Some(command) => format!("process {pid}, which is {command} and not holo"),
            None => format!("process {pid}, which does not exist any more"),
        };
        reporter.warning(format!("Taking over lock file {path} from {owner}"));
        reporter.end_paragraph();
    }
    Ok(acquired.lock)
}

fn refused(error: &LockError, reporter: &mut dyn Reporter) -> FatalError {
    reporter.error(error.to_string());
    if error.is_held() {
        reporter.explain("This usually means that another instance of Holo is currently running.");
        reporter.explain("If not, you can try to delete the lock file manually.");
        return FatalError::Busy(error.holder());
    }
    if !rustix::process::geteuid().is_root() {
        reporter.advise("apply must be run as root");
    }
    FatalError::Reported
}

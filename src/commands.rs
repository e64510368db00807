//! The verbs, one file each, from parsed arguments to an exit code.

mod adopt;
mod apply;
mod blame;
mod check;
mod completion;
mod data;
mod definitions;
mod diff;
mod doctor;
mod facts;
mod forget;
mod generations;
mod graph;
mod health;
mod history;
mod inputs;
mod manual;
mod plugin_check;
mod repairs;
mod report;
mod rollback;
mod scan;
mod scrub;
mod selectors;
mod state;
mod status;
mod test;
mod watch;
mod why;

use crate::cli::{self, PluginVerb, Verb};
use crate::discovery::inventory::Inventory;
use crate::discovery::trust::Inspector;
use crate::entities::Entity;
use crate::error::{FatalError, exit};
use crate::generations::{Pin, Store};
use crate::host::interrupt::Interrupt;
use crate::host::memory;
use crate::host::root::Root;
use crate::host::settings::Settings;
use crate::plan::select::{self, Selected};
use crate::report::table::Cell;
use crate::report::{Event, Remarks, Report, Reporter, Severity};
use bstr::ByteSlice;
use holo_definitions::did_you_mean;
use holo_events::Tally;
use holo_facts::Knowledge;
use holo_system::offline::{self, InsideError};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

pub(crate) use manual::open as open_manual;

/// The context of every verb.
struct Context<'a> {
    settings: Settings,
    interrupt: &'a Interrupt,
    reporter: &'a mut dyn Reporter,
}

/// Runs the verb, and returns its exit code.
#[must_use]
pub(crate) fn run(verb: Verb, mut settings: Settings, report: &mut Report) -> u8 {
    settings.gives_hints = report.gives_hints();
    if let Some(root) = verb.root() {
        return conclude_inside(offline::run_inside(root, arguments_inside(&settings.command_line)), report);
    }
    match verb {
        Verb::Help(_) => show(&cli::usage(), report),
        Verb::Version => show(concat!(env!("CARGO_PKG_VERSION"), "\n"), report),
        Verb::Completion(arguments) => show(&completion::script(arguments.shell), report),
        Verb::Test(arguments) => {
            let done = test::run(&arguments, report);
            conclude(&done, report)
        }
        Verb::Apply(arguments) => with_inputs(settings, report, |context| apply::run(&arguments, context)),
        Verb::Status(arguments) => with_context(settings, report, |context| status::run(&arguments, context)),
        Verb::Check(arguments) => with_inputs(settings, report, |context| check::run(&arguments, context)),
        Verb::Health(arguments) => with_inputs(settings, report, |context| health::run(&arguments, context)),
        Verb::Diff(arguments) => with_inputs(settings, report, |context| diff::run(&arguments, context)),
        Verb::Adopt(arguments) => with_inputs(settings, report, |context| {
            refuse_if_pinned("adopt", context)?;
            adopt::run(&arguments, context)
        }),
        Verb::Scan(arguments) => with_inputs(settings, report, |context| scan::run(&arguments, context)),
        Verb::Facts(arguments) => with_inputs(settings, report, |context| facts::run(&arguments, context)),
        Verb::Data(arguments) => with_inputs(settings, report, |context| data::run(&arguments, context)),
        Verb::Definitions(arguments) => with_inputs(settings, report, |context| definitions::run(&arguments, context)),
        Verb::Graph(arguments) => with_inputs(settings, report, |context| graph::run(&arguments, context)),
        Verb::Generations(arguments) => with_context(settings, report, |context| generations::run(&arguments, context)),
        Verb::Rollback(arguments) => with_context(settings, report, |context| rollback::run(&arguments, context)),
        Verb::Forget(arguments) => with_inputs(settings, report, |context| forget::run(&arguments, context)),
        Verb::Scrub(arguments) => with_context(settings, report, |context| scrub::run(&arguments, context)),
        Verb::Doctor(arguments) => with_inputs(settings, report, |context| doctor::run(&arguments, context)),
        Verb::Blame(arguments) => with_inputs(settings, report, |context| blame::run(&arguments, context)),
        Verb::Why(arguments) => with_inputs(settings, report, |context| why::run(&arguments, context)),
        Verb::Report(arguments) => with_inputs(settings, report, |context| report::run(&arguments, context)),
        Verb::State(arguments) => with_context(settings, report, |context| state::run(&arguments, context)),
        Verb::History(arguments) => with_context(settings, report, |context| history::run(&arguments, context)),
        Verb::Plugin(arguments) => match arguments.verb {
            PluginVerb::Check(arguments) => {
                with_context(settings, report, |context| plugin_check::run(&arguments, context))
            }
        },
        Verb::Watch(arguments) => {
            memory::give_back();
            settings.shows_differences = false;
            with_context(settings, report, |context| watch::run(&arguments, context))
        }
        Verb::Selectors(arguments) => with_inputs(settings, report, |context| selectors::run(&arguments, context)),
    }
}

/// Returns the arguments for the holo in a system: ours without `--root`.
fn arguments_inside(command_line: &[OsString]) -> Vec<OsString> {
    let mut words = command_line.iter().skip(1);
    let mut inside = Vec::new();
    while let Some(word) = words.next() {
        if word == "--" {
            inside.push(word.clone());
            inside.extend(words.by_ref().cloned());
        } else if word == "--root" {
            words.next();
        } else if !word.as_bytes().starts_with(b"--root=") {
            inside.push(word.clone());
        }
    }
    inside
}

/// Returns the exit code of the holo in a system, or reports why it could not be run.
fn conclude_inside(done: Result<u8, InsideError>, reporter: &mut dyn Reporter) -> u8 {
    done.unwrap_or_else(|error| conclude(&Err(FatalError::could_not_run(error)), reporter))
}

/// Shows a person who gives no command what is known about the machine.
pub(crate) fn greet(settings: &Settings, report: &mut Report) {
    if report.is_seen_by_person()
        && let Some(text) = status::at_a_glance(settings)
    {
        show(&String::from_utf8_lossy(&[text, b"\n".to_vec()].concat()), report);
    }
}

/// Runs a verb that must clean up after itself even when it is interrupted.
fn with_context(
    mut settings: Settings,
    reporter: &mut dyn Reporter,
    act: impl FnOnce(&mut Context<'_>) -> Result<u8, FatalError>,
) -> u8 {
    if let Some(problem) = settings.problem.take() {
        return conclude(&Err(FatalError::could_not_run(problem)), reporter);
    }
    match Interrupt::install() {
        Ok(interrupt) => {
            let mut context = Context { settings, interrupt: &interrupt, reporter };
            let done = act(&mut context);
            conclude(&done, context.reporter)
        }
        Err(error) => conclude(&Err(FatalError::could_not_run(error)), reporter),
    }
}

/// Like [`with_context`], but with the effective inputs: the current ones, or those of the generation that the system
/// was rolled back to.
fn with_inputs(
    settings: Settings,
    reporter: &mut dyn Reporter,
    act: impl FnOnce(&mut Context<'_>) -> Result<u8, FatalError>,
) -> u8 {
    with_context(settings, reporter, |context| {
        let Context { settings, reporter, .. } = context;
        use_pinned(settings, *reporter)?;
        act(context)
    })
}

/// Switches to the inputs of the pinned generation, if there is one, and reports it.
fn use_pinned(settings: &mut Settings, reporter: &mut dyn Reporter) -> Result<(), FatalError> {
    settings.root = settings.root.today();
    let Some((pin, lock)) = Pin::read_and_lock(&settings.root).map_err(FatalError::could_not_run)? else {
        return Ok(());
    };
    let generation = pin.generation(&settings.root).map_err(FatalError::could_not_run)?;
    settings.root = settings.root.clone().with_inputs(pin.inputs(&settings.root), lock);
    let time = Cell::Time(generation.time).for_people();
    let text = format!("using generation {} of {time} until `holo rollback --release`", pin.generation);
    reporter.event(Event::Aside(Severity::Warning, &text));
    Ok(())
}

/// Reports the generation in use, or else the newest one, if it can be read.
fn show_generation(root: &Root, reporter: &mut dyn Reporter) {
    let used = Pin::read(root).ok().flatten().map(|pin| pin.generation);
    let newest = || Store::new(root).numbers().ok()?.last().copied();
    used.or_else(newest).iter().for_each(|number| reporter.event(Event::Generation(*number)));
}

/// Shows a run over all entities in which each of them is known to be in its desired state.
fn show_settled(entities: usize, settings: &Settings, reporter: &mut dyn Reporter) -> Tally {
    reporter.event(Event::WorkBegins { forgets: false });
    reporter.event(Event::Settled(entities));
    reporter.event(Event::RefreshesDue(0));
    show_generation(&settings.root, reporter);
    Tally { unchanged: entities, ..Tally::default() }
}

/// Refuses a command that would write inputs while a generation's inputs, which are immutable, are in use.
fn refuse_if_pinned(verb: &'static str, context: &Context<'_>) -> Result<(), FatalError> {
    match context.settings.root.inputs() {
        None => Ok(()),
        Some(_) => Err(FatalError::could_not_run(PinnedError(verb))),
    }
}

/// The command is not possible while a generation is in use.
#[derive(Debug, thiserror::Error)]
#[error("cannot {0} while a generation is used; `holo rollback --release` uses today's inputs again")]
struct PinnedError(&'static str);

/// Reports the end of a run, and returns its exit code.
fn conclude(done: &Result<u8, FatalError>, reporter: &mut dyn Reporter) -> u8 {
    let (exit_code, fatal) = match done {
        Ok(exit_code) => (*exit_code, None),
        Err(fatal) => (fatal.exit_code(), Some(fatal)),
    };
    reporter.event(Event::RunEnds(exit_code, fatal));
    exit_code
}

/// Returns the exit code of a read-only verb.
fn exit_code(has_failed: bool, exit_zero: bool, settings: &Settings) -> u8 {
    if has_failed && !exit_zero && !settings.exits_zero() { exit::FAILED } else { exit::DONE }
}

/// Returns the facts and data of the machine. The files that determine them are checked first, unless the calling run has
/// done that.
fn knowledge(settings: &Settings, reporter: &mut dyn Reporter) -> Result<Knowledge, FatalError> {
    if settings.facts.is_none() {
        Inspector::new(&settings.root).check_inputs(reporter)?;
    }
    Ok(settings.knowledge())
}

/// Prints the text that a verb was asked for.
fn show(text: &str, reporter: &mut dyn Reporter) -> u8 {
    reporter.event(Event::Text(text.as_bytes()));
    exit::DONE
}

/// Returns the entities that the command line selects.
fn select(
    verb: &str,
    inventory: &Inventory,
    selectors: &[OsString],
    reporter: &mut dyn Reporter,
) -> Result<Selected, FatalError> {
    let plugins: Vec<&str> = inventory.plugins.iter().map(|plugin| &*plugin.id).collect();
    select::select(&inventory.entities, &plugins, selectors, &inventory.root).map_err(|unknown| {
        for selector in &unknown {
            reporter.event(Event::UnknownSelector(selector.as_bstr()));
        }
        let known = select::all(&inventory.entities);
        let known = known.iter().filter_map(|known| known.to_str().ok()).chain(plugins);
        let options = cli::options_of(verb);
        let known: Vec<&str> = known.chain(options.iter().map(String::as_str)).collect();
        let hints = unknown.iter().filter_map(|selector| did_you_mean(&selector.to_str_lossy(), known.iter().copied()));
        hints.for_each(|hint| reporter.advise(hint));
        FatalError::Reported
    })
}

/// Reports conflicts that involve a selected entity. Returns true if there are any.
fn show_conflicts(inventory: &Inventory, selected: &Selected, reporter: &mut dyn Reporter) -> bool {
    let mut any = false;
    for conflict in inventory.plan.conflicts() {
        let owners = conflict.owners.iter().filter(|&&owner| selected.contains(owner));
        let owners: Vec<&Entity> = owners.map(|&owner| &inventory.entities[owner]).collect();
        if !owners.is_empty() {
            reporter.event(Event::Conflict(&owners, &conflict.describe(&inventory.entities)));
            any = true;
        }
    }
    if any {
        reporter.end_paragraph();
    }
    any
}

/// Warns about entity IDs in the definitions of the selected entities that no entity has.
fn show_slips(inventory: &Inventory, selected: &Selected, reporter: &mut dyn Reporter) {
    let slips = inventory.dangling.iter().filter(|dangling| selected.contains(dangling.entity));
    let mut any = false;
    for dangling in slips {
        reporter.event(Event::About(Some(&inventory.entities[dangling.entity])));
        reporter.warning(dangling.describe(&inventory.entities));
        reporter.event(Event::About(None));
        any = true;
    }
    if any {
        reporter.end_paragraph();
    }
}

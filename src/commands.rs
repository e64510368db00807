//! The verbs, each in a file of its own: from what the command line says to an exit code.

mod apply;
mod check;
mod completion;
mod data;
mod diff;
mod facts;
mod graph;
mod plugin_check;
mod scan;
mod selectors;
mod test;
mod values;

use crate::cli::{self, PluginVerb, Verb};
use crate::error::Fatal;
use crate::exit;
use crate::interrupt::Interrupt;
use crate::inventory::Inventory;
use crate::report::Console;
use crate::select;
use crate::settings::Settings;
use bstr::ByteSlice;
use holo_definitions::did_you_mean;
use holo_protocol::session::Stream;
use holo_protocol::words;
use std::ffi::OsString;

/// The context of every verb.
struct Context {
    settings: Settings,
    interrupt: Interrupt,
    console: Console,
}

/// Does what the verb says.
#[must_use]
pub(crate) fn run(verb: Verb, settings: Settings, mut console: Console) -> u8 {
    if verb.is_json() {
        console.set_json();
    }
    match verb {
        Verb::Help(_) => finish(console, &cli::usage()),
        Verb::Version => finish(console, concat!(env!("CARGO_PKG_VERSION"), "\n")),
        Verb::Completion(arguments) => finish(console, &completion::script(arguments.shell)),
        Verb::Test(arguments) => {
            let done = test::run(&arguments, &mut console);
            conclude(done, console)
        }
        Verb::Apply(arguments) => with_context(settings, console, |desk| apply::run(&arguments, desk)),
        Verb::Check(arguments) => with_context(settings, console, |desk| check::run(&arguments, desk)),
        Verb::Diff(arguments) => with_context(settings, console, |desk| diff::run(&arguments, desk)),
        Verb::Scan(arguments) => with_context(settings, console, |desk| scan::run(&arguments, desk)),
        Verb::Facts(arguments) => with_context(settings, console, |desk| facts::run(&arguments, desk)),
        Verb::Data(arguments) => with_context(settings, console, |desk| data::run(&arguments, desk)),
        Verb::Graph(arguments) => with_context(settings, console, |desk| graph::run(&arguments, desk)),
        Verb::Plugin(arguments) => match arguments.verb {
            PluginVerb::Check(arguments) => with_context(settings, console, |desk| plugin_check::run(&arguments, desk)),
        },
        Verb::Selectors(_) => with_context(settings, console, selectors::run),
    }
}

/// Does what has to clean up behind itself, whatever ends it.
fn with_context(mut settings: Settings, console: Console, act: impl FnOnce(&mut Context) -> Result<u8, Fatal>) -> u8 {
    if let Some(problem) = settings.problem.take() {
        return conclude(Err(Fatal::CouldNotRun(problem)), console);
    }
    let interrupt = Interrupt::install()
        .map_err(|error| Fatal::CouldNotRun(format!("cannot catch signals: {}", words::reason(&error))));
    match interrupt {
        Ok(interrupt) => {
            let mut desk = Context { settings, interrupt, console };
            let done = act(&mut desk);
            conclude(done, desk.console)
        }
        Err(fatal) => conclude(Err(fatal), console),
    }
}

fn conclude(done: Result<u8, Fatal>, mut console: Console) -> u8 {
    let (code, broken_off) = match done {
        Ok(code) => (code, None),
        Err(fatal) => {
            // This is about the run, not the entity at work.
            console.set_entity(None);
            if let Some(message) = fatal.message() {
                console.error(message);
            }
            if matches!(fatal, Fatal::Generator(_)) {
                // As in version 3, which ends no paragraph for other reasons.
                console.end_paragraph();
            }
            (fatal.exit_code(), Some(fatal.to_string()))
        }
    };
    console.summary(code, broken_off.as_deref());
    end(console, code)
}

/// Returns the exit code of a verb that changes nothing.
fn exit_code(has_failed: bool, exit_zero: bool, settings: &Settings) -> u8 {
    if has_failed && !exit_zero && !settings.exit_zero { exit::FAILED } else { exit::DONE }
}

/// Shows a text that was asked for.
pub(crate) fn finish(mut console: Console, text: &str) -> u8 {
    console.raw(Stream::Stdout, text.as_bytes());
    end(console, exit::DONE)
}

/// Ends the output. Output that was lost makes the best run one that could not be done.
fn end(console: Console, code: u8) -> u8 {
    match console.finish() {
        Ok(()) => code,
        Err(error) => {
            use std::io::Write;
            let message = format!("!! cannot write to standard output: {}\n", words::reason(&error));
            // If stderr is gone too, the exit code is all that is left.
            let _ = std::io::stderr().write_all(message.as_bytes());
            exit::COULD_NOT_RUN
        }
    }
}

/// Returns the entities that the command line selects.
fn select(
    verb: &str,
    inventory: &Inventory,
    selectors: &[OsString],
    console: &mut Console,
) -> Result<Vec<bool>, Fatal> {
    let plugins: Vec<&str> = inventory.plugins.iter().map(|plugin| &*plugin.id).collect();
    select::select(&inventory.entities, &plugins, selectors).map_err(|unknown| {
        for selector in &unknown {
            console.raw_error([b"Unrecognized argument: ", &selector[..]].concat());
        }
        if console.person_reads_errors() {
            let known = select::all(&inventory.entities);
            let known = known.iter().filter_map(|known| known.to_str().ok()).chain(plugins);
            let options = cli::options_of(verb);
            let known: Vec<&str> = known.chain(options.iter().map(String::as_str)).collect();
            let hints =
                unknown.iter().filter_map(|selector| did_you_mean(&selector.to_str_lossy(), known.iter().copied()));
            hints.for_each(|hint| console.advise(hint));
        }
        Fatal::Reported
    })
}

/// Says what the selected entities and others both claim; whether there is anything.
fn show_conflicts(inventory: &Inventory, selected: &[bool], console: &mut Console) -> bool {
    let is_selected = |owner: &&usize| selected.get(**owner) == Some(&true);
    let mut any = false;
    for conflict in inventory.plan.conflicts() {
        let owners: Vec<&usize> = conflict.owners.iter().filter(is_selected).collect();
        // People read it once, programs find it with each of the entities.
        let shown_with = if console.speaks_json() { owners.len() } else { owners.len().min(1) };
        for owner in owners.into_iter().take(shown_with) {
            let id = inventory.entities.get(*owner).map(|entity| entity.id().to_owned());
            let before = console.set_entity(id);
            console.error(conflict.describe(&inventory.entities));
            console.set_entity(before);
            any = true;
        }
    }
    if any {
        console.end_paragraph();
    }
    any
}

/// Warns of slips in the definitions of the selected entities: names of others that no entity has.
fn show_slips(inventory: &Inventory, selected: &[bool], console: &mut Console) {
    let slips = inventory.dangling.iter().filter(|dangling| selected.get(dangling.entity) == Some(&true));
    let mut any = false;
    for dangling in slips {
        let id = inventory.entities.get(dangling.entity).map(|entity| entity.id().to_owned());
        let before = console.set_entity(id);
        console.warning(dangling.describe(&inventory.entities));
        console.set_entity(before);
        any = true;
    }
    if any {
        console.end_paragraph();
    }
}

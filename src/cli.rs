//! The command line.

mod development;
mod earlier;
mod entities;
mod machine;
mod parse;
#[cfg(test)]
mod tests;

pub use development::{Completion, Definitions, Plugin, PluginCheck, PluginVerb, Shell, Test};
pub use earlier::{Generations, GenerationsDiff, GenerationsVerb, History, HistoryShow, HistoryVerb, Rollback};
pub use entities::{Adopt, Apply, Check, Diff, Graph, Health, Picture, Scan, Selectors, Watch};
pub use machine::{Blame, Data, Doctor, Facts, Report, State, StateVerb, Why};
pub use parse::{Arguments, options_of, parse, usage};

use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;

/// Asks every plugin which entities there are, and brings them into shape.
#[derive(Debug, Parser)]
#[command(
    name = "holo",
    bin_name = "holo",
    about = None,
    long_about = None,
    help_template = "{usage-heading} {usage}\n\n{all-args}\n\nMore is in holo(8).",
    version,
    disable_version_flag = true,
    disable_help_subcommand = true,
    subcommand_required = true
)]
pub struct Cli {
    /// Show the version
    #[arg(short = 'V', long, action = clap::ArgAction::Version)]
    version: Option<bool>,
    /// The command.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The command words.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Bring entities into their desired state
    Apply(Apply),
    /// Show what applying entities would do
    Check(Check),
    /// Run the health checks of entities
    Health(Health),
    /// Notice it when entities change, and put them right again if asked to
    Watch(Watch),
    /// Show what people changed since entities were last applied
    Diff(Diff),
    /// Keep what a person has done: write resource files that describe it
    Adopt(Adopt),
    /// Show which entities there are
    Scan(Scan),
    /// Show what earlier runs were told the system shall be
    Generations(Generations),
    /// Bring the system back to what it was told to be earlier
    Rollback(Rollback),
    /// Draw how entities depend on each other
    Graph(Graph),
    /// Find what is wrong, and say what to do about it
    Doctor(Doctor),
    /// Write a page of HTML about this machine
    Report(Report),
    /// List every string that selects something
    Selectors(Selectors),
    /// Show what is known of this machine
    Facts(Facts),
    /// Show what is said about this machine, in layers of files
    Data(Data),
    /// Show what manages a path or an entity, and why it is so
    Why(Why),
    /// Show where each line of a file has come from
    Blame(Blame),
    /// Show earlier applies, or what became of entities and paths
    History(History),
    /// Inspect, save or repair the state database
    State(State),
    /// Show what is defined for a plugin, as JSON: read, rendered and checked
    Definitions(Definitions),
    /// Run scenarios: folders that hold a root before, and what is expected
    Test(Test),
    /// Help with writing plugins
    Plugin(Plugin),
    /// Write a script that completes command lines in a shell
    Completion(Completion),
    /// Show the version
    Version,
    /// Show this help, or that of a command
    Help(Help),
}

/// `holo help`
#[derive(Debug, Args)]
pub struct Help {
    /// The command; all of them if there is none
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// The form of standard output.
#[derive(Debug, Args)]
pub struct Output {
    /// Write JSON Lines, for programs
    #[arg(long, global = true)]
    pub json: bool,
}

/// The entities that a command is about.
#[derive(Debug, Args)]
pub struct Selection {
    /// Entity IDs, plugin IDs, resource files or generators; everything if there is none
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<OsString>,
}

impl Verb {
    /// Returns true if JSON Lines are asked for.
    #[must_use]
    pub fn is_json(&self) -> bool {
        let output = match self {
            Verb::Apply(arguments) => &arguments.output,
            Verb::Check(arguments) => &arguments.output,
            Verb::Health(arguments) => &arguments.output,
            Verb::Watch(arguments) => &arguments.output,
            Verb::Diff(arguments) => &arguments.output,
            Verb::Adopt(arguments) => &arguments.output,
            Verb::Scan(arguments) => &arguments.output,
            Verb::Doctor(arguments) => &arguments.output,
            Verb::Selectors(arguments) => &arguments.output,
            Verb::Why(arguments) => &arguments.output,
            Verb::Blame(arguments) => &arguments.output,
            Verb::History(arguments) => match &arguments.verb {
                Some(HistoryVerb::Show(arguments)) => &arguments.output,
                None => &arguments.output,
            },
            Verb::Generations(arguments) => &arguments.output,
            Verb::Rollback(arguments) => &arguments.output,
            // A single value of JSON is not a line of a run.
            Verb::Facts(_) | Verb::Data(_) | Verb::Definitions(_) => return false,
            Verb::Graph(_)
            | Verb::Report(_)
            | Verb::State(_)
            | Verb::Test(_)
            | Verb::Plugin(_)
            | Verb::Completion(_)
            | Verb::Version
            | Verb::Help(_) => {
                return false;
            }
        };
        output.json
    }
}

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

/// The command line of `holo`.
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
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Bring entities into their desired state
    Apply(Apply),
    /// Show what applying entities would do
    Check(Check),
    /// Run the health checks of entities
    Health(Health),
    /// Watch for drift and optionally repair it
    Watch(Watch),
    /// Show manual changes since entities were last applied
    Diff(Diff),
    /// Write resource files that describe manual changes
    Adopt(Adopt),
    /// List all entities
    Scan(Scan),
    /// List saved configurations
    Generations(Generations),
    /// Return to a saved configuration
    Rollback(Rollback),
    /// Draw the dependencies between entities
    Graph(Graph),
    /// Find problems and suggest remedies
    Doctor(Doctor),
    /// Write an HTML report about this machine
    Report(Report),
    /// List all valid selectors
    Selectors(Selectors),
    /// Show facts about this machine
    Facts(Facts),
    /// Show the data of this machine, merged from layers of files
    Data(Data),
    /// Show what manages a path or an entity, and why
    Why(Why),
    /// Show the origin of each line of a file
    Blame(Blame),
    /// Show earlier applies, or the history of entities and paths
    History(History),
    /// Inspect, save or repair the state database
    State(State),
    /// Show the definitions of a plugin as JSON, rendered and checked
    Definitions(Definitions),
    /// Run scenarios: directories with an initial root and the expected results
    Test(Test),
    /// Test plugins during development
    Plugin(Plugin),
    /// Write a completion script for a shell
    Completion(Completion),
    /// Show the version
    Version,
    /// Show this help, or the help of a command
    Help(Help),
}

/// `holo help`
#[derive(Debug, Args)]
pub struct Help {
    /// The command; all commands if omitted
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// The format of standard output.
#[derive(Debug, Args)]
pub struct Output {
    /// Write JSON Lines
    #[arg(long, global = true)]
    pub json: bool,
}

/// The selected entities.
#[derive(Debug, Args)]
pub struct Selection {
    /// Entity IDs, plugin IDs, resource files or generators; all entities if omitted
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<OsString>,
}

impl Verb {
    /// Returns true if JSON Lines are requested.
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
            // A single JSON value is not a line of a run.
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

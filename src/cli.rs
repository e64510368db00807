//! The command line.

mod parse;
#[cfg(test)]
mod tests;

pub use parse::{Arguments, options_of, parse, usage};

use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

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

/// `holo apply`
#[derive(Debug, Args)]
pub struct Apply {
    /// Overwrite or restore what people changed or deleted
    #[arg(short, long)]
    pub force: bool,
    /// Only show what would be done, as `check` does
    #[arg(long)]
    pub dry_run: bool,
    /// Show what is changed as unified diffs, or would be
    #[arg(long)]
    pub diff: bool,
    /// Read everything anew, whatever is known to be unchanged
    #[arg(long)]
    pub verify: bool,
    /// Number of entities of a plugin to work on at a time [default: one a processor]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroU32>,
    /// End the run, as by a signal, when it takes longer: 90s, 1m30s, 1h
    #[arg(long, value_name = "DURATION", value_parser = holo_definitions::duration::parse)]
    pub timeout: Option<Duration>,
    /// Stop at the first entity that fails or is refused; entities are worked on one by one then
    #[arg(long)]
    pub fail_fast: bool,
    /// End with 0 even if entities fail or are refused, as version 3 did
    #[arg(long)]
    pub exit_zero: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The entities to apply
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo check`
#[derive(Debug, Args)]
pub struct Check {
    /// Show what would be changed as unified diffs
    #[arg(long)]
    pub diff: bool,
    /// Number of entities of a plugin to look at at a time [default: one a processor]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroU32>,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The entities to check
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo health`
#[derive(Debug, Args)]
pub struct Health {
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The entities whose checks are run
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo watch`
#[derive(Debug, Args)]
pub struct Watch {
    /// Apply entities that have changed
    #[arg(long)]
    pub apply: bool,
    /// Overwrite or restore what people changed or deleted, too
    #[arg(short, long, requires = "apply")]
    pub force: bool,
    /// Time that it has to be quiet before something is looked at
    #[arg(long, value_name = "DURATION", value_parser = holo_definitions::duration::parse, default_value = "200ms")]
    pub settle: Duration,
    /// End when something has happened, and was dealt with
    #[arg(long)]
    pub once: bool,
    /// End when nothing has changed for so long: 90s, 1m30s, 1h
    #[arg(long = "for", value_name = "DURATION", value_parser = holo_definitions::duration::parse)]
    pub converged: Option<Duration>,
    /// Number of entities of a plugin to work on at a time [default: one a processor]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroU32>,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The entities to watch
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo diff`
#[derive(Debug, Args)]
pub struct Diff {
    /// Show what applying entities would change instead
    #[arg(long)]
    pub pending: bool,
    /// End with 0 even if entities fail or definitions are broken, as version 3 did
    #[arg(long)]
    pub exit_zero: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The entities to diff
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo adopt`
#[derive(Debug, Args)]
pub struct Adopt {
    /// Adopt everything that plugins find on this machine and no resource file describes
    #[arg(long, conflicts_with = "selectors", required_unless_present = "selectors")]
    pub all: bool,
    /// Only show what would be written
    #[arg(long)]
    pub dry_run: bool,
    /// Open an editor where a person and the resource files have changed the same lines
    #[arg(long)]
    pub edit: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// Paths and entity IDs
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<OsString>,
}

/// `holo scan`
#[derive(Debug, Args)]
pub struct Scan {
    /// End with 0 even if definitions are broken, as version 3 did
    #[arg(long)]
    pub exit_zero: bool,
    /// Show only entity IDs
    #[arg(short, long, conflicts_with_all = ["porcelain", "json"])]
    pub short: bool,
    /// Show reports as plugins write them, for scripts
    #[arg(short, long, conflicts_with = "json")]
    pub porcelain: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The selected entities
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo generations`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Generations {
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The command; the list of all generations if there is none
    #[command(subcommand)]
    pub verb: Option<GenerationsVerb>,
}

/// The commands about generations.
#[derive(Debug, Subcommand)]
pub enum GenerationsVerb {
    /// Show how the inputs of a generation differ from those of another, or from today's
    Diff(GenerationsDiff),
}

/// `holo generations diff`
#[derive(Debug, Args)]
pub struct GenerationsDiff {
    /// The number of the first generation
    #[arg(value_name = "FROM")]
    pub from: u32,
    /// The number of the second generation; today's inputs if there is none
    #[arg(value_name = "TO")]
    pub to: Option<u32>,
}

/// `holo rollback`
#[derive(Debug, Args)]
pub struct Rollback {
    /// Only show what would be done
    #[arg(long, conflicts_with = "release")]
    pub dry_run: bool,
    /// Show what is changed as unified diffs, or would be
    #[arg(long, conflicts_with = "release")]
    pub diff: bool,
    /// Overwrite or restore what people changed or deleted
    #[arg(short, long, conflicts_with = "release")]
    pub force: bool,
    /// Use today's inputs again from the next apply on
    #[arg(long, conflicts_with = "generation")]
    pub release: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The number of the generation [default: the one before that which is used]
    #[arg(value_name = "GENERATION")]
    pub generation: Option<u32>,
}

/// `holo graph`
#[derive(Debug, Args)]
pub struct Graph {
    /// The language of the picture
    #[arg(long, value_enum, default_value = "dot")]
    pub format: Picture,
    /// End with 0 even if definitions are broken
    #[arg(long)]
    pub exit_zero: bool,
    /// The selected entities
    #[command(flatten)]
    pub selection: Selection,
}

/// The languages of pictures.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Picture {
    /// Graphviz's
    Dot,
    /// Mermaid's flowcharts
    Mermaid,
    /// A picture that needs no other program
    Svg,
}

/// `holo selectors`
#[derive(Debug, Args)]
pub struct Selectors {
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// List only those that begin so
    #[arg(long)]
    pub prefix: Option<OsString>,
}

/// `holo doctor`
#[derive(Debug, Args)]
pub struct Doctor {
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
}

/// `holo report`
#[derive(Debug, Args)]
pub struct Report {
    /// The file to write the page to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `holo facts`
#[derive(Debug, Args)]
pub struct Facts {
    /// Write a single value of JSON, for programs
    #[arg(long)]
    pub json: bool,
    /// The value to show, as in `os.id`; everything if there is none
    #[arg(value_name = "QUERY")]
    pub query: Option<String>,
}

/// `holo data`
#[derive(Debug, Args)]
pub struct Data {
    /// Say which files the values came from
    #[arg(long)]
    pub explain: bool,
    /// Write a single value of JSON, for programs
    #[arg(long)]
    pub json: bool,
    /// The value to show, as in `web.port`; everything if there is none
    #[arg(value_name = "KEY")]
    pub key: Option<String>,
}

/// `holo blame`
#[derive(Debug, Args)]
pub struct Blame {
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The path of a file, or the ID of the entity that it is
    #[arg(value_name = "SELECTOR", required = true)]
    pub subject: OsString,
}

/// `holo why`
#[derive(Debug, Args)]
pub struct Why {
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// A path, an entity ID, or the part of IDs behind the colon
    #[arg(value_name = "SELECTOR", required = true)]
    pub subject: OsString,
}

/// `holo history`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct History {
    /// Number of lines at most; 0 for all
    #[arg(short, long, value_name = "N", default_value_t = 20)]
    pub number: usize,
    /// Leave out what was before: 12h, 7d, 2026-11-22, "2026-11-22 09:14", yesterday
    #[arg(long, value_name = "TIME", value_parser = crate::time::parse)]
    pub since: Option<jiff::Timestamp>,
    /// Show only what failed, was refused or interrupted
    #[arg(long)]
    pub failed: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The command.
    #[command(subcommand)]
    pub verb: Option<HistoryVerb>,
    /// Entity IDs, plugin IDs or paths; the runs themselves if there is none
    // Another name would have them moved behind the options, and `show` with them.
    #[arg(value_name = "SELECTOR")]
    pub subjects: Vec<OsString>,
}

/// The commands about earlier applies.
#[derive(Debug, Subcommand)]
pub enum HistoryVerb {
    /// Show what a run did
    Show(HistoryShow),
}

/// `holo history show`
#[derive(Debug, Args)]
pub struct HistoryShow {
    /// Show the differences that it made
    #[arg(long)]
    pub diff: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The run, by the beginning of its ID; the last one if there is none
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
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

/// `holo definitions`
#[derive(Debug, Args)]
pub struct Definitions {
    /// Show values that are encrypted in data; plugins that call this are always given them
    #[arg(long)]
    pub show_secrets: bool,
    /// The plugin's ID
    #[arg(value_name = "PLUGIN")]
    pub plugin: String,
}

/// `holo test`
#[derive(Debug, Args)]
pub struct Test {
    /// Write what comes out as what is expected
    #[arg(long)]
    pub bless: bool,
    /// Number of scenarios to run at a time [default: one a processor]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
    /// Folders of scenarios
    #[arg(value_name = "DIR", required = true)]
    pub scenarios: Vec<PathBuf>,
}

/// `holo plugin`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Plugin {
    /// The command.
    #[command(subcommand)]
    pub verb: PluginVerb,
}

/// The commands about plugins.
#[derive(Debug, Subcommand)]
pub enum PluginVerb {
    /// Put a plugin through its paces, and say where it breaks the interface
    Check(PluginCheck),
}

/// `holo plugin check`
#[derive(Debug, Args)]
pub struct PluginCheck {
    /// Resource directory of the plugin [default: its static one]
    #[arg(long, value_name = "DIR")]
    pub resources: Option<PathBuf>,
    /// Contents of the root in which the plugin is tried [default: nothing]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Time limit of a call: 10s, 5m
    #[arg(long, value_name = "DURATION", value_parser = holo_definitions::duration::parse, default_value = "10s")]
    pub timeout: Duration,
    /// The plugin's program
    #[arg(value_name = "PATH")]
    pub program: PathBuf,
}

/// `holo completion`
#[derive(Debug, Args)]
pub struct Completion {
    /// The shell to write it for
    #[arg(value_enum)]
    pub shell: Shell,
}

/// The shells that command lines can be completed in.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[expect(missing_docs, reason = "the names are the documentation")]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
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

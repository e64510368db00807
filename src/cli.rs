//! The command line.

pub mod parse;

use clap::{Args, Parser, Subcommand};
use holo_protocol::OnEdit;
use std::ffi::OsString;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use parse::{Arguments, options_of, parse, usage};

/// The command line of `holo`.
#[derive(Debug, Parser)]
#[command(
    name = "holo",
    bin_name = "holo",
    about = None,
    long_about = None,
    version,
    disable_version_flag = true,
    disable_help_subcommand = true,
    args_override_self = true,
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
    /// Show whether this machine is in its desired state, and what to do next
    Status(Status),
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
    /// Restore the original state of everything that is managed
    Scrub(Scrub),
    /// Drop the records of entities that no resource file defines any more
    Forget(Forget),
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
    /// Show this help, or the manual page of a command
    Help(Help),
}

/// The verbs in the order of the help.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Every day", &["status", "check", "apply", "diff", "watch", "health"]),
    ("Understand", &["why", "blame", "history", "graph", "report", "doctor"]),
    ("Go back", &["rollback", "generations", "scrub", "forget"]),
    ("Write", &["adopt", "scan", "selectors", "definitions", "facts", "data", "state"]),
    ("For authors", &["test", "plugin"]),
    ("Other", &["completion", "version", "help"]),
];

/// The manual page of each verb, with its section. Those of the remaining verbs are in `holo(8)`.
const PAGES: [(&str, &[&str]); 15] = [
    ("holo-adopt.8", &["adopt"]),
    ("holo-apply.8", &["apply"]),
    ("holo-check.8", &["check", "diff"]),
    ("holo-definitions.5", &["definitions"]),
    ("holo-doctor.8", &["doctor", "health", "report"]),
    ("holo-facts.7", &["facts", "data"]),
    ("holo-history.8", &["history", "why", "blame"]),
    ("holo-plugin.8", &["plugin"]),
    ("holo-rollback.8", &["rollback", "generations", "scrub", "forget"]),
    ("holo-scan.8", &["scan", "selectors", "graph"]),
    ("holo-state.8", &["state"]),
    ("holo-status.8", &["status"]),
    ("holo-test.7", &["test"]),
    ("holo-watch.8", &["watch"]),
    ("holo.8", &["completion", "version", "help"]),
];

/// Returns the file name of the manual page that describes a verb.
#[must_use]
pub fn manual_page(verb: &str) -> Option<&'static str> {
    PAGES.iter().find(|(_, verbs)| verbs.contains(&verb)).map(|(page, _)| *page)
}

/// `holo help`
#[derive(Debug, Args)]
pub struct Help {
    /// The command; all commands if omitted
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// The format of standard output.
#[derive(Debug, Default, Args)]
pub struct Output {
    /// Write JSON Lines
    #[arg(long, global = true)]
    pub json: bool,
}

/// The system that a command concerns.
#[derive(Debug, Default, Args)]
pub struct System {
    /// The root of a system that is not running, such as that of an image [default: the running system]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// The selected entities.
#[derive(Debug, Default, Args)]
pub struct Selection {
    /// Entity IDs, plugin IDs, resource files or generators; all entities if omitted
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<OsString>,
}

impl Verb {
    /// Returns the root that `--root` names.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        let system = match self {
            Verb::Status(arguments) => &arguments.system,
            Verb::Apply(arguments) => &arguments.system,
            Verb::Check(arguments) => &arguments.system,
            Verb::Diff(arguments) => &arguments.system,
            Verb::Scan(arguments) => &arguments.system,
            _ => return None,
        };
        system.root.as_deref()
    }

    /// Returns true if JSON Lines are requested.
    #[must_use]
    pub fn is_json(&self) -> bool {
        let output = match self {
            Verb::Status(arguments) => &arguments.output,
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
                Some(HistoryVerb::Edited(arguments)) => &arguments.output,
                None => &arguments.output,
            },
            Verb::Generations(arguments) => &arguments.output,
            Verb::Rollback(arguments) => &arguments.output,
            Verb::Scrub(arguments) => &arguments.output,
            Verb::Forget(arguments) => &arguments.output,
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

/// `holo status`
#[derive(Debug, Args)]
pub struct Status {
    /// Check all entities now, instead of telling what the last check or apply found
    #[arg(long)]
    pub fresh: bool,
    /// The system
    #[command(flatten)]
    pub system: System,
    /// The output format
    #[command(flatten)]
    pub output: Output,
}

/// `holo definitions`
#[derive(Debug, Args)]
pub struct Definitions {
    /// Decrypt the values that are encrypted in data; always on if a plugin calls this command
    #[arg(long)]
    pub show_secrets: bool,
    /// The ID of the plugin
    #[arg(value_name = "PLUGIN")]
    pub plugin: String,
}

/// `holo test`
#[derive(Debug, Args)]
pub struct Test {
    /// Replace the expected output with the actual output
    #[arg(long)]
    pub bless: bool,
    /// Number of scenarios to run concurrently [default: number of processors]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Scenario directories
    #[arg(value_name = "DIR", required = true)]
    pub scenarios: Vec<PathBuf>,
}

/// `holo plugin`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Plugin {
    /// The subcommand.
    #[command(subcommand)]
    pub verb: PluginVerb,
}

/// The subcommands of `holo plugin`.
#[derive(Debug, Subcommand)]
pub enum PluginVerb {
    /// Test whether a plugin conforms to the interface
    Check(PluginCheck),
}

/// `holo plugin check`
#[derive(Debug, Args)]
pub struct PluginCheck {
    /// Resource directory of the plugin [default: its static one]
    #[arg(long, value_name = "DIR")]
    pub resources: Option<PathBuf>,
    /// Initial contents of the root in which the plugin is tested [default: empty]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Time limit of each call: 10s, 5m
    #[arg(long, value_name = "DURATION", value_parser = holo_definitions::duration::parse, default_value = "10s")]
    pub timeout: Duration,
    /// The program of the plugin
    #[arg(value_name = "PATH")]
    pub program: PathBuf,
}

/// `holo completion`
#[derive(Debug, Args)]
pub struct Completion {
    /// The shell to write the script for
    #[arg(value_enum)]
    pub shell: Shell,
}

/// The supported shells.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[expect(missing_docs, reason = "the names are the documentation")]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// `holo generations`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Generations {
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The subcommand; lists all generations if omitted
    #[command(subcommand)]
    pub verb: Option<GenerationsVerb>,
}

/// The subcommands of `holo generations`.
#[derive(Debug, Subcommand)]
pub enum GenerationsVerb {
    /// Show how the inputs of a generation differ from those of another, or from the current ones
    Diff(GenerationsDiff),
}

/// `holo generations diff`
#[derive(Debug, Args)]
pub struct GenerationsDiff {
    /// The number of the first generation
    #[arg(value_name = "FROM")]
    pub from: u32,
    /// The number of the second generation [default: the current inputs]
    #[arg(value_name = "TO")]
    pub to: Option<u32>,
}

/// `holo rollback`
#[derive(Debug, Args)]
pub struct Rollback {
    /// Only show what would be done
    #[arg(long, conflicts_with = "release")]
    pub dry_run: bool,
    /// Show changes, or pending changes, as unified diffs
    #[arg(long, conflicts_with = "release")]
    pub diff: bool,
    /// Overwrite manual changes, and restore deleted files
    #[arg(short, long, conflicts_with = "release")]
    pub force: bool,
    /// Use the current inputs again, from the next apply on
    #[arg(long, conflicts_with = "generation")]
    pub release: bool,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The number of the generation [default: the one before that in use]
    #[arg(value_name = "GENERATION")]
    pub generation: Option<u32>,
}

/// `holo scrub`
#[derive(Debug, Args)]
pub struct Scrub {
    /// Confirm that this concerns every entity
    #[arg(long, required = true)]
    pub all: bool,
    /// Only show what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Show changes, or pending changes, as unified diffs
    #[arg(long)]
    pub diff: bool,
    /// Overwrite manual changes, and restore deleted files
    #[arg(short, long)]
    pub force: bool,
    /// The output format
    #[command(flatten)]
    pub output: Output,
}

/// `holo forget`
#[derive(Debug, Args)]
pub struct Forget {
    /// Leave the system as it is (the default)
    #[arg(long)]
    pub keep: bool,
    /// Restore the original state first, like `apply --force`
    #[arg(long, conflicts_with = "keep")]
    pub restore: bool,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The IDs of the entities
    #[arg(value_name = "ENTITY", required = true)]
    pub entities: Vec<OsString>,
}

/// `holo history`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct History {
    /// Maximum number of lines; 0 for all
    #[arg(short, long, value_name = "N", default_value_t = 20)]
    pub number: usize,
    /// Leave out earlier runs: 12h, 7d, 2026-11-22, "2026-11-22 09:14", yesterday
    #[arg(long, value_name = "TIME", value_parser = parse::parse_time)]
    pub since: Option<jiff::Timestamp>,
    /// Show only failures, refusals and interruptions
    #[arg(long)]
    pub failed: bool,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The subcommand.
    #[command(subcommand)]
    pub verb: Option<HistoryVerb>,
    /// Entity IDs, plugin IDs or paths; lists runs if omitted
    // With another name it would be moved behind the options, and `show` with it.
    #[arg(value_name = "SELECTOR")]
    pub subjects: Vec<OsString>,
}

/// The subcommands of `holo history`.
#[derive(Debug, Subcommand)]
pub enum HistoryVerb {
    /// Show the details of a run
    Show(HistoryShow),
    /// List what people had edited before it was overwritten, or write one of these versions
    Edited(HistoryEdited),
}

/// `holo history edited`
#[derive(Debug, Args)]
pub struct HistoryEdited {
    /// The file to write; standard output if omitted
    #[arg(long = "output", value_name = "FILE", requires = "entity", conflicts_with = "json")]
    pub file: Option<PathBuf>,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The entity whose version is written; lists all versions if omitted
    #[arg(value_name = "ENTITY")]
    pub entity: Option<OsString>,
    /// The number of the version in the list [default: 1, the latest]
    #[arg(value_name = "N")]
    pub number: Option<NonZeroUsize>,
}

/// `holo history show`
#[derive(Debug, Args)]
pub struct HistoryShow {
    /// Show the differences that it made
    #[arg(long)]
    pub diff: bool,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The run, as a unique prefix of its ID [default: the last one]
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
}

/// The option for entities that a person has changed.
#[derive(Debug, Default, Args)]
pub struct EditPolicy {
    /// What to do with manual changes, unless the definition has on_edit: refuse them, or keep a copy and overwrite
    #[arg(long, value_name = "POLICY", value_parser = parse::on_edit())]
    pub on_edit: Option<OnEdit>,
}

/// `holo apply`
#[derive(Debug, Default, Args)]
pub struct Apply {
    /// Overwrite manual changes, and restore deleted files
    #[arg(short, long)]
    pub force: bool,
    /// Only show what would be done, like `check`
    #[arg(long)]
    pub dry_run: bool,
    /// Show changes, or pending changes, as unified diffs
    #[arg(long)]
    pub diff: bool,
    /// Read everything again, including files that are known to be unchanged
    #[arg(long)]
    pub verify: bool,
    /// What happens to entities that a person has changed
    #[command(flatten)]
    pub policy: EditPolicy,
    /// Number of entities of a plugin to apply concurrently [default: number of processors]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroU32>,
    /// End the run after this time, as if by a signal: 90s, 1m30s, 1h
    #[arg(long, value_name = "DURATION", value_parser = holo_definitions::duration::parse)]
    pub timeout: Option<Duration>,
    /// Wait up to this time for another apply to end
    #[arg(long, value_name = "DURATION", value_parser = holo_definitions::duration::parse)]
    pub wait: Option<Duration>,
    /// Stop at the first entity that fails or is refused; applies entities one at a time
    #[arg(long)]
    pub fail_fast: bool,
    /// Exit with 0 even if entities fail or are refused, like version 3
    #[arg(long)]
    pub exit_zero: bool,
    /// For the agent: nobody has asked for this run, so limits on repairs hold, and what acts at every apply does so
    /// once in this time
    #[arg(long, hide = true, value_name = "DURATION", value_parser = holo_definitions::duration::parse)]
    pub unattended: Option<Duration>,
    /// For the agent: an entity whose health is critical
    #[arg(long, hide = true, value_name = "ENTITY", requires = "unattended")]
    pub critical: Vec<OsString>,
    /// Whether a watch repairs what has drifted
    #[arg(skip)]
    pub is_of_watch: bool,
    /// Whether the records of the entities are dropped, as by `holo forget`
    #[arg(skip)]
    pub forgets: bool,
    /// The system
    #[command(flatten)]
    pub system: System,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The entities to apply
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo check`
#[derive(Debug, Args)]
pub struct Check {
    /// Show pending changes as unified diffs
    #[arg(long)]
    pub diff: bool,
    /// Preview the installation of the resource files, configuration and data below this directory, such as those of a
    /// package
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "root")]
    pub with: Option<PathBuf>,
    /// Preview the removal of this resource file, or directory
    #[arg(long, value_name = "PATH")]
    pub without: Vec<PathBuf>,
    /// What happens to entities that a person has changed
    #[command(flatten)]
    pub policy: EditPolicy,
    /// Number of entities of a plugin to check concurrently [default: number of processors]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroU32>,
    /// The system
    #[command(flatten)]
    pub system: System,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The entities to check
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo health`
#[derive(Debug, Args)]
pub struct Health {
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The entities whose checks are run
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo watch`
#[derive(Debug, Args)]
pub struct Watch {
    /// Repair entities that have drifted
    #[arg(long)]
    pub apply: bool,
    /// Also overwrite manual changes, and restore deleted files
    #[arg(short, long, requires = "apply")]
    pub force: bool,
    /// Quiet period that must pass after an event before entities are checked
    #[arg(long, value_name = "DURATION", value_parser = holo_definitions::duration::parse, default_value = "200ms")]
    pub settle: Duration,
    /// Exit after the first event has been handled
    #[arg(long)]
    pub once: bool,
    /// For the agent: read requests from standard input
    #[arg(long, hide = true, requires = "json", conflicts_with_all = ["once", "converged"])]
    pub requests: bool,
    /// Exit when nothing has changed for this time: 90s, 1m30s, 1h
    #[arg(long = "for", value_name = "DURATION", value_parser = holo_definitions::duration::parse)]
    pub converged: Option<Duration>,
    /// What happens to entities that a person has changed
    #[command(flatten)]
    pub policy: EditPolicy,
    /// Number of entities of a plugin to check or apply concurrently [default: number of processors]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroU32>,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The entities to watch
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo diff`
#[derive(Debug, Args)]
pub struct Diff {
    /// Show what an apply would change instead
    #[arg(long)]
    pub pending: bool,
    /// Exit with 0 even if entities fail or definitions are invalid, like version 3
    #[arg(long)]
    pub exit_zero: bool,
    /// The system
    #[command(flatten)]
    pub system: System,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The entities to diff
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo adopt`
#[derive(Debug, Args)]
pub struct Adopt {
    /// Adopt all manual changes that plugins find and no resource file describes
    #[arg(long, conflicts_with = "selectors", required_unless_present = "selectors")]
    pub all: bool,
    /// With --all, also adopt the files in this directory, such as /srv
    #[arg(long, value_name = "DIRECTORY", requires = "all")]
    pub include: Vec<PathBuf>,
    /// Only show what would be written
    #[arg(long)]
    pub dry_run: bool,
    /// Open an editor for lines with conflicting changes
    #[arg(long)]
    pub edit: bool,
    /// Adopt what a person had edited before it was overwritten, instead of the current state
    #[arg(long, conflicts_with_all = ["all", "edit"])]
    pub edited: bool,
    /// Write a description of a package for holo-build, and no resource files
    #[arg(long, value_name = "NAME", requires = "description", conflicts_with = "dry_run", value_parser = package_name)]
    pub package: Option<String>,
    /// The file for the description of the package
    #[arg(long = "output", value_name = "FILE", requires = "package")]
    pub description: Option<PathBuf>,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// Paths and entity IDs
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<OsString>,
}

/// Parses the name of a package, which becomes part of paths. The rules of its format are checked by holo-build.
fn package_name(text: &str) -> Result<String, &'static str> {
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || "@._+-".contains(letter);
    let is_name = text.starts_with(|letter: char| letter.is_ascii_alphanumeric()) && text.chars().all(is_safe);
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("expected letters, digits and @ . _ + -, beginning with a letter or digit")
    }
}

/// `holo scan`
#[derive(Debug, Args)]
pub struct Scan {
    /// Exit with 0 even if definitions are invalid, like version 3
    #[arg(long)]
    pub exit_zero: bool,
    /// Show only entity IDs
    #[arg(short, long, conflicts_with = "json")]
    pub short: bool,
    /// Show reports in the format of plugins, for scripts, even with --short
    #[arg(short, long, conflicts_with = "json")]
    pub porcelain: bool,
    /// The system
    #[command(flatten)]
    pub system: System,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The selected entities
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo graph`
#[derive(Debug, Args)]
pub struct Graph {
    /// The language of the graph
    #[arg(long, value_enum, default_value = "dot")]
    pub format: Picture,
    /// Exit with 0 even if definitions are invalid
    #[arg(long)]
    pub exit_zero: bool,
    /// The selected entities
    #[command(flatten)]
    pub selection: Selection,
}

/// The languages of graphs.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Picture {
    /// For Graphviz
    Dot,
    /// A Mermaid flowchart
    Mermaid,
    /// A self-contained picture
    Svg,
}

/// `holo selectors`
#[derive(Debug, Args)]
pub struct Selectors {
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// List only selectors with this prefix
    #[arg(long)]
    pub prefix: Option<OsString>,
}

/// `holo doctor`
#[derive(Debug, Args)]
pub struct Doctor {
    /// The output format
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

/// `holo state`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct State {
    /// The subcommand [default: show]
    #[command(subcommand)]
    pub verb: Option<StateVerb>,
}

/// The subcommands of `holo state`.
#[derive(Debug, Subcommand)]
pub enum StateVerb {
    /// Count the rows of each table
    Show,
    /// Verify the integrity of the database
    Check,
    /// Write every row as JSON Lines
    Export,
    /// Read an export into an empty database
    Import {
        /// The file to read; - for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Replace a damaged database with the rows that can be read
    Repair,
}

/// `holo facts`
#[derive(Debug, Args)]
pub struct Facts {
    /// Write a single JSON value
    #[arg(long)]
    pub json: bool,
    /// The value to show, such as `os.id`; everything if omitted
    #[arg(value_name = "QUERY")]
    pub query: Option<String>,
}

/// `holo data`
#[derive(Debug, Args)]
pub struct Data {
    /// Show which files the values come from
    #[arg(long)]
    pub explain: bool,
    /// Write a single JSON value
    #[arg(long)]
    pub json: bool,
    /// The value to show, such as `web.port`; everything if omitted
    #[arg(value_name = "KEY")]
    pub key: Option<String>,
}

/// `holo why`
#[derive(Debug, Args)]
pub struct Why {
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// A path, an entity ID, or the part of an ID after the colon
    #[arg(value_name = "SELECTOR", required = true)]
    pub subject: OsString,
}

/// `holo blame`
#[derive(Debug, Args)]
pub struct Blame {
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The path of a file, or the ID of its entity
    #[arg(value_name = "SELECTOR", required = true)]
    pub subject: OsString,
}

#[cfg(test)]
mod tests;

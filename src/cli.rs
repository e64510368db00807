//! The command line.

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, Parser, Subcommand};
use holo_definitions::did_you_mean;
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
    /// Show what people changed since entities were last applied
    Diff(Diff),
    /// Show which entities there are
    Scan(Scan),
    /// Draw how entities depend on each other
    Graph(Graph),
    /// List every string that selects something
    Selectors(Selectors),
    /// Show what is known of this machine
    Facts(Facts),
    /// Show what is said about this machine, in layers of files
    Data(Data),
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
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The entities to check
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo diff`
#[derive(Debug, Args)]
pub struct Diff {
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

/// The form of standard output.
#[derive(Debug, Args)]
pub struct Output {
    /// Write JSON Lines, for programs
    #[arg(long)]
    pub json: bool,
}

/// The entities that a command is about.
#[derive(Debug, Args)]
pub struct Selection {
    /// Entity IDs, plugin IDs, resource files or generators; everything if there is none
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<OsString>,
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
            Verb::Diff(arguments) => &arguments.output,
            Verb::Scan(arguments) => &arguments.output,
            Verb::Selectors(arguments) => &arguments.output,
            // A single value of JSON is not a line of a run.
            Verb::Facts(_) | Verb::Data(_) => return false,
            Verb::Graph(_) | Verb::Test(_) | Verb::Plugin(_) | Verb::Completion(_) | Verb::Version | Verb::Help(_) => {
                return false;
            }
        };
        output.json
    }
}

/// The result of reading a command line.
#[derive(Debug)]
pub enum Arguments {
    /// Something to do.
    Verb(Verb),
    /// The help of a verb, or of all: this text goes to stdout.
    Help(String),
    /// Nothing that can be done.
    Unusable {
        /// This text goes to stderr.
        text: String,
        /// A likely correction.
        hint: Option<String>,
    },
}

/// Understands a command line.
#[must_use]
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Arguments {
    use clap::error::ErrorKind;
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match Cli::try_parse_from(selectors_last(arguments)) {
        Ok(Cli { verb: Verb::Help(Help { command }), .. }) if !command.is_empty() => help_of(&command),
        Ok(cli) => Arguments::Verb(cli.verb),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp => Arguments::Help(error.to_string()),
            ErrorKind::DisplayVersion => Arguments::Verb(Verb::Version),
            ErrorKind::MissingSubcommand
            | ErrorKind::InvalidSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Arguments::Unusable { text: usage(), hint: meant_command(&error) }
            }
            _ => Arguments::Unusable { text: format!("{}\n{}", complaint(&error), usage()), hint: None },
        },
    }
}

/// Returns the request for the help that `--help` after these command words shows.
fn help_of(command: &[String]) -> Arguments {
    let words = command.iter().filter(|word| !word.starts_with('-')).map(OsString::from);
    let words = [OsString::from("holo")].into_iter().chain(words).chain([OsString::from("--help")]);
    match parse(words) {
        help @ Arguments::Help(_) => help,
        Arguments::Unusable { hint, .. } => Arguments::Unusable { text: usage(), hint },
        Arguments::Verb(_) => Arguments::Unusable { text: usage(), hint: None },
    }
}

/// Returns the command word that was probably meant by a misspelt one.
fn meant_command(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(written)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let command = Cli::command();
    let names = command.get_subcommands().flat_map(|verb| [verb].into_iter().chain(verb.get_subcommands()));
    did_you_mean(written, names.map(clap::Command::get_name))
}

/// Returns the long options of a verb, as they are typed.
#[must_use]
pub fn options_of(verb: &str) -> Vec<String> {
    let command = Cli::command();
    let arguments = command.find_subcommand(verb).into_iter().flat_map(clap::Command::get_arguments);
    arguments.filter_map(clap::Arg::get_long).chain(["help"]).map(|long| format!("--{long}")).collect()
}

/// Moves what is not an option of its verb behind a `--`.
///
/// Options may stand between selectors. An unknown option is an argument that selects nothing, as in
/// version 3, so that is moved too.
fn selectors_last(arguments: Vec<OsString>) -> Vec<OsString> {
    let command = Cli::command();
    let verb = arguments.get(1).and_then(|word| command.find_subcommand(word));
    let Some(verb) = verb.filter(|verb| verb.get_positionals().any(|argument| argument.get_id() == "selectors")) else {
        return arguments;
    };
    let is_option = |word: &OsString| {
        let known = |argument: &clap::Arg| {
            let long = argument.get_long().is_some_and(|long| *word == *format!("--{long}"));
            long || argument.get_short().is_some_and(|short| *word == *format!("-{short}"))
        };
        *word == *"-h" || *word == *"--help" || verb.get_arguments().any(known)
    };
    let takes_value = |word: &OsString| {
        // As long as a command is not built, clap counts flags among those with a value too.
        let mut options = verb.get_opts().filter(|argument| argument.get_action().takes_values());
        options.any(|argument| argument.get_long().is_some_and(|long| *word == *format!("--{long}")))
    };
    let has_value = |word: &OsString| {
        let name = word.to_str().and_then(|word| word.split_once('=')).map(|(name, _)| OsString::from(name));
        name.is_some_and(|name| takes_value(&name))
    };
    let mut words = arguments.into_iter();
    let mut options: Vec<OsString> = words.by_ref().take(2).collect();
    let mut selectors = vec![OsString::from("--")];
    while let Some(word) = words.next() {
        if word == *"--" {
            selectors.extend(words.by_ref());
        } else if takes_value(&word) {
            options.push(word);
            options.extend(words.next());
        } else if is_option(&word) || has_value(&word) {
            options.push(word);
        } else {
            selectors.push(word);
        }
    }
    options.extend(selectors);
    options
}

/// Returns the mistake, without the hints that clap would give instead of the usage.
fn complaint(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    format!("!! {}", first.strip_prefix("error: ").unwrap_or(first).trim_end())
}

/// Returns the help, which begins with `Usage:`.
#[must_use]
pub fn usage() -> String {
    let help = Cli::command().render_help().to_string();
    format!("{}\n", help.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(words: &[&str]) -> Option<Apply> {
        let words = ["holo", "apply"].iter().chain(words).map(OsString::from);
        match parse(words) {
            Arguments::Verb(Verb::Apply(apply)) => Some(apply),
            _ => None,
        }
    }

    #[test]
    fn options_stand_anywhere_and_others_are_selectors() {
        let words = ["a", "-f", "--timeout", "5m", "--odd", "b", "--timeout=1h", "-", "--", "--force"];
        assert!(apply(&words).is_none(), "twice the same option");
        let understood = apply(&["a", "-f", "--timeout", "5m", "--odd", "b", "-", "--", "--force"]).unwrap();
        assert!(understood.force && !understood.fail_fast);
        assert_eq!(understood.timeout, Some(Duration::from_secs(300)));
        assert_eq!(understood.selection.selectors, ["a", "--odd", "b", "-", "--force"]);
        assert_eq!(apply(&["--timeout=90s", "x"]).unwrap().selection.selectors, ["x"]);
        assert!(apply(&["--timeout"]).is_none());
        let flags_first = apply(&["--force", "--", "x"]).unwrap();
        assert!(flags_first.force && flags_first.selection.selectors == ["x"]);
        assert!(apply(&["--fail-fast", "--timeout", "5m"]).is_some_and(|apply| apply.timeout.is_some()));
        assert_eq!(apply(&["--jobs", "3"]).unwrap().jobs, NonZeroU32::new(3));
        assert!(["0", "-1", "all", "4294967296"].iter().all(|number| apply(&["--jobs", number]).is_none()));
        assert_eq!(apply(&["--json", "--odd"]).unwrap().selection.selectors, ["--odd"]);
    }

    #[test]
    fn help_is_that_of_a_command() {
        let parsed = |words: &[&str]| parse(["holo"].iter().chain(words).map(OsString::from));
        let help = |words: &[&str]| match parsed(words) {
            Arguments::Help(text) => text,
            other => format!("{other:?}"),
        };
        assert_eq!(help(&["help", "apply"]), help(&["apply", "--help"]));
        assert!(help(&["help", "apply"]).contains("--fail-fast"));
        assert!(help(&["help", "plugin", "check"]).contains("--resources"));
        assert!(matches!(parsed(&["help"]), Arguments::Verb(Verb::Help(_))));
        assert!(matches!(parsed(&["-V"]), Arguments::Verb(Verb::Version)));
        let hint = |words: &[&str]| match parsed(words) {
            Arguments::Unusable { text, hint } if text == usage() => hint,
            other => Some(format!("{other:?}")),
        };
        assert_eq!(hint(&["help", "aply"]).as_deref(), Some("did you mean apply?"));
        assert_eq!(hint(&["aply", "x"]).as_deref(), Some("did you mean apply?"));
        assert_eq!(hint(&["plugin", "chekc"]).as_deref(), Some("did you mean check?"));
        assert_eq!(hint(&["xyzzy"]), None);
        assert!(
            options_of("apply").contains(&"--force".to_owned()) && !options_of("scan").contains(&"--force".to_owned())
        );
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}

//! Parses a command line into a verb with its options, or an error, including times as people write them.

use super::{Cli, GROUPS, Help, Verb, manual_page};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use holo_definitions::did_you_mean;
use holo_protocol::OnEdit;
use jiff::civil::DateTime;
use jiff::{Timestamp, ToSpan, Zoned};
use std::ffi::OsString;

/// The name of the program.
const PROGRAM: &str = "holo";

/// The result of parsing a command line.
#[derive(Debug)]
pub enum Arguments {
    /// A verb to run.
    Verb(Verb),
    /// The help of a verb, or of the whole program; goes to stdout.
    Help(String),
    /// The file name of a manual page, and the help of the same verb, which is shown if the page cannot be opened.
    Manual(&'static str, String),
    /// There are no arguments: the help, which goes to stderr.
    Nothing(String),
    /// The message about an invalid command line; goes to stderr.
    Unusable(String),
}

/// Returns the parser for policies for edited entities.
pub(super) fn on_edit() -> impl TypedValueParser<Value = OnEdit> {
    PossibleValuesParser::new(OnEdit::NAMES.map(|(name, _)| name)).try_map(|name| name.parse())
}

/// Parses a command line.
#[must_use]
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Arguments {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match Cli::try_parse_from(selectors_last(arguments.clone())) {
        Ok(Cli { verb: Verb::Help(Help { command }), .. }) if !command.is_empty() => help_of(&command),
        Ok(cli) => Arguments::Verb(cli.verb),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp if command_of(&arguments).get_name() == PROGRAM => Arguments::Help(usage()),
            ErrorKind::DisplayHelp => Arguments::Help(error.to_string()),
            ErrorKind::DisplayVersion => Arguments::Verb(Verb::Version),
            _ if arguments.len() < 2 => Arguments::Nothing(usage()),
            _ => Arguments::Unusable(complaint(&error, &arguments)),
        },
    }
}

/// Returns the manual page of a command, or the help that `--help` after its words shows.
fn help_of(command: &[String]) -> Arguments {
    let page = command.first().and_then(|verb| manual_page(verb));
    let words = command.iter().filter(|word| !word.starts_with('-')).map(OsString::from);
    let words = [OsString::from("holo")].into_iter().chain(words).chain([OsString::from("--help")]);
    match parse(words) {
        Arguments::Verb(_) => Arguments::Help(usage()),
        Arguments::Help(text) => match page {
            Some(page) => Arguments::Manual(page, text),
            None => Arguments::Help(text),
        },
        other => other,
    }
}

/// Returns the command word that is most similar to a misspelt one.
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

/// Moves everything except options of the verb behind a `--`.
///
/// Options may come between selectors. An unknown option is a selector that matches no entity, as in version 3, so it
/// is moved too.
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
        // Until a command is built, clap also returns flags here.
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

/// Returns the innermost command whose words a command line begins with.
fn command_of(arguments: &[OsString]) -> clap::Command {
    let mut command = Cli::command();
    command.build();
    let mut innermost = &command;
    for word in arguments.iter().skip(1) {
        let Some(next) = word.to_str().and_then(|word| innermost.find_subcommand(word)) else { break };
        innermost = next;
    }
    innermost.clone()
}

/// Returns the error message, with a likely correction and the usage of the command.
fn complaint(error: &clap::Error, arguments: &[OsString]) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let first = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (_, Some(ContextValue::String(written))) => format!("unknown command: {written}"),
        (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand, _) => {
            "a command is missing".to_owned()
        }
        _ => first.strip_prefix("error: ").unwrap_or(first).trim_end().to_owned(),
    };
    let hint = meant_command(error).map(|hint| format!(", {hint}")).unwrap_or_default();
    let mut command = command_of(arguments);
    let usage = command.render_usage();
    format!("!! {first}{hint}\n{usage}\n>> for more, see `{} --help`\n", command.get_bin_name().unwrap_or(PROGRAM))
}

/// Returns the help, which begins with `Usage:`.
#[must_use]
pub fn usage() -> String {
    let command = Cli::command();
    let verbs: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
    let width = verbs.iter().map(|verb| verb.len()).max().unwrap_or_default();
    let mut text = "Usage: holo <COMMAND>\n".to_owned();
    for (title, verbs) in GROUPS {
        text.push_str(&format!("\n{title}:\n"));
        for verb in verbs {
            let about = command.find_subcommand(verb).and_then(clap::Command::get_about).cloned().unwrap_or_default();
            text.push_str(&format!("  {verb:width$}  {about}\n"));
        }
    }
    text.push_str(
        "\nOptions:\n  -V, --version  Show the version\n  -h, --help     Show this help, or the options of a command\n",
    );
    text.push_str("\nMore is in holo(8).\n");
    text
}

/// A text that is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a time is a duration until now, as in 90m, 12h or 7d; a date, as in 2026-11-22; a date and a time, as in \"2026-11-22 09:14\"; today or yesterday"
)]
pub struct TimeError;

/// Parses a time: a duration before now, or a date in the system's time zone or the one that it names.
///
/// # Errors
/// If the text is not a time.
pub fn parse_time(text: &str) -> Result<Timestamp, TimeError> {
    parse_at(text, &Zoned::now())
}

fn parse_at(text: &str, now: &Zoned) -> Result<Timestamp, TimeError> {
    let midnight = |day: Zoned| day.start_of_day().map(|day| day.timestamp()).map_err(|_| TimeError);
    match text {
        "now" => return Ok(now.timestamp()),
        "today" => return midnight(now.clone()),
        "yesterday" => return midnight(now.checked_sub(1.day()).map_err(|_| TimeError)?),
        _ => {}
    }
    if let Ok(duration) = holo_definitions::duration::parse(text) {
        return now.timestamp().checked_sub(duration).map_err(|_| TimeError);
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let time: DateTime = text.parse().map_err(|_| TimeError)?;
    time.to_zoned(now.time_zone().clone()).map(|time| time.timestamp()).map_err(|_| TimeError)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    #[test]
    fn times_use_their_own_zone_or_the_systems() {
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let now = "2026-11-22T09:14:03Z".parse::<Timestamp>().unwrap().to_zoned(zone);
        for (text, expected) in [
            ("now", "2026-11-22T09:14:03Z"),
            ("today", "2026-11-21T23:00:00Z"),
            ("yesterday", "2026-11-20T23:00:00Z"),
            ("90m", "2026-11-22T07:44:03Z"),
            ("7d", "2026-11-15T09:14:03Z"),
            ("2026-11-20", "2026-11-19T23:00:00Z"),
            ("2026-11-20 14:30", "2026-11-20T13:30:00Z"),
            ("2026-11-20T14:30:00Z", "2026-11-20T14:30:00Z"),
            ("2026-11-20T14:30:00+02:00", "2026-11-20T12:30:00Z"),
        ] {
            assert_eq!(parse_at(text, &now).unwrap().to_string(), expected, "{text}");
        }
        for text in ["", "soon", "5", "2026-13-01", "-1h", "999999999y"] {
            assert_eq!(parse_at(text, &now), Err(TimeError), "{text}");
        }
    }
}

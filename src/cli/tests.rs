//! Tests of the command line.

use super::*;
use clap::CommandFactory;
use std::num::NonZeroU32;
use std::time::Duration;

fn apply(words: &[&str]) -> Option<Apply> {
    let words = ["holo", "apply"].iter().chain(words).map(OsString::from);
    match parse(words) {
        Arguments::Verb(Verb::Apply(apply)) => Some(apply),
        _ => None,
    }
}

#[test]
fn options_may_come_anywhere_and_unknown_ones_are_selectors() {
    let words = ["a", "-f", "--timeout", "5m", "--odd", "b", "--timeout=1h", "-", "--", "--force"];
    assert_eq!(apply(&words).unwrap().timeout, Some(Duration::from_secs(3600)), "the last one counts");
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
fn help_shows_the_given_command() {
    let parsed = |words: &[&str]| parse(["holo"].iter().chain(words).map(OsString::from));
    let help = |words: &[&str]| match parsed(words) {
        Arguments::Help(text) | Arguments::Manual(_, text) => text,
        other => format!("{other:?}"),
    };
    assert_eq!(help(&["help", "apply"]), help(&["apply", "--help"]));
    assert!(help(&["help", "apply"]).contains("--fail-fast"));
    assert!(help(&["help", "plugin", "check"]).contains("--resources"));
    assert!(matches!(parsed(&["help"]), Arguments::Verb(Verb::Help(_))));
    assert!(matches!(parsed(&["help", "plugin", "check"]), Arguments::Manual("holo-plugin.8", _)));
    assert!(matches!(parsed(&["help", "--help"]), Arguments::Help(_)));
    assert!(matches!(parsed(&["-V"]), Arguments::Verb(Verb::Version)));
    let error = |words: &[&str]| match parsed(words) {
        Arguments::Unusable(text) | Arguments::Nothing(text) => text,
        other => format!("{other:?}"),
    };
    let of_all = "Usage: holo <COMMAND>\n>> for more, see `holo --help`\n";
    for words in [&["help", "aply"][..], &["aply", "x"]] {
        assert_eq!(error(words), format!("!! unknown command: aply, did you mean apply?\n{of_all}"));
    }
    assert_eq!(error(&["xyzzy"]), format!("!! unknown command: xyzzy\n{of_all}"));
    assert_eq!(error(&[]), usage());
    let of_plugin = "Usage: holo plugin <COMMAND>\n>> for more, see `holo plugin --help`\n";
    assert_eq!(error(&["plugin", "chekc"]), format!("!! unknown command: chekc, did you mean check?\n{of_plugin}"));
    assert_eq!(error(&["plugin"]), format!("!! a command is missing\n{of_plugin}"));
    assert!(error(&["apply", "--jobs", "0"]).contains("\nUsage: holo apply [OPTIONS] [SELECTOR]...\n"));
    assert!(options_of("apply").contains(&"--force".to_owned()) && !options_of("scan").contains(&"--force".to_owned()));
}

#[test]
fn command_line_definition_is_valid() {
    Cli::command().debug_assert();
}

#[test]
fn help_names_every_verb_once() {
    let help = usage();
    for verb in Cli::command().get_subcommands() {
        let line = format!("\n  {} ", verb.get_name());
        assert_eq!(help.matches(&line).count(), 1, "{line}");
    }
}

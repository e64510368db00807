//! Answers of modules and their meaning.

use holo_plugin::process::Status;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// The maximum length of a message that is used as the description of a change.
const SHORT: usize = 100;

/// The answer of a module as prepared by the host.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Reply {
    /// The reason why the module was killed, if it was.
    reason: Option<Ended>,
    /// The wait status.
    status: i32,
    /// True if there is an answer.
    answered: bool,
    /// The output other than the answer.
    printed: String,
    /// The lines after the answer.
    stray: Vec<String>,
    /// The arguments that the module declares as `no_log`, unless it ended before.
    no_log: Option<Vec<String>>,
    failed: bool,
    skipped: bool,
    changed: bool,
    msg: Option<String>,
    /// The last line of the exception.
    exception: Option<String>,
    /// The last lines of a failed command that the module has run.
    details: Vec<String>,
    warnings: Vec<String>,
    deprecations: Vec<String>,
    /// The requested values; `None` for lists and tables.
    fields: BTreeMap<String, Option<String>>,
    /// The texts before and after the change.
    diff: Option<(String, String)>,
    /// The answer for later tasks.
    registered: Option<Value>,
}

/// The reason why a module was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Ended {
    /// The timeout was exceeded.
    Late,
    /// The output was too large.
    Limit,
    /// The plugin itself is terminated.
    Told,
}

/// The limits of a module, for messages when they are exceeded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) time: Duration,
    pub(crate) output: usize,
}

/// An answer of a module.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) end: End,
    /// Its output other than the answer.
    pub(crate) printed: String,
    /// The part of its standard error that is too long to be shown.
    pub(crate) more_errors: String,
    /// The last lines of a failed command that it has run.
    pub(crate) details: Vec<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) deprecations: Vec<String>,
    /// The arguments that the module declares as `no_log`, if they are known now.
    pub(crate) no_log: Option<Vec<String>>,
    /// The requested values; `None` for lists and tables.
    pub(crate) fields: BTreeMap<String, Option<String>>,
    diff: Option<(String, String)>,
    /// The answer for later tasks.
    pub(crate) registered: Option<Value>,
}

/// The result of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Failed for this reason.
    Failed(String),
    /// Not run for this reason.
    Skipped(String),
    /// Made this change, or would make it.
    Changed(String),
    /// No change was necessary.
    Unchanged,
}

impl Answer {
    /// Interprets the answer of a module. By default, the reason for a failure is its last line on standard error.
    pub(crate) fn new(module: &str, reply: Reply, last_error: Option<&str>, limits: Limits) -> Answer {
        let end = match reply.failure(module, limits) {
            Some(failure) => End::Failed(failure),
            None if !reply.answered => End::Failed(reply.silence(module, "it has not answered", last_error)),
            None if reply.failed => End::Failed(
                reply
                    .msg
                    .clone()
                    .or_else(|| reply.exception.clone())
                    .unwrap_or_else(|| reply.silence(module, "it does not say why it failed", last_error)),
            ),
            None if reply.skipped => {
                End::Skipped(reply.msg.clone().unwrap_or_else(|| "skipped by the module".to_owned()))
            }
            None if reply.changed => End::Changed(reply.change()),
            None => End::Unchanged,
        };
        let stray = reply.stray.iter().map(|line| format!("{module} wrote after its answer: {line}"));
        Answer {
            end,
            printed: reply.printed,
            more_errors: String::new(),
            details: reply.details,
            warnings: reply.warnings.into_iter().chain(stray).collect(),
            deprecations: reply.deprecations,
            no_log: reply.no_log,
            fields: reply.fields,
            diff: reply.diff,
            registered: reply.registered,
        }
    }

    /// Returns the answer of a module that was not run.
    pub(crate) fn not_run(end: End) -> Answer {
        Answer {
            end,
            printed: String::new(),
            more_errors: String::new(),
            details: Vec::new(),
            warnings: Vec::new(),
            deprecations: Vec::new(),
            no_log: None,
            fields: BTreeMap::new(),
            diff: None,
            registered: None,
        }
    }

    /// Returns the texts before and after the change, if the module reports them.
    pub(crate) fn difference(self) -> Option<(String, String)> {
        self.diff.filter(|_| matches!(self.end, End::Changed(_)))
    }
}

impl Reply {
    /// Describes the failure of a module that was killed.
    fn failure(&self, module: &str, limits: Limits) -> Option<String> {
        Some(match self.reason? {
            Ended::Late => format!("{module} did not answer within {:?}", limits.time),
            Ended::Limit => format!("{module} answered with more than {} bytes", limits.output),
            Ended::Told => format!("{module} was told to end"),
        })
    }

    /// Describes the end of a module that gave no reason for its failure; as `otherwise` if it exited with 0.
    fn silence(&self, module: &str, otherwise: &str, last_error: Option<&str>) -> String {
        let status = Status::from(ExitStatus::from_raw(self.status));
        let end = status.failure().unwrap_or_else(|| otherwise.to_owned());
        let last_error = last_error.map(|line| format!(": {line}")).unwrap_or_default();
        format!("{module}: {end}{last_error}")
    }

    /// Returns the description of a change.
    fn change(&self) -> String {
        let fits = |text: &&String| text.len() <= SHORT && !text.contains(['\n', '\r']);
        self.msg.as_ref().filter(fits).cloned().unwrap_or_else(|| "changed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { time: Duration::from_secs(2), output: 1 << 20 };

    fn answer(text: &str) -> Answer {
        Answer::new("m", serde_json::from_str(text).unwrap(), Some("a last line"), LIMITS)
    }

    #[test]
    fn no_answer_makes_the_reader_panic() {
        let words = ["\"changed\":", "\"diff\":", "\"before\":", "[", "{", "null", "true", ",", "\"rc\":"];
        let target = holo_testing::fuzz::Target::new(env!("CARGO_MANIFEST_DIR"), "answers").words(&words).inputs(5000);
        target.run(|input| {
            let Ok(reply) = serde_json::from_slice(input) else { return };
            drop(Answer::new("m", reply, Some("a last line"), LIMITS).difference());
        });
    }

    #[test]
    fn the_fields_of_an_answer_decide_its_end() {
        let failed = |reason: &str| End::Failed(reason.to_owned());
        for (text, end) in [
            ("{\"answered\": true}", End::Unchanged),
            ("{\"answered\": true, \"changed\": true}", End::Changed("changed".to_owned())),
            ("{\"answered\": true, \"changed\": true, \"msg\": \"line added\"}", End::Changed("line added".to_owned())),
            ("{\"answered\": true, \"changed\": true, \"msg\": \"a\\nb\"}", End::Changed("changed".to_owned())),
            (
                "{\"answered\": true, \"skipped\": true, \"changed\": true}",
                End::Skipped("skipped by the module".to_owned()),
            ),
            ("{\"answered\": true, \"failed\": true, \"msg\": \"no\"}", failed("no")),
            ("{\"answered\": true, \"failed\": true, \"exception\": \"E: x\"}", failed("E: x")),
            ("{\"answered\": true, \"failed\": true}", failed("m: it does not say why it failed: a last line")),
            ("{\"status\": 256}", failed("m: exit status 1: a last line")),
            ("{}", failed("m: it has not answered: a last line")),
            ("{\"reason\": \"late\"}", failed("m did not answer within 2s")),
            ("{\"reason\": \"limit\"}", failed("m answered with more than 1048576 bytes")),
            ("{\"reason\": \"told\", \"status\": 15}", failed("m was told to end")),
        ] {
            assert_eq!(answer(text).end, end, "{text}");
        }
    }

    #[test]
    fn lines_after_the_answer_are_warnings() {
        let answer = answer("{\"answered\": true, \"stray\": [\"{}\"], \"warnings\": [\"old\"]}");
        assert_eq!(answer.warnings, ["old", "m wrote after its answer: {}"]);
    }

    #[test]
    fn only_a_change_has_a_difference() {
        let of =
            |fields: &str| answer(&format!("{{\"answered\": true, {fields}, \"diff\": [\"a\", \"b\"]}}")).difference();
        assert_eq!(of("\"changed\": true"), Some(("a".to_owned(), "b".to_owned())));
        assert_eq!(of("\"changed\": false"), None);
    }
}

//! Answers of modules and their meaning.

use holo_plugin::process::{self, Status};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// The maximum length of a message that is used as the description of a change.
const SHORT: usize = 100;
/// The number of lines shown of the output of a failed command that a module has run.
const LAST_LINES: usize = 20;

/// The end of a module's process, as reported by the host.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Reply {
    pub(crate) stdout: String,
    /// The reason why it was killed, if it was.
    reason: Option<Ended>,
    /// The wait status.
    status: i32,
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
    /// The last lines of a failed command that it has run.
    pub(crate) details: Vec<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) deprecations: Vec<String>,
    fields: Map<String, Value>,
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
    /// Parses the output of a module. By default, the reason for a failure is its last line on standard error.
    pub(crate) fn new(module: &str, reply: &Reply, last_error: Option<&str>, limits: Limits) -> Answer {
        let (printed, object) = split(&reply.stdout);
        let has_answered = object.is_some();
        let fields = object.unwrap_or_default();
        let end = match reply.failure(module, limits) {
            Some(failure) => End::Failed(failure),
            None if !has_answered => End::Failed(reply.silence(module, "it has not answered", last_error)),
            None if is_true(&fields, "failed") || reply.status != 0 => End::Failed(
                reason(&fields).unwrap_or_else(|| reply.silence(module, "it does not say why it failed", last_error)),
            ),
            None if is_true(&fields, "skipped") => {
                End::Skipped(message(&fields).unwrap_or_else(|| "skipped by the module".to_owned()))
            }
            None if is_true(&fields, "changed") => End::Changed(change(&fields)),
            None => End::Unchanged,
        };
        Answer {
            details: if matches!(end, End::Failed(_)) { details(&fields) } else { Vec::new() },
            warnings: texts(&fields, "warnings"),
            deprecations: texts(&fields, "deprecations"),
            printed,
            end,
            fields,
        }
    }

    /// Returns the answer of a module that was not run because no change is necessary.
    pub(crate) fn unchanged() -> Answer {
        Answer {
            end: End::Unchanged,
            printed: String::new(),
            details: Vec::new(),
            warnings: Vec::new(),
            deprecations: Vec::new(),
            fields: Map::new(),
        }
    }

    /// Returns a top-level value of the answer.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// Returns the texts before and after the change, if the module reports them.
    pub(crate) fn difference(&self) -> Option<(String, String)> {
        if !matches!(self.end, End::Changed(_)) {
            return None;
        }
        let diff = self.fields.get("diff")?;
        let all = diff.as_array().map_or(std::slice::from_ref(diff), Vec::as_slice);
        let sides = |diff: &Value| Some((side(diff.get("before")?), side(diff.get("after")?)));
        all.iter().find_map(sides).filter(|(before, after)| before != after)
    }
}

impl Reply {
    /// Describes the failure of a module that was killed, or whose line was too long.
    fn failure(&self, module: &str, limits: Limits) -> Option<String> {
        let line_limit = process::Limits::default().line;
        if self.reason.is_none() && self.stdout.lines().any(|line| line.len() > line_limit) {
            return Some(format!("{module} answered with a line of more than {line_limit} bytes"));
        }
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
}

/// Splits output into the answer, which is the last line with an object, and the rest.
fn split(stdout: &str) -> (String, Option<Map<String, Value>>) {
    let lines: Vec<&str> = stdout.lines().collect();
    let object = |line: &str| {
        if !line.trim_start().starts_with('{') {
            return None;
        }
        serde_json::from_str::<Map<String, Value>>(line).ok()
    };
    let found = lines.iter().enumerate().rev().find_map(|(index, line)| Some((index, object(line)?)));
    let answer = found.as_ref().map(|(index, _)| *index);
    let mut printed = String::new();
    for (index, line) in lines.iter().enumerate() {
        // Modules print an empty line before the answer.
        if Some(index) != answer && !line.trim().is_empty() {
            printed.push_str(line);
            printed.push('\n');
        }
    }
    (printed, found.map(|(_, object)| object))
}

fn is_true(fields: &Map<String, Value>, name: &str) -> bool {
    match fields.get(name) {
        Some(Value::Bool(truth)) => *truth,
        Some(Value::String(text)) => matches!(text.to_lowercase().as_str(), "true" | "yes" | "1"),
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        _ => false,
    }
}

/// Returns the message unless it is empty.
fn message(fields: &Map<String, Value>) -> Option<String> {
    let text = match fields.get("msg")? {
        Value::Null => return None,
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    (!text.is_empty()).then_some(text)
}

/// Returns the reason for a failure.
fn reason(fields: &Map<String, Value>) -> Option<String> {
    message(fields).or_else(|| {
        let exception = text_of(fields.get("exception")?)?;
        exception.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
    })
}

/// Returns the description of a change.
fn change(fields: &Map<String, Value>) -> String {
    let fits = |text: &String| text.len() <= SHORT && !text.contains(['\n', '\r']);
    message(fields).filter(fits).unwrap_or_else(|| "changed".to_owned())
}

/// Returns the last lines of a command that a module has run.
fn details(fields: &Map<String, Value>) -> Vec<String> {
    let lines = |name: &str| -> Vec<String> {
        let text = fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines.iter().skip(lines.len().saturating_sub(LAST_LINES)).map(|line| (*line).to_owned()).collect()
    };
    Some(lines("stderr")).filter(|lines| !lines.is_empty()).unwrap_or_else(|| lines("stdout"))
}

fn texts(fields: &Map<String, Value>, name: &str) -> Vec<String> {
    match fields.get(name) {
        Some(Value::Array(all)) => all.iter().filter_map(text_of).collect(),
        Some(one) => text_of(one).into_iter().collect(),
        None => Vec::new(),
    }
}

/// Returns the text of a warning or an exception, in the formats of all Ansible versions.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Value::Object(fields) => match fields.get("msg").or_else(|| fields.get("event")) {
            Some(inner) => text_of(inner),
            None => Some(value.to_string()),
        },
        other => Some(other.to_string()),
    }
}

/// Returns a side of a difference as text: values other than strings as JSON, with sorted names.
fn side(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default() + "\n",
    }
}

#[cfg(test)]
mod tests;

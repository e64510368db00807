//! Lines about earlier runs, and about generations and their differences.

use crate::values::Tally;
use crate::{Refusal, Text, is_false};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A recorded run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RunLine<'a> {
    /// The ID of the run.
    pub run: Cow<'a, str>,
    /// `running`, `unchanged`, `changed`, `refused`, `failed` or `interrupted`.
    pub result: Cow<'a, str>,
    /// The time at which the run began, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The duration in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// The exit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The number of entities by result.
    pub tally: Tally,
    /// The version of holo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holo: Option<Cow<'a, str>>,
    /// The command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<Text<'a>>,
    /// The effective user ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The user who ran `sudo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sudo_user: Option<Text<'a>>,
    /// The ID of the user who logged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_uid: Option<u32>,
    /// The terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Text<'a>>,
    /// The name of the program or service that started the run, if it was not a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Text<'a>>,
    /// The reason why the run ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text<'a>>,
}

/// A version of a file that a person had edited before it was overwritten.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct EditedLine<'a> {
    /// The ID of the entity that has overwritten it.
    pub id: Text<'a>,
    /// Its number among the versions of the entity; 1 is the latest.
    pub number: usize,
    /// The time at which it was overwritten, in UTC.
    pub time: String,
    /// `file`, `symlink` or `directory`.
    pub kind: Cow<'a, str>,
    /// The size of the content in bytes.
    pub size: u64,
    /// The path.
    pub path: Text<'a>,
    /// True if the content must not be displayed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sensitive: bool,
}

/// The result of an entity in an earlier run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RecordLine<'a> {
    /// The ID of the run.
    pub run: Cow<'a, str>,
    /// The ID of the entity.
    pub id: Text<'a>,
    /// The ID of its plugin.
    pub plugin: Cow<'a, str>,
    /// The time at which the entity was finished, in UTC.
    pub time: String,
    /// The duration in seconds.
    pub duration: f64,
    /// `unchanged`, `changed`, `pending`, `refused`, `skipped` or `failed`.
    pub result: Cow<'a, str>,
    /// The changes that were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Text<'a>>,
    /// The changes that require `--force`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal<'a>>,
    /// The reason why the entity was skipped, was deferred or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text<'a>>,
    /// The end of its output on stderr, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Text<'a>>,
    /// The IDs of the entities whose changes refreshed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refreshed_by: Vec<Text<'a>>,
    /// The differences made; only with `--diff`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diffs: Vec<DiffLine<'a>>,
}

/// A difference made by an earlier run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DiffLine<'a> {
    /// The name of the old content.
    pub from: Text<'a>,
    /// The name of the new content.
    pub to: Text<'a>,
    /// The difference in git's format.
    pub text: Text<'a>,
    /// True if either content is not text, so that the difference only states that they differ.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub binary: bool,
    /// The number of further bytes of the difference that were not saved.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: usize,
}

fn is_zero(value: &usize) -> bool {
    *value == 0
}

/// A generation: the saved inputs of a run that made changes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct GenerationLine<'a> {
    /// Its number.
    pub generation: u32,
    /// The time at which it was saved, in UTC.
    pub time: String,
    /// The ID of the run that saved it.
    pub run: Cow<'a, str>,
    /// True if it is used instead of the current inputs.
    pub used: bool,
    /// The number of its files.
    pub files: usize,
    /// The number of inputs that are missing from the previous generation.
    pub added: usize,
    /// The number of inputs that differ from the previous generation.
    pub changed: usize,
    /// The number of inputs that only the previous generation has.
    pub removed: usize,
    /// The first of these differences by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<InputDifference<'a>>,
    /// Files that inputs refer to, but that are not saved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_kept: Vec<Text<'a>>,
}

/// A difference between an input and its version in an earlier generation.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct InputDifference<'a> {
    /// Its path below the root.
    pub path: Text<'a>,
    /// The kind of difference.
    pub how: InputChange,
}

/// The kind of difference of an input.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InputChange {
    /// The input was added.
    Added,
    /// The input was modified.
    Changed,
    /// The input was removed.
    Removed,
}

/// The difference of an input between two generations.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct InputDiffLine<'a> {
    /// Its path below the root.
    pub path: Text<'a>,
    /// The difference in git's format.
    pub text: Text<'a>,
    /// True if the input is not world-readable, so that the text only states that it differs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sensitive: bool,
}

/// The state of the machine, as the last check or apply found it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct StatusLine<'a> {
    /// The time of the last complete check or apply, in UTC, unless there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The command of that run: `check` or `apply`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Cow<'a, str>>,
    /// True if definitions have changed since then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub outdated: bool,
    /// True if an invalid definition kept entities from being checked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub flawed: bool,
    /// The number of entities.
    pub entities: usize,
    /// The entities that are not in their desired state; at most 1,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub off: Vec<OffLine<'a>>,
    /// The number of further ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// The IDs of the entities whose refresh is due.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refreshes_due: Vec<Text<'a>>,
    /// The last run that had work to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<RunLine<'a>>,
    /// The generation that is used instead of the current inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<u32>,
    /// What the agent is doing, in a word, if its socket exists: `waiting`, `preparing`, `watching`, `running`,
    /// `stopping`, or `unreachable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Cow<'a, str>>,
    /// The pause, if the agent makes no changes for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_paused: Option<PauseLine<'a>>,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<NextLine<'a>>,
}

/// A time in which the agent makes no changes, on request.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PauseLine<'a> {
    /// Its start, in UTC.
    pub since: Cow<'a, str>,
    /// The time at which it ends by itself, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Cow<'a, str>>,
    /// The user who requested it.
    pub by: Cow<'a, str>,
    /// The reason.
    pub reason: Cow<'a, str>,
}

/// An entity that is not in its desired state.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct OffLine<'a> {
    /// Its ID.
    pub id: Text<'a>,
    /// The ID of its plugin.
    pub plugin: Cow<'a, str>,
    /// `pending`, `refused`, `skipped` or `failed`.
    pub state: Cow<'a, str>,
    /// The first change that would be made, the reason for which it needs force, or the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Text<'a>>,
}

/// A command that helps.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct NextLine<'a> {
    /// The command, in shell syntax.
    pub command: Text<'a>,
    /// What it does.
    pub purpose: Cow<'a, str>,
}

//! Lines about earlier runs.

use crate::tally::Tally;
use crate::{Refusal, Text};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;

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
    /// `unchanged`, `changed`, `refused`, `skipped` or `failed`.
    pub result: Cow<'a, str>,
    /// The changes that were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Text<'a>>,
    /// The changes that require `--force`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal<'a>>,
    /// The reason why the entity was skipped or failed.
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

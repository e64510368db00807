//! The lines about earlier runs.

use crate::tally::Tally;
use crate::{Refusal, Text};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A run that is on record.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RunLine<'a> {
    /// The ID of the run.
    pub run: Cow<'a, str>,
    /// `running`, `unchanged`, `changed`, `refused`, `failed` or `interrupted`.
    pub result: Cow<'a, str>,
    /// The time at which it began, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The time that it took, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// The exit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The number of entities by how they ended.
    pub tally: Tally,
    /// The version of holo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holo: Option<Cow<'a, str>>,
    /// The command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<Text<'a>>,
    /// The user whose rights it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The user who called `sudo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sudo_user: Option<Text<'a>>,
    /// The user who had logged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_uid: Option<u32>,
    /// The terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Text<'a>>,
    /// The name of what started it, if no person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Text<'a>>,
    /// The reason for which it ended before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text<'a>>,
}

/// The work of an earlier run on an entity.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RecordLine<'a> {
    /// The ID of the run.
    pub run: Cow<'a, str>,
    /// The ID of the entity.
    pub id: Text<'a>,
    /// The ID of its plugin.
    pub plugin: Cow<'a, str>,
    /// The time at which it was done with, in UTC.
    pub time: String,
    /// The time that it took, in seconds.
    pub duration: f64,
    /// `unchanged`, `changed`, `refused`, `skipped` or `failed`.
    pub result: Cow<'a, str>,
    /// The changes that were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Text<'a>>,
    /// The changes that would have had to be forced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal<'a>>,
    /// The reason for which it was skipped, or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text<'a>>,
    /// The end of what was printed about it on stderr, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Text<'a>>,
    /// The IDs of the entities whose change refreshed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refreshed_by: Vec<Text<'a>>,
    /// The differences that were made; only with `--diff`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diffs: Vec<DiffLine<'a>>,
}

/// A difference that an earlier run made.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DiffLine<'a> {
    /// The name of what there was.
    pub from: Text<'a>,
    /// The name of what there is.
    pub to: Text<'a>,
    /// The difference, in the form of git.
    pub text: Text<'a>,
    /// True if one of them is not text, so that the difference only says that they differ.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub binary: bool,
    /// The number of bytes that the difference had more, and that were not kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: usize,
}

fn is_zero(value: &usize) -> bool {
    *value == 0
}

//! Generations, and how their inputs differ.

use crate::{Text, is_false};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A generation: the inputs of a run that changed something.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct GenerationLine<'a> {
    /// Its number.
    pub generation: u32,
    /// The time at which it was kept, in UTC.
    pub time: String,
    /// The ID of the run that kept it.
    pub run: Cow<'a, str>,
    /// True if it is used instead of today's inputs.
    pub used: bool,
    /// The number of its files.
    pub files: usize,
    /// The number of inputs that the generation before it did not have.
    pub added: usize,
    /// The number of inputs that are not as in the generation before it.
    pub changed: usize,
    /// The number of inputs that only the generation before it had.
    pub removed: usize,
    /// The first of these, by their paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<InputDifference<'a>>,
    /// The files that inputs lead to, and that are not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_kept: Vec<Text<'a>>,
}

/// An input that differs from the same one of an earlier generation.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct InputDifference<'a> {
    /// Its path below the root.
    pub path: Text<'a>,
    /// The way in which it differs.
    pub how: InputChange,
}

/// The way in which an input differs.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InputChange {
    /// It is new.
    Added,
    /// It is not as it was.
    Changed,
    /// It is gone.
    Removed,
}

/// The difference of an input between two generations.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct InputDiffLine<'a> {
    /// Its path below the root.
    pub path: Text<'a>,
    /// The difference, in the form of git.
    pub text: Text<'a>,
    /// True if not everybody may read it, so that the difference only says that it differs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sensitive: bool,
}

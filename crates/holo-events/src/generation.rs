//! Generations and their differences.

use crate::{Text, is_false};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;

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

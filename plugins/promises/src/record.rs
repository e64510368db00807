//! The record of a promise with a `scrub` table, which replaces the promise when it has no definition any more.

use crate::names::Subject;
use holo_bridge::{Attributes, Interpreter};
use serde::{Deserialize, Serialize};

/// A promise with its replacement, and the declaration of its module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scrub {
    /// The type of the promise.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) promiser: String,
    /// The attributes of the final promise.
    pub(crate) scrub: Attributes,
    /// The names of attributes whose values are not shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sensitive: Vec<String>,
    /// The module's file, as declared.
    pub(crate) path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interpreter: Option<Interpreter>,
    #[serde(default)]
    pub(crate) respects_root: bool,
    /// The file of the definition.
    pub(crate) filename: String,
    pub(crate) line: usize,
}

impl Scrub {
    /// Returns the promise that replaces it.
    pub(crate) fn subject(&self) -> Subject {
        Subject {
            kind: self.kind.clone(),
            promiser: self.promiser.clone(),
            attributes: self.scrub.clone(),
            log_level: crate::level::LogLevel::default(),
            filename: self.filename.clone(),
            line: self.line,
        }
    }
}

//! The form of a `[[block]]` table, and its valid values.

use super::{Ensure, edit_table, named, one_line, trimmed};
use holo_plugin::definitions::{Command, Definition, Invalid, NameError, NameKeys};
use serde::Deserialize;

edit_table! {
    /// Lines between two marker lines in a file that others own.
    anchored BlockDefinition {
        /// The name that distinguishes it from other blocks of the file; it is part of the marker lines.
        pub(crate) name: Option<String>,
        /// The lines between the marker lines.
        pub(crate) content: Option<String>,
        /// The prefix of a comment, or its prefix and suffix.
        #[serde(default)]
        pub(crate) comment: Comment,
    }
}

/// The form of a comment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Comment {
    /// The prefix; the comment ends with the line.
    Prefix(String),
    /// The prefix and the suffix.
    Pair([String; 2]),
}

impl Default for Comment {
    fn default() -> Self {
        Comment::Prefix("#".to_owned())
    }
}

impl Definition for BlockDefinition {
    const TABLE: &'static str = "block";
    const HAS_FOLDERS: bool = true;

    fn entity_name(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
        named(keys)
    }

    fn doubts(&self) -> Vec<Invalid> {
        self.shared().doubts()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        self.shared().invalid_values([
            self.comment.validate(),
            self.content.iter().try_for_each(|content| self.validate_content(content)),
        ])
    }

    fn validate(&self) -> Result<(), Invalid> {
        if self.ensure == Ensure::Present && self.content.is_none() {
            return Err(Invalid::new("content", "is missing"));
        }
        self.shared().validate()
    }
}

impl BlockDefinition {
    /// Returns the marker lines.
    pub(in crate::edits) fn markers(&self) -> [String; 2] {
        let name = self.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        ["BEGIN", "END"].map(|word| match &self.comment {
            Comment::Prefix(prefix) => format!("{prefix} {word} holo{name}"),
            Comment::Pair([prefix, suffix]) => format!("{prefix} {word} holo{name} {suffix}"),
        })
    }

    fn validate_content(&self, content: &str) -> Result<(), Invalid> {
        match content.lines().find(|line| self.markers().iter().any(|marker| marker == line)) {
            Some(line) => Err(Invalid::new("content", format!("{line:?} is a marker line of the block"))),
            None => Ok(()),
        }
    }
}

impl Comment {
    fn validate(&self) -> Result<(), Invalid> {
        let parts: &[String] = match self {
            Comment::Prefix(prefix) => std::slice::from_ref(prefix),
            Comment::Pair(pair) => pair,
        };
        parts.iter().try_for_each(|part| {
            one_line("comment", part)?;
            if part.is_empty() { Err(Invalid::new("comment", "is empty")) } else { trimmed("comment", part) }
        })
    }
}

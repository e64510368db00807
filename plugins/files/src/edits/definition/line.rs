//! The form of a `[[line]]` table, and its valid values.

use super::{Ensure, compile, edit_table, named, one_line};
use holo_plugin::definitions::{Command, Definition, Invalid, NameError, NameKeys};
use serde::Deserialize;

edit_table! {
    /// A line in a file that others own.
    anchored LineDefinition {
        /// The name that distinguishes it from other lines of the file.
        #[expect(dead_code, reason = "it is a part of the ID")]
        pub(crate) name: Option<String>,
        /// The line, without a line ending.
        pub(crate) line: Option<String>,
        /// A regular expression: the last matching line is replaced, or all matching lines are removed.
        #[serde(rename = "match")]
        pub(crate) matches: Option<String>,
    }
}

impl Definition for LineDefinition {
    const TABLE: &'static str = "line";
    const HAS_FOLDERS: bool = true;

    fn entity_name(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
        named(keys)
    }

    fn doubts(&self) -> Vec<Invalid> {
        self.shared().doubts()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        self.shared().invalid_values([
            self.line.iter().try_for_each(|line| one_line("line", line)),
            self.matches.iter().try_for_each(|pattern| compile("match", pattern).map(drop)),
        ])
    }

    fn validate(&self) -> Result<(), Invalid> {
        if self.ensure == Ensure::Present && self.line.is_none() {
            return Err(Invalid::new("line", "is missing"));
        }
        if self.line.is_none() && self.matches.is_none() {
            return Err(Invalid::new("match", "is missing; without line, it says which lines go"));
        }
        self.shared().validate()
    }
}

//! The form of an `[[ini]]` table, and its valid values.

use super::{Ensure, edit_table, not_absent, one_line, trimmed};
use holo_plugin::definitions::{Command, Definition, Invalid, NameError, NameKeys};
use serde::Deserialize;

edit_table! {
    /// The value of a key in a file of sections.
    IniDefinition {
        /// The section, without brackets; without it, the key is above all sections.
        pub(crate) section: Option<String>,
        /// The key.
        pub(crate) key: String,
        /// The value.
        pub(crate) value: Option<String>,
        /// The text between a new key and its value; ` = ` by default.
        pub(crate) delimiter: Option<String>,
    }
}

impl Definition for IniDefinition {
    const TABLE: &'static str = "ini";
    const KEY: &'static str = "key";
    const HAS_FOLDERS: bool = true;

    fn entity_name(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
        let (path, key) = (keys.required("path")?, keys.required("key")?);
        Ok(match keys.optional("section")? {
            Some(section) => format!("{path}#{section}.{key}"),
            None => format!("{path}#{key}"),
        })
    }

    fn doubts(&self) -> Vec<Invalid> {
        self.shared().doubts()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        self.shared().invalid_values([
            self.section.iter().try_for_each(|section| self.validate_section(section)),
            self.validate_key(),
            self.value.iter().try_for_each(|value| one_line("value", value).and_then(|()| trimmed("value", value))),
            self.delimiter.iter().try_for_each(|delimiter| validate_delimiter(delimiter)),
        ])
    }

    fn validate(&self) -> Result<(), Invalid> {
        if self.ensure == Ensure::Present && self.value.is_none() {
            return Err(Invalid::new("value", "is missing"));
        }
        not_absent("value", self.value.is_some(), self.ensure)?;
        self.shared().validate()
    }
}

impl IniDefinition {
    /// Returns the text between a new key and its value.
    pub(in crate::edits) fn delimiter(&self) -> &str {
        self.delimiter.as_deref().unwrap_or(" = ")
    }

    /// Returns the character that ends a key; `None` if white space does.
    pub(in crate::edits) fn separator(&self) -> Option<char> {
        self.delimiter().trim().chars().next()
    }

    fn validate_key(&self) -> Result<(), Invalid> {
        let key = &self.key;
        let ends_early = match self.separator() {
            Some(separator) => key.contains(separator),
            None => key.contains(char::is_whitespace),
        };
        if key.starts_with(['[', '#', ';']) || ends_early {
            return Err(Invalid::new("key", format!("{key:?} would not be read as a key")));
        }
        trimmed("key", key)
    }

    fn validate_section(&self, section: &str) -> Result<(), Invalid> {
        if section.contains(['[', ']']) {
            return Err(Invalid::new("section", format!("{section:?} is to be written without brackets")));
        }
        trimmed("section", section)
    }
}

fn validate_delimiter(delimiter: &str) -> Result<(), Invalid> {
    one_line("delimiter", delimiter)?;
    let mark = delimiter.trim();
    if delimiter.is_empty() || mark.chars().count() > 1 || mark.contains(char::is_alphanumeric) {
        let problem = "is not a character with blanks around it, such as \" = \", nor blanks";
        return Err(Invalid::new("delimiter", format!("{delimiter:?} {problem}")));
    }
    Ok(())
}

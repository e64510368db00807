//! Types for definitions, and the names of entities, formed from the keys of their tables.

use crate::reading::kind;
use crate::reading::value_error::similar;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::fmt::{self, Display};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A table of a definition. The type must be `#[serde(deny_unknown_fields)]`, so that unknown keys are refused.
pub trait Definition: DeserializeOwned {
    /// The name of the tables, such as `package` for `[[package]]`.
    const TABLE: &'static str;
    /// The type in the IDs of its entities.
    const ENTITY_TYPE: &'static str = Self::TABLE;
    /// The key whose value is the entity's name.
    const KEY: &'static str = "name";
    /// Keys, in addition to the common ones, whose lists are united when a definition is stacked from several files.
    const UNITED: &'static [&'static str] = &[];
    /// Names of common keys that are keys of this type if their value is a string.
    const STRINGS: &'static [&'static str] = &[];
    /// Keys whose values are never shown, so that they may be sensitive.
    const SECRETS: &'static [&'static str] = &[];

    /// True if the plugin gives folders in the resource directory another meaning, whatever their names.
    const HAS_FOLDERS: bool = false;
    /// True if the plugin evaluates expressions such as `{{ data.port }}` in its definitions itself.
    const HAS_EXPRESSIONS: bool = false;

    /// Keys that affect no other entity. A table that only has such keys need not be read to determine other entities.
    const SELF_CONTAINED: &'static [&'static str] = &[];

    /// Returns the entity's name, which follows the type in its ID.
    ///
    /// # Errors
    /// If the keys that form the name are missing or invalid.
    fn entity_name(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
        keys.required(Self::KEY).map(str::to_owned)
    }

    /// Returns warnings about values that are valid, but probably not intended. The definition is used nevertheless.
    fn doubts(&self) -> Vec<Invalid> {
        Vec::new()
    }

    /// Returns errors that the type cannot express, each for a single key. This is called even if other keys are
    /// invalid, so that all errors are reported at once; those keys then have placeholder values.
    fn invalid_values(&self) -> Vec<Invalid> {
        Vec::new()
    }

    /// Checks for combinations of keys that the type cannot exclude.
    ///
    /// # Errors
    /// The key that is wrong, and the reason.
    fn validate(&self) -> Result<(), Invalid> {
        Ok(())
    }

    /// Returns all errors: invalid values, and invalid combinations of keys.
    fn invalid(&self) -> Vec<Invalid> {
        let mut invalid = self.invalid_values();
        let together = self.validate().err();
        let together = together.filter(|problem| invalid.iter().all(|known| known.key != problem.key));
        invalid.extend(together);
        invalid
    }
}

/// An error in a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The key, or `KEY.KEY` for a key in a nested table.
    pub key: Cow<'static, str>,
    problem: String,
}

impl Invalid {
    /// Collects the errors of several checks.
    pub fn all(results: impl IntoIterator<Item = Result<(), Invalid>>) -> Vec<Invalid> {
        results.into_iter().filter_map(Result::err).collect()
    }

    /// Returns an error for a key. The problem is worded to follow "KEY: ".
    pub fn new(key: impl Into<Cow<'static, str>>, problem: impl Into<String>) -> Invalid {
        Invalid { key: key.into(), problem: problem.into() }
    }
}

impl Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

impl std::error::Error for Invalid {}

/// The keys of a table, for forming a name.
pub struct NameKeys<'t, 's> {
    entries: &'t DeTable<'s>,
    span: Range<usize>,
}

/// The reason why a table has no valid name.
#[derive(Clone, Debug)]
pub struct NameError {
    pub(crate) span: Range<usize>,
    pub(crate) problem: String,
}

impl<'t, 's> NameKeys<'t, 's> {
    pub(crate) fn new(entries: &'t DeTable<'s>, span: Range<usize>) -> NameKeys<'t, 's> {
        NameKeys { entries, span }
    }

    /// Returns the error for a key whose value cannot be part of a name.
    #[must_use]
    pub fn wrong(&self, key: &str, problem: &str) -> NameError {
        let span = self.entries.get(key).map_or_else(|| self.span.clone(), Spanned::span);
        NameError { span, problem: format!("{key}: {problem}") }
    }

    /// Returns the text of a required key: one line, not empty.
    ///
    /// # Errors
    /// If the key is missing, or its value is invalid.
    pub fn required(&self, key: &str) -> Result<&'t str, NameError> {
        self.optional(key)?.ok_or_else(|| {
            let meant = self.entries.keys().find(|other| similar(other.get_ref(), [key]).is_some());
            match meant {
                Some(other) => NameError {
                    span: other.span(),
                    problem: format!("{}: unknown key, did you mean {key}?", other.get_ref()),
                },
                None => NameError { span: self.span.clone(), problem: format!("{key}: is missing") },
            }
        })
    }

    /// Returns the text of an optional key: one line, not empty.
    ///
    /// # Errors
    /// If its value is invalid.
    pub fn optional(&self, key: &str) -> Result<Option<&'t str>, NameError> {
        let Some(value) = self.entries.get(key) else { return Ok(None) };
        let wrong = |problem: String| Err(NameError { span: value.span(), problem: format!("{key}: {problem}") });
        match value.get_ref().as_str() {
            None => wrong(format!("expected a string, found {}", kind(value.get_ref()))),
            Some("") => wrong("is empty".to_owned()),
            Some(text) if text.contains(char::is_control) => wrong(format!("{text:?} contains control characters")),
            Some(text) => Ok(Some(text)),
        }
    }
}

/// Returns the value as a table.
///
/// # Errors
/// If it is not a table.
pub(crate) fn table(value: Spanned<DeValue<'_>>) -> Result<Spanned<DeTable<'_>>, NameError> {
    let span = value.span();
    match value.into_inner() {
        DeValue::Table(entries) => Ok(Spanned::new(span, entries)),
        _ => Err(NameError { span, problem: "expected a table".to_owned() }),
    }
}

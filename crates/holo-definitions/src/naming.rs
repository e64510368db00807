//! Names of entities, formed from the keys of their tables.

use crate::reading::kind;
use crate::similar::similar;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

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

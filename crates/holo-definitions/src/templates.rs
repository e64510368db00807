//! The template and expression engine used by definitions.

use crate::finding::LocatedError;
use std::ops::Range;

/// The message for an error that must not be shown.
pub(crate) const MISTAKE: &str = "the error is not shown, because it concerns an encrypted value";

/// Renders definition files and evaluates conditions.
pub trait Templates {
    /// Renders a text. The name is used in errors.
    ///
    /// # Errors
    /// The error, with the name and line of the template.
    fn render(&self, name: &str, text: &str) -> Result<Rendered, LocatedError>;

    /// Returns true if a condition holds.
    ///
    /// # Errors
    /// If the condition cannot be evaluated; the error's place is the condition itself.
    fn holds(&self, condition: &str) -> Result<bool, LocatedError>;
}

/// A rendered template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// The text rendered with placeholders for secrets, if it differs.
    pub(crate) disguised: Option<String>,
}

impl Rendered {
    /// Returns a text without secrets.
    #[must_use]
    pub fn new(text: String) -> Rendered {
        Rendered { text, disguised: None }
    }

    /// Returns a text together with the same template rendered with placeholders for secrets: the parts that differ
    /// must not be shown.
    #[must_use]
    pub fn beside(text: String, disguised: String) -> Rendered {
        let disguised = (disguised != text).then_some(disguised);
        Rendered { text, disguised }
    }

    /// Returns true if any part of the text must not be shown.
    #[must_use]
    pub fn is_sensitive(&self) -> bool {
        self.disguised.is_some()
    }

    /// Returns the ranges of the text that must not be shown.
    pub(crate) fn hidden(&self) -> Vec<Range<usize>> {
        let Some(disguised) = &self.disguised else { return Vec::new() };
        let (text, other) = (self.text.as_bytes(), disguised.as_bytes());
        if text.len() == other.len() {
            let differs = |(one, other): (&u8, &u8)| one != other;
            let places = text.iter().zip(other).enumerate().filter(|(_, pair)| differs(*pair));
            return places.map(|(place, _)| place..place + 1).collect();
        }
        let same = |pairs: &mut dyn Iterator<Item = (&u8, &u8)>| pairs.take_while(|(one, other)| one == other).count();
        let before = same(&mut text.iter().zip(other));
        let after = same(&mut text.iter().rev().zip(other.iter().rev())).min(text.len().min(other.len()) - before);
        std::iter::once(before..text.len() - after).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_hidden() {
        let hidden = |text: &str, disguised: &str| -> (bool, Vec<(usize, usize)>) {
            let rendered = Rendered::beside(text.to_owned(), disguised.to_owned());
            let hidden = rendered.hidden().iter().map(|span| (span.start, span.end)).collect();
            (rendered.is_sensitive(), hidden)
        };
        assert_eq!(hidden("a = 1", "a = 1"), (false, vec![]));
        assert_eq!(hidden("a = 1", "a = 2"), (true, vec![(4, 5)]));
        assert_eq!(hidden("a = 12\nb = 3", "a = 9\nb = 3"), (true, vec![(4, 6)]));
        assert_eq!(hidden("aa", "aaa"), (true, vec![(2, 2)]));
        assert_eq!(hidden("abc", ""), (true, vec![(0, 3)]));
    }
}

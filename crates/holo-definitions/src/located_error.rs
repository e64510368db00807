//! Errors with a location: `PLACE:LINE: TEXT`.

use std::fmt::{self, Display};

/// An error with a location: a file, a template or an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct LocatedError {
    /// The file or other source, as shown to the user.
    pub place: String,
    /// The line number, counted from 1.
    pub line: Option<usize>,
    /// The message, as a fragment.
    pub text: String,
}

impl LocatedError {
    /// Returns an error without a line number.
    pub fn new(place: impl Display, text: impl Display) -> LocatedError {
        LocatedError { place: place.to_string(), line: None, text: text.to_string() }
    }

    /// Returns this error with a line number.
    #[must_use]
    pub fn at(self, line: impl Into<Option<usize>>) -> LocatedError {
        LocatedError { line: line.into(), ..self }
    }
}

impl Display for LocatedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.place)?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.text)
    }
}

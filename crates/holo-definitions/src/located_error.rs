//! Errors with their location: `PLACE:LINE: TEXT`.

use std::fmt::{self, Display};

/// An error at a place: a file, a template, an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct LocatedError {
    /// The file or other source, as the user knows it.
    pub place: String,
    /// Its line, counted from 1.
    pub line: Option<usize>,
    /// The message, as a fragment.
    pub text: String,
}

impl LocatedError {
    /// An error of something that has no lines.
    pub fn new(place: impl Display, text: impl Display) -> LocatedError {
        LocatedError { place: place.to_string(), line: None, text: text.to_string() }
    }

    /// The same error, in this line.
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

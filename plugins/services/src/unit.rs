//! Names of units.

use std::fmt::{self, Display};

/// The whole name of a unit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnitName(String);

impl UnitName {
    /// Takes a name as its provider has completed it.
    pub(crate) fn from_whole(name: String) -> UnitName {
        UnitName(name)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name that no unit can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} {problem}")]
pub(crate) struct UnitNameError {
    name: String,
    problem: String,
}

impl UnitNameError {
    /// The problem is in words that read after the name.
    pub(crate) fn new(name: &str, problem: impl Into<String>) -> UnitNameError {
        UnitNameError { name: name.to_owned(), problem: problem.into() }
    }
}

//! Names of units.

use crate::scope::Scope;
use std::fmt::{self, Display};

/// The whole name of a unit, with the manager that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnitName {
    name: String,
    scope: Scope,
}

impl UnitName {
    /// Takes a name as its provider has completed it, of a unit of the system.
    pub(crate) fn from_whole(name: String) -> UnitName {
        UnitName { name, scope: Scope::System }
    }

    /// Returns the unit of the same name that belongs to another manager.
    pub(crate) fn in_scope(self, scope: Scope) -> UnitName {
        UnitName { scope, ..self }
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Returns the name as its manager knows it.
    pub(crate) fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns a name that no other unit of the host has.
    pub(crate) fn qualified(&self) -> String {
        self.scope.qualify(&self.name)
    }
}

impl Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, self.scope)
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

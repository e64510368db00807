//! Names of units.

use crate::scope::Scope;
use std::fmt::{self, Display};

/// The full name of a unit, and the manager to which it belongs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnitName {
    name: String,
    scope: Scope,
}

impl UnitName {
    /// Returns the unit of the system with this name, which its provider has completed.
    pub(crate) fn from_whole(name: String) -> UnitName {
        UnitName { name, scope: Scope::System }
    }

    /// Returns the unit of the same name of another manager.
    pub(crate) fn in_scope(self, scope: Scope) -> UnitName {
        UnitName { scope, ..self }
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Returns the name within its manager.
    pub(crate) fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns a name that is unique on the host.
    pub(crate) fn qualified(&self) -> String {
        self.scope.qualify(&self.name)
    }
}

impl Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, self.scope)
    }
}

/// An invalid unit name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} {problem}")]
pub(crate) struct UnitNameError {
    name: String,
    problem: String,
}

impl UnitNameError {
    /// Returns the error; the problem is worded to follow the name.
    pub(crate) fn new(name: &str, problem: impl Into<String>) -> UnitNameError {
        UnitNameError { name: name.to_owned(), problem: problem.into() }
    }
}

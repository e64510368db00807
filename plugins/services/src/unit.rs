//! Names of units, and the service managers of a host, to which they belong: that of the system, and one for each user.

use serde::{Deserialize, Serialize};
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

/// The name for all users, which is not a valid user name.
const ALL_USERS: &str = "@users";

/// The manager to which a unit belongs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scope {
    /// The system manager.
    #[default]
    System,
    /// The managers of all users: units can be enabled and masked for all of them at once.
    AllUsers,
    /// The manager of the user with this name.
    User(String),
}

impl Scope {
    pub(crate) fn is_system(&self) -> bool {
        *self == Scope::System
    }

    /// Returns the user of the manager.
    pub(crate) fn user(&self) -> Option<&str> {
        match self {
            Scope::User(name) => Some(name),
            Scope::System | Scope::AllUsers => None,
        }
    }

    /// Returns a name that is unique among all managers of a host.
    pub(crate) fn qualify(&self, name: &str) -> String {
        match self {
            Scope::System => name.to_owned(),
            Scope::AllUsers => format!("{ALL_USERS}/{name}"),
            Scope::User(user) => format!("{user}/{name}"),
        }
    }

    /// Splits a [qualified](Scope::qualify) name.
    pub(crate) fn split(name: &str) -> (Scope, &str) {
        match name.split_once('/') {
            None => (Scope::System, name),
            Some((ALL_USERS, name)) => (Scope::AllUsers, name),
            Some((user, name)) => (Scope::User(user.to_owned()), name),
        }
    }
}

/// Formats it to follow the name of a unit.
impl Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::System => Ok(()),
            Scope::AllUsers => f.write_str(" of all users"),
            Scope::User(user) => write!(f, " of {user}"),
        }
    }
}

/// Returns true if a user name is valid.
pub(crate) fn is_user_name(name: &str) -> bool {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.$".contains(letter);
    !name.is_empty() && !name.starts_with(['-', '.']) && name.chars().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names_are_unique() {
        for scope in [Scope::System, Scope::AllUsers, Scope::User("alice".to_owned())] {
            assert_eq!(Scope::split(&scope.qualify("a@b.service")), (scope, "a@b.service"));
        }
        assert!(!is_user_name(ALL_USERS));
        for odd in ["", "-x", "a/b", "a:b", "a b", "a\n", "..", "ä"] {
            assert!(!is_user_name(odd), "{odd}");
        }
        assert!(["alice", "a.b-c_d", "host$"].into_iter().all(is_user_name));
    }
}

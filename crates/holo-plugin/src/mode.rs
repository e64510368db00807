//! The mode in which an entity is applied.

use bstr::BString;
use holo_process::Program;
use holo_protocol::environment as names;
use std::ffi::OsString;

/// The mode in which an entity is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode<'a> {
    /// True if changes of the user are overwritten, and risky operations are performed.
    pub force: bool,
    /// True if the entity is refreshed, because an entity that it depends on has changed.
    pub refresh: bool,
    /// True for a check if an earlier entity of the run may provide what this entity needs.
    pub pending: bool,
    /// The values from the entities that caused the refresh, and those that its definition receives, each as
    /// `KEY=VALUE`.
    pub received: &'a [BString],
    /// The names of the values that other entities receive from it.
    pub wanted: &'a [BString],
}

impl Mode<'_> {
    /// Returns true if another entity receives the value of this name.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        self.wanted.iter().any(|wanted| wanted == name)
    }

    /// Returns the environment variables that describe the refresh to a program.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let refresh = self.refresh.then(|| (names::REFRESH, "1".into()));
        let received = (!self.received.is_empty()).then(|| (names::RECEIVED, names::join_received(self.received)));
        refresh.into_iter().chain(received).collect()
    }

    /// Sets the environment variables of a program that is run for the entity, so that it receives the same information
    /// about the refresh.
    pub fn tell(&self, program: &mut Program) {
        program.env_remove(names::REFRESH).env_remove(names::RECEIVED);
        for (name, value) in self.variables() {
            program.env(name, value);
        }
    }
}

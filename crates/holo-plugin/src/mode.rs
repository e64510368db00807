//! The circumstances in which an entity is applied.

use bstr::BString;
use holo_process::Program;
use holo_protocol::environment as names;
use std::ffi::OsString;

/// The way in which an entity is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode<'a> {
    /// True if the work of a person is overwritten, and risky things are done.
    pub force: bool,
    /// True if the entity is refreshed: something that it depends on has changed.
    pub refresh: bool,
    /// True if this is a check, and something earlier in the run may bring what the entity lacks.
    pub pending: bool,
    /// The values that this has sent, and those that its definition receives: `KEY=VALUE` each.
    pub received: &'a [BString],
    /// The names of the values that others receive from it.
    pub wanted: &'a [BString],
}

impl Mode<'_> {
    /// Returns true if somebody receives the value of this name.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        self.wanted.iter().any(|wanted| wanted == name)
    }

    /// Returns the variables of the environment that tell a program of the refresh; none if there is nothing to tell.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let refresh = self.refresh.then(|| (names::REFRESH, "1".into()));
        let received = (!self.received.is_empty()).then(|| (names::RECEIVED, names::join_received(self.received)));
        refresh.into_iter().chain(received).collect()
    }

    /// Tells a program that is called for the entity what we have been told of its refresh, by the same variables of the environment.
    pub fn tell(&self, program: &mut Program) {
        program.env_remove(names::REFRESH).env_remove(names::RECEIVED);
        for (name, value) in self.variables() {
            program.env(name, value);
        }
    }
}

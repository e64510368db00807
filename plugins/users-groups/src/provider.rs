//! The interface to the tools that make, change and remove accounts.

use crate::account::{Account, AccountId};
use crate::command::Command;
use crate::definition::Definition;
use holo_plugin::process::Ended;
use holo_plugin::provider::Provider;

/// The wishes that count only while an account is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Creation {
    /// It is one of the system's own.
    pub(crate) system: bool,
    /// Its home directory is made with it.
    pub(crate) home: bool,
}

impl Creation {
    pub(crate) fn new(definition: &Definition) -> Creation {
        Creation { system: definition.system, home: definition.create_home }
    }
}

/// Tools that manage users and groups.
pub(crate) trait AccountProvider: Provider {
    /// Returns the command that makes what is wanted.
    fn create(&self, wanted: &Account, creation: Creation) -> Command;

    /// Returns the command that makes an account what is wanted, its name included; none if it is that already.
    fn modify(&self, actual: &Account, wanted: &Account) -> Option<Command>;

    /// Returns the command that removes an account.
    fn delete(&self, id: &AccountId) -> Command;

    /// The programs that it needs.
    fn programs(&self) -> &'static [&'static str];

    /// Returns true if a command failed only because somebody else has the files locked.
    fn is_locked(&self, ended: &Ended) -> bool;
}

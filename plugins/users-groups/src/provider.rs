//! The interface to the tools that create, change and delete accounts.

use crate::account::{Account, AccountId};
use crate::command::Command;
use crate::definition::Definition;
use holo_plugin::process::Ended;
use holo_plugin::provider::Provider;

/// Options that matter only when an account is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Creation {
    /// Create a system account.
    pub(crate) system: bool,
    /// Create the home directory.
    pub(crate) home: bool,
}

impl Creation {
    pub(crate) fn new(definition: &Definition) -> Creation {
        Creation { system: definition.system, home: definition.create_home }
    }
}

/// Tools that manage users and groups.
pub(crate) trait AccountProvider: Provider {
    /// Returns the command that creates an account.
    fn create(&self, wanted: &Account, creation: Creation) -> Command;

    /// Returns the command that makes `actual` as wanted, including its name, or `None` if they are equal.
    fn modify(&self, actual: &Account, wanted: &Account) -> Option<Command>;

    /// Returns the command that deletes an account.
    fn delete(&self, id: &AccountId) -> Command;

    /// Returns the programs that this provider runs.
    fn programs(&self) -> &'static [&'static str];

    /// Returns true if a command failed only because another process has locked the files.
    fn is_locked(&self, ended: &Ended) -> bool;
}

//! The interface to the tools that make, change and remove accounts.

use crate::account::{Account, AccountId};
use crate::command::Command;
use holo_plugin::process::Ended;
use holo_plugin::provider::Provider;

/// Tools that manage users and groups.
pub(crate) trait AccountProvider: Provider {
    /// Returns the command that makes what is wanted.
    fn create(&self, wanted: &Account, system: bool) -> Command;

    /// Returns the command that makes an account what is wanted, its name included; none if it is that already.
    fn modify(&self, actual: &Account, wanted: &Account) -> Option<Command>;

    /// Returns the command that removes an account.
    fn delete(&self, id: &AccountId) -> Command;

    /// Returns true if a command failed only because somebody else has the files locked.
    fn is_locked(&self, ended: &Ended) -> bool;
}

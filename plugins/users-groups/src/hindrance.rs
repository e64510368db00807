//! What keeps the tools from making an account, as far as that can be known beforehand.

use crate::account::{Account, AccountError, AccountId, Kind};
use crate::entity::AccountEntity;
use crate::images::{Images, Moment};
use crate::providers::Command;
use holo_plugin::{Host, process};
use std::path::Path;

impl AccountEntity {
    /// Returns the command that makes the home directory of an existing user who gets another one, if that is declared.
    pub(crate) fn another_home(&self, host: &Host, actual: Option<&Account>, wanted: &Account) -> Option<Command> {
        let is_declared = self.definition.as_ref().is_some_and(|definition| definition.create_home);
        let home = wanted.home.as_ref().filter(|_| is_declared && !host.test_mode())?;
        let is_other = actual.is_some_and(|actual| actual.home.as_ref() != Some(home));
        let is_missing = || host.below_root(Path::new(home)).symlink_metadata().is_err();
        (is_other && is_missing()).then(|| self.shared.provider.make_home(&self.id))
    }

    /// Returns why a command that makes the account as wanted would fail.
    pub(crate) fn hindrance(
        &self,
        host: &Host,
        images: &Images,
        command: &Command,
        (actual, wanted): (Option<&Account>, &Account),
    ) -> Result<Option<String>, AccountError> {
        // Its tools do not run.
        if host.test_mode() {
            return Ok(None);
        }
        if process::find(command.program).is_none() {
            return Ok(Some(format!("{} is not installed", command.program)));
        }
        let id = &self.id;
        let named = host.accounts();
        let exists = |kind: Kind, name: &str| match kind {
            Kind::User => named.user(name).is_ok(),
            Kind::Group => named.group(name).is_ok(),
        };
        if actual.is_none() && exists(id.kind, &id.name) {
            return Ok(Some(format!("{id} comes from another source than the local files")));
        }
        let has_new_number = wanted.number.is_some() && actual.and_then(|actual| actual.number) != wanted.number;
        let all = if has_new_number { self.shared.accounts.all(host)? } else { Vec::new() };
        let is_taken = |other: &&Account| other.id.kind == id.kind && other.number == wanted.number && other.id != *id;
        // An account with a base is managed, and may get another number before.
        if let (Some(other), Some(number)) = (all.iter().find(is_taken), wanted.number)
            && images.load(Moment::Base, &other.id)?.is_none()
        {
            return Ok(Some(format!("{} {number} belongs to {}", id.kind.number_word(), other.id)));
        }
        let known = |group: &&String| actual.is_some_and(|actual| actual.groups.contains(group));
        let mut groups = wanted.group.iter().chain(wanted.groups.iter().filter(|group| !known(group)));
        // A group may be given by its number.
        let is_missing = |group: &&String| group.parse::<u32>().is_err() && !exists(Kind::Group, group);
        Ok(groups
            .find(is_missing)
            .map(|group| format!("there is no {}", AccountId { kind: Kind::Group, name: group.clone() })))
    }
}

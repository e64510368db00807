//! The known states of an account, on which decisions are based.

use crate::account::{Account, AccountError, AccountId, Kind};
use crate::entity::AccountEntity;
use crate::images::{Images, Moment};
use crate::plan::{self, PlanInput};
use crate::providers::Command;
use holo_plugin::Host;

/// The known states of a defined account.
#[derive(Debug)]
pub(crate) struct AccountState {
    /// The stored base, or the actual account if no base is stored yet.
    pub(crate) base: Account,
    /// True if no base is stored yet.
    pub(crate) is_first: bool,
    /// The actual account, under its current name.
    pub(crate) actual: Option<Account>,
    /// The account after the last apply.
    pub(crate) provisioned: Option<Account>,
    /// The orphan that this account takes over: the same account under another name.
    pub(crate) predecessor: Option<AccountId>,
    /// The supplementary groups that earlier applies have added, if that is known.
    added: Option<Vec<String>>,
    has_namesake: bool,
}

impl AccountState {
    pub(crate) fn plan_input(&self) -> PlanInput<'_> {
        PlanInput {
            base: &self.base,
            actual: self.actual.as_ref(),
            provisioned: self.provisioned.as_ref(),
            added: self.added.as_deref(),
            has_namesake: self.has_namesake,
        }
    }
}

/// The actual and the provisioned state of an account.
#[derive(Debug)]
pub(crate) struct Current {
    /// The actual account, under its current name.
    pub(crate) actual: Option<Account>,
    /// The account after the last apply.
    pub(crate) provisioned: Option<Account>,
    predecessor: Option<AccountId>,
}

impl AccountEntity {
    /// Determines the states of the account.
    pub(crate) fn state(&self, host: &Host, images: &Images) -> Result<AccountState, AccountError> {
        let has_namesake = self.namesake(host)?.is_some();
        let Current { actual, provisioned, predecessor } = self.current(host, images)?;
        let known_as = predecessor.as_ref().unwrap_or(&self.id);
        let (kept, added) = (images.load(Moment::Base, known_as)?, plan::added_groups(host, known_as)?);
        let is_first = kept.is_none() || predecessor.is_some();
        let base = kept.or_else(|| actual.clone()).unwrap_or_else(|| Account::bare(self.id.clone()));
        let base = self.with_known_group(host, Account { id: self.id.clone(), ..base })?;
        Ok(AccountState { base, is_first, actual, provisioned, predecessor, added, has_namesake })
    }

    /// Returns the command that renames the group that `useradd` created for a user along with the user, so that `userdel` deletes it
    /// later, or `None` if there is no such group.
    pub(crate) fn own_group_renamed(
        &self,
        host: &Host,
        images: &Images,
        predecessor: &AccountId,
        base: &Account,
    ) -> Result<Option<Command>, AccountError> {
        let accounts = &self.shared.accounts;
        let group = |name: &str| AccountId { kind: Kind::Group, name: name.to_owned() };
        let (old, new) = (group(&predecessor.name), group(&self.id.name));
        // The user has the old name until it is renamed, which never happens in test mode.
        let user = self.actual(host)?.or(accounts.find(host, predecessor)?);
        let is_its_own = self.id.kind == Kind::User
            && base.is_bare()
            && user.is_some_and(|user| user.group.as_ref() == Some(&old.name))
            && images.load(Moment::Base, &old)?.is_none()
            && accounts.find(host, &new)?.is_none()
            && accounts.is_alone(host, &old.name)?;
        let command = || self.shared.provider.modify(&Account::bare(old.clone()), &Account::bare(new.clone()));
        Ok(is_its_own.then(command).flatten())
    }

    /// Returns the actual and the provisioned account, under the predecessor's name while a takeover is pending.
    pub(crate) fn current(&self, host: &Host, images: &Images) -> Result<Current, AccountError> {
        let actual = self.actual(host)?;
        let provisioned = images.load(Moment::Provisioned, &self.id)?;
        if actual.is_none()
            && provisioned.is_none()
            && let Some(predecessor) = &self.history.predecessor
            && let Some(actual) = self.shared.accounts.find(host, predecessor)?
        {
            let provisioned = images.load(Moment::Provisioned, predecessor)?;
            let provisioned = provisioned.map(|account| Account { id: self.id.clone(), ..account });
            return Ok(Current { actual: Some(actual), provisioned, predecessor: Some(predecessor.clone()) });
        }
        let completed = self.completed(images, actual.as_ref())?;
        Ok(Current { actual, provisioned: completed.or(provisioned), predecessor: None })
    }

    /// Returns the account if a killed apply has completed it. It then counts as provisioned.
    fn completed(&self, images: &Images, actual: Option<&Account>) -> Result<Option<Account>, AccountError> {
        let (true, Some(actual)) = (self.history.is_interrupted, actual) else { return Ok(None) };
        let intended = images.load(Moment::Intended, &self.id)?;
        let is_complete = intended.is_some_and(|intended| intended.differences(actual).is_empty());
        Ok(is_complete.then(|| actual.clone()))
    }

    /// Replaces a GID by the current name of the login group in a base. Unsets the login group if no group has that GID.
    pub(crate) fn with_known_group(&self, host: &Host, mut base: Account) -> Result<Account, AccountError> {
        if let Some(number) = base.group.as_ref().and_then(|group| group.parse().ok()) {
            let accounts = &self.shared.accounts;
            let group = AccountId { kind: Kind::Group, name: base.group.clone().unwrap_or_default() };
            if accounts.find(host, &group)?.is_none() {
                base.group = accounts.group_name(host, number)?;
            }
        }
        Ok(base)
    }

    /// Returns the base to store. A login group without a name is stored as its GID.
    pub(crate) fn base_to_keep(&self, host: &Host, found: &AccountState) -> Result<Account, AccountError> {
        let mut base = found.base.clone();
        if self.id.kind == Kind::User && base.group.is_none() && found.actual.is_some() {
            let number = self.shared.accounts.login_group(host, &self.id.name)?;
            base.group = number.map(|number| number.to_string());
        }
        Ok(base)
    }
}

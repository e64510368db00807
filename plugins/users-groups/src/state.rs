//! The state of an account: all that is known of an account before it is decided what has to be done.

use crate::account::{Account, AccountId, Kind};
use crate::command::Command;
use crate::entity::AccountEntity;
use crate::error::AccountError;
use crate::images::{Images, Moment};
use crate::plan::Known;
use holo_plugin::Host;

/// The known state of an account that is defined.
#[derive(Debug)]
pub(crate) struct AccountState {
    /// As it was before us: kept, or as it is if nothing was kept yet.
    pub(crate) base: Account,
    /// True if nothing was kept yet.
    pub(crate) is_first: bool,
    /// As it is, under the name that it has.
    pub(crate) actual: Option<Account>,
    /// As we left it last.
    pub(crate) provisioned: Option<Account>,
    /// The account that it takes over from: it is the same one, under another name.
    pub(crate) predecessor: Option<AccountId>,
    has_namesake: bool,
}

impl AccountState {
    pub(crate) fn known(&self) -> Known<'_> {
        Known {
            base: &self.base,
            actual: self.actual.as_ref(),
            provisioned: self.provisioned.as_ref(),
            has_namesake: self.has_namesake,
        }
    }
}

/// The actual and the provisioned state of an account.
#[derive(Debug)]
pub(crate) struct Current {
    /// As it is, under the name that it has.
    pub(crate) actual: Option<Account>,
    /// As we left it last.
    pub(crate) provisioned: Option<Account>,
    predecessor: Option<AccountId>,
}

impl AccountEntity {
    /// Finds out what is known of the account.
    pub(crate) fn state(&self, host: &Host, images: &Images) -> Result<AccountState, AccountError> {
        let has_namesake = self.namesake(host)?.is_some();
        let Current { actual, provisioned, predecessor } = self.current(host, images)?;
        let kept = images.load(Moment::Base, predecessor.as_ref().unwrap_or(&self.id))?;
        let is_first = kept.is_none() || predecessor.is_some();
        let base = kept.or_else(|| actual.clone()).unwrap_or_else(|| Account::bare(self.id.clone()));
        let base = self.with_known_group(host, Account { id: self.id.clone(), ..base })?;
        Ok(AccountState { base, is_first, actual, provisioned, predecessor, has_namesake })
    }

    /// Returns the command that renames the group that `useradd` has made for a user alone, with that user, so that `userdel` takes it away
    /// again; none if there is no such group.
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
        // Before the user has its new name, and in test mode afterwards too, it has the old one.
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

    /// Finds out how the account is, and how it was left: under the name from which it takes over, if that is still so.
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

    /// The account as a killed apply has made it, if it has come so far: then that is what was provisioned.
    fn completed(&self, images: &Images, actual: Option<&Account>) -> Result<Option<Account>, AccountError> {
        let (true, Some(actual)) = (self.history.is_interrupted, actual) else { return Ok(None) };
        let intended = images.load(Moment::Intended, &self.id)?;
        let is_complete = intended.is_some_and(|intended| intended.differences(actual).is_empty());
        Ok(is_complete.then(|| actual.clone()))
    }

    /// The base, its login group by the name that a number has now; none if there is no group of this number.
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

    /// Returns the base to keep: a login group that has no name is kept by its number.
    pub(crate) fn base_to_keep(&self, host: &Host, found: &AccountState) -> Result<Account, AccountError> {
        let mut base = found.base.clone();
        if self.id.kind == Kind::User && base.group.is_none() && found.actual.is_some() {
            let number = self.shared.accounts.login_group(host, &self.id.name)?;
            base.group = number.map(|number| number.to_string());
        }
        Ok(base)
    }
}

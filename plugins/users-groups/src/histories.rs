//! Renamed accounts: which account takes over from which orphan, and the names that accounts had before.
//!
//! An image has the current name of its account, as version 3 reads it too. Therefore former names are stored separately.

use crate::account::{Account, AccountError, AccountId};
use crate::accounts::Accounts;
use crate::entity::History;
use crate::images::{Images, Moment};
use crate::stack::Stack;
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::error::PathError;
use holo_plugin::{EntityReport, Host, Output};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct Histories {
    all: BTreeMap<AccountId, History>,
}

/// The inputs of histories.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) host: &'a Host,
    pub(crate) images: &'a Images,
    pub(crate) accounts: &'a Accounts,
    /// The valid definitions.
    pub(crate) defined: &'a BTreeMap<AccountId, Stack>,
    /// The accounts that have a base.
    pub(crate) known: &'a BTreeSet<AccountId>,
}

impl Histories {
    /// Builds the histories of all accounts. Orphans that were, or will be, renamed to other accounts are removed from `orphans`.
    pub(crate) fn find(
        sources: Sources<'_>,
        renamed: BTreeMap<AccountId, Vec<String>>,
        orphans: &mut BTreeSet<AccountId>,
    ) -> Result<Histories, AccountError> {
        let mut histories = Histories::default();
        for (id, names) in renamed {
            histories.entry(&id).names = names;
        }
        for id in sources.images.all(Moment::Intended)? {
            histories.entry(&id).is_interrupted = true;
        }
        // If the accounts are unreadable, each apply fails with the reason.
        if !orphans.is_empty() && sources.accounts.are_readable(sources.host) {
            histories.find_leftovers(sources, orphans)?;
            histories.find_predecessors(sources, orphans)?;
        }
        for orphan in orphans.iter() {
            let Some(history) = histories.all.get_mut(orphan) else { continue };
            let origin = history.names.first().filter(|name| **name != orphan.name);
            let is_free = |name: &&String| {
                let id = AccountId { kind: orphan.kind, name: (*name).clone() };
                !sources.defined.contains_key(&id)
            };
            history.returns_to = origin.filter(is_free).cloned();
            let other = history.returns_to.clone().map(|name| AccountId { kind: orphan.kind, name });
            history.waits_for = other.filter(|other| orphans.contains(other));
        }
        Ok(histories)
    }

    /// Returns the orphans that occupy the original name of another orphan, and those others.
    pub(crate) fn wanted_names(&self) -> BTreeMap<AccountId, AccountId> {
        let waiting = self.all.iter().filter_map(|(id, history)| Some((history.waits_for.clone()?, id.clone())));
        waiting.collect()
    }

    /// Removes and returns the history of an account.
    pub(crate) fn take(&mut self, id: &AccountId) -> History {
        self.all.remove(id).unwrap_or_default()
    }

    fn entry(&mut self, id: &AccountId) -> &mut History {
        self.all.entry(id.clone()).or_default()
    }

    /// Finds orphans that are another account by now because an apply was killed before it removed their images.
    fn find_leftovers(&mut self, sources: Sources<'_>, orphans: &mut BTreeSet<AccountId>) -> Result<(), AccountError> {
        let Sources { host, accounts, known, .. } = sources;
        for (id, history) in self.all.iter_mut().filter(|(id, _)| known.contains(id)) {
            for name in history.names.iter().filter(|name| **name != id.name) {
                let former = AccountId { kind: id.kind, name: name.clone() };
                let has_gone = || accounts.find(host, &former).map(|account| account.is_none());
                if orphans.contains(&former) && accounts.find(host, id)?.is_some() && has_gone()? {
                    orphans.remove(&former);
                    history.leftovers.push(former);
                }
            }
        }
        Ok(())
    }

    /// Finds the orphan that each new account takes over: the one with the defined number, or with the same original name.
    fn find_predecessors(
        &mut self,
        sources: Sources<'_>,
        orphans: &mut BTreeSet<AccountId>,
    ) -> Result<(), AccountError> {
        let Sources { host, images, accounts, defined, known } = sources;
        let actual: BTreeMap<AccountId, Account> = orphans
            .iter()
            .filter_map(|id| accounts.find(host, id).map(|found| Some((id.clone(), found?))).transpose())
            .collect::<Result<_, AccountError>>()?;
        let provisioned: BTreeSet<AccountId> = images.all(Moment::Provisioned)?.into_iter().collect();
        for (id, stack) in defined.iter().filter(|(id, stack)| stack.is_defined() && !provisioned.contains(id)) {
            let names = self.all.get(id).map(|history| &history.names[..]).unwrap_or_default();
            let is_candidate = |orphan: &&AccountId| {
                let its_names = self.all.get(orphan).map(|history| &history.names[..]).unwrap_or_default();
                let number = actual.get(orphan).and_then(|account| account.number);
                let has_number = number.is_some() && number == stack.number();
                let had_name = its_names.first() == Some(&id.name) && number.is_some();
                // An account with a base takes over only if it continues a takeover that was killed.
                let is_begun = !known.contains(id) || names.contains(&orphan.name);
                orphan.kind == id.kind && (has_number || had_name) && is_begun
            };
            let Some(predecessor) = orphans.iter().find(is_candidate).cloned() else { continue };
            if accounts.find(host, id)?.is_some() {
                continue;
            }
            orphans.remove(&predecessor);
            let mut names = self.take(&predecessor).names;
            for name in [predecessor.name.clone(), id.name.clone()] {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            let history = self.entry(id);
            history.names = names;
            history.predecessor = Some(predecessor);
        }
        Ok(())
    }
}

fn memory(host: &Host) -> BaseStore {
    BaseStore::open_kind(host.locations(), "renamed")
}

/// Stores the names of an account, the original one first. They may include its current name.
pub(crate) fn remember(host: &Host, id: &AccountId, names: &[String]) -> Result<(), PathError> {
    memory(host).keep(&Remembered::new(&EntityReport::new(id.to_string()), names.to_vec()))
}

/// Returns the former names of all renamed accounts. Prints warnings for unreadable files.
pub(crate) fn all(host: &Host, output: &mut Output<'_>) -> Result<BTreeMap<AccountId, Vec<String>>, PathError> {
    let all = memory(host).all::<Vec<String>>(output)?;
    Ok(all.into_iter().filter_map(|(id, remembered)| Some((AccountId::parse(&id)?, remembered.base))).collect())
}

/// Removes the names of an account.
pub(crate) fn forget(host: &Host, id: &AccountId) -> Result<(), PathError> {
    memory(host).forget(&id.to_string())
}

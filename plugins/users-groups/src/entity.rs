//! A managed user or group: its definition, and where that stands.

use crate::account::{Account, AccountId, Kind};
use crate::accounts::{Accounts, FILES};
use crate::definition::Definition;
use crate::error::AccountError;
use crate::images::{Images, Moment};
use crate::provider::AccountProvider;
use crate::providers;
use crate::run::Patience;
use bstr::{BString, ByteVec};
use holo_plugin::{Action, Asset, EntityReport, Host};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A user or group that is defined, or was once.
#[derive(Debug)]
pub(crate) struct AccountEntity {
    pub(crate) id: AccountId,
    /// The desired account; none for an orphan.
    pub(crate) definition: Option<Definition>,
    /// Definitions of it that a condition leaves out, while others count: their files, as the user knows them, and why.
    pub(crate) left_out: Vec<(PathBuf, String)>,
    /// The groups that a user is, or was, to be in.
    pub(crate) groups: Vec<String>,
    /// The entities that it comes after by definition, or an orphan once came after.
    pub(crate) after: Vec<BString>,
    /// The time limit of a command, if one is given.
    pub(crate) timeout: Option<Duration>,
    /// The state from earlier runs, beside its images.
    pub(crate) history: History,
    /// The state that all entities of a run share.
    pub(crate) shared: Arc<Shared>,
}

/// The state of an account from earlier runs, beside its images.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// The account that this one takes over from: nothing defines it any more, and it is the same one by its number.
    pub(crate) predecessor: Option<AccountId>,
    /// All names that it had, the one from before us first.
    pub(crate) names: Vec<String>,
    /// The name to which scrubbing renames it back, if nobody defines another account of that name.
    pub(crate) returns_to: Option<String>,
    /// The account that has this name now, if nothing defines it any more either: it goes first.
    pub(crate) waits_for: Option<AccountId>,
    /// Accounts that have become this one, of which a killed apply has left the images.
    pub(crate) leftovers: Vec<AccountId>,
    /// True if an apply of it was killed while a command was to change it.
    pub(crate) is_interrupted: bool,
}

/// The state that all entities of a run share.
pub(crate) struct Shared {
    /// The tools that are run.
    pub(crate) provider: &'static dyn AccountProvider,
    /// The accounts of the system.
    pub(crate) accounts: Accounts,
    /// The time limit of waiting for locked files.
    pub(crate) patience: Patience,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("provider", &self.provider.name()).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(host: &Host) -> Shared {
        Shared { provider: providers::for_host(host), accounts: Accounts::default(), patience: Patience::default() }
    }
}

impl AccountEntity {
    /// The account as it is now.
    pub(crate) fn actual(&self, host: &Host) -> Result<Option<Account>, AccountError> {
        self.shared.accounts.find(host, &self.id)
    }

    /// The base of an orphan, under the name that scrubbing gives it back.
    pub(crate) fn base_of_orphan(&self, host: &Host, images: &Images) -> Result<Option<Account>, AccountError> {
        let Some(base) = images.load(Moment::Base, &self.id)? else { return Ok(None) };
        let mut base = self.with_known_group(host, base)?;
        if let Some(name) = &self.history.returns_to
            && !base.is_bare()
        {
            let id = AccountId { kind: self.id.kind, name: name.clone() };
            if self.shared.accounts.find(host, &id)?.is_none() {
                base.id = id;
            }
        }
        Ok(Some(base))
    }

    /// The group of the same name.
    pub(crate) fn namesake(&self, host: &Host) -> Result<Option<Account>, AccountError> {
        let group = AccountId { kind: Kind::Group, name: self.id.name.clone() };
        self.shared.accounts.find(host, &group)
    }

    pub(crate) fn to_report(&self) -> EntityReport {
        let mut report = EntityReport::new(self.id.to_string());
        for (file, reason) in &self.left_out {
            let mut line = bytes(file);
            report.sources.push(line.clone());
            line.push_str(format!(" ({reason})"));
            report.inform("left out", line);
        }
        match &self.definition {
            Some(definition) => {
                let words = definition.in_words();
                if !words.is_empty() {
                    report.inform("with", words);
                }
            }
            None => {
                report.action = Action::because("Scrubbing", "all definition files have been deleted");
                report.edges.orphan = true;
                report.edges.after = self.after.as_slice().into();
            }
        }
        let itself = Asset::new(self.id.kind.word(), self.id.name.as_str());
        report.edges.provides.push(itself.clone());
        report.edges.owns.push(itself);
        // An orphan gives its number up, so an entity that wants it does not wait for that.
        let number = self.definition.as_ref().and_then(|definition| definition.account.number);
        report.edges.owns.extend(number.map(|number| Asset::new(self.id.kind.number_key(), number.to_string())));
        let needs = self.groups.iter().map(|group| Asset::new(Kind::Group.word(), group.as_str()));
        report.edges.needs.extend(needs);
        report.edges.watch.extend(FILES.map(BString::from));
        report
    }
}

/// All groups that a user is in; none for a group.
pub(crate) fn groups_of(account: &Account) -> Vec<String> {
    let mut groups: Vec<String> = account.group.iter().chain(&account.groups).cloned().collect();
    groups.sort();
    groups.dedup();
    groups
}

fn bytes(path: &Path) -> BString {
    path.as_os_str().as_bytes().into()
}

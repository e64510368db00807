//! A managed user or group: its definition, and where that stands.

use crate::account::{Account, AccountId, Kind};
use crate::accounts::{Accounts, FILES};
use crate::definition::Definition;
use crate::run::Patience;
use bstr::{BString, ByteVec};
use holo_plugin::error::Result;
use holo_plugin::{Action, Asset, EntityReport, Host};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A user or group that is defined, or was once.
#[derive(Debug)]
pub(crate) struct AccountEntity {
    pub(crate) id: AccountId,
    /// What is wanted; none for an orphan.
    pub(crate) definition: Option<Definition>,
    /// Definitions of it that a condition leaves out, while others count: their files, as the user knows them, and why.
    pub(crate) left_out: Vec<(PathBuf, String)>,
    /// The groups that a user is, or was, to be in.
    pub(crate) groups: Vec<String>,
    /// The entities that it comes after by definition, or an orphan once came after.
    pub(crate) after: Vec<BString>,
    /// How long a command may take, if that is not left to us.
    pub(crate) timeout: Option<Duration>,
    /// What all entities of a run share.
    pub(crate) shared: Arc<Shared>,
}

/// What all entities of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What there is on the system.
    pub(crate) accounts: Accounts,
    /// How long locked files are waited for.
    pub(crate) patience: Patience,
    /// The files where a change may be one of an account, as the user knows them.
    watched: [BString; 2],
}

impl Shared {
    pub(crate) fn new(host: &Host) -> Shared {
        let watched = FILES.map(|file| bytes(&host.below_root(Path::new(file))));
        Shared { accounts: Accounts::default(), patience: Patience::default(), watched }
    }
}

impl AccountEntity {
    /// The account as it is now.
    pub(crate) fn actual(&self, host: &Host) -> Result<Option<Account>> {
        self.shared.accounts.find(host, &self.id)
    }

    /// The group of the same name.
    pub(crate) fn namesake(&self, host: &Host) -> Result<Option<Account>> {
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
                report.edges.after.clone_from(&self.after);
            }
        }
        report.edges.provides.push(Asset::new(self.id.kind.word(), self.id.name.as_str()));
        let needs = self.groups.iter().map(|group| Asset::new(Kind::Group.word(), group.as_str()));
        report.edges.needs.extend(needs);
        report.edges.watch.extend(self.shared.watched.iter().cloned());
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

//! A managed user or group, and its previews.

use crate::account::{Account, AccountError, AccountId, Kind};
use crate::accounts::{Accounts, FILES};
use crate::definition::Definition;
use crate::images::{Images, Moment, to_text};
use crate::plan::{self, Scrubbing, Step};
use crate::providers::{self, AccountProvider, Patience};
use bstr::{BString, ByteVec};
use holo_change::error::PathError;
use holo_plugin::{Action, Asset, EntityReport, FilePair, Host, Preview, Shown};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A user or group that is defined, or an orphan.
#[derive(Debug)]
pub(crate) struct AccountEntity {
    pub(crate) id: AccountId,
    /// The desired account, or `None` for an orphan.
    pub(crate) definition: Option<Definition>,
    /// Definitions that are skipped because of a condition while others are in effect: their files, as shown to the user, and the reasons.
    pub(crate) left_out: Vec<(PathBuf, String)>,
    /// The groups that a user is in, or was in if it is an orphan.
    pub(crate) groups: Vec<String>,
    /// The entities that precede this one by definition, or preceded it once in the case of an orphan.
    pub(crate) after: Vec<BString>,
    /// The timeout of a command, if one is defined.
    pub(crate) timeout: Option<Duration>,
    /// The history of earlier runs, in addition to images.
    pub(crate) history: History,
    /// State that all entities of a run share.
    pub(crate) shared: Arc<Shared>,
}

/// What earlier runs have recorded about an account in addition to its images.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// The account to take over: an orphan that is the same account by its number.
    pub(crate) predecessor: Option<AccountId>,
    /// All names that it has had, the original one first.
    pub(crate) names: Vec<String>,
    /// The original name, which scrubbing restores if no definition uses it.
    pub(crate) returns_to: Option<String>,
    /// The orphan that has the original name now, and is scrubbed first.
    pub(crate) waits_for: Option<AccountId>,
    /// Former names of this account whose images a killed apply has left behind.
    pub(crate) leftovers: Vec<AccountId>,
    /// True if an apply was killed while a command was running.
    pub(crate) is_interrupted: bool,
}

/// State that all entities of a run share.
pub(crate) struct Shared {
    /// The tools for accounts.
    pub(crate) provider: &'static dyn AccountProvider,
    /// The existing accounts.
    pub(crate) accounts: Accounts,
    /// The time limit for locked files.
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
    /// Returns the account as it exists.
    pub(crate) fn actual(&self, host: &Host) -> Result<Option<Account>, AccountError> {
        self.shared.accounts.find(host, &self.id)
    }

    /// Returns the base of an orphan, with the name that scrubbing restores.
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

    /// Returns the group with the name of this account.
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
        // An orphan frees its number, so an entity that wants the number does not have to wait for it.
        let number = self.definition.as_ref().and_then(|definition| definition.account.number);
        report.edges.owns.extend(number.map(|number| Asset::new(self.id.kind.number_key(), number.to_string())));
        let needs = self.groups.iter().map(|group| Asset::new(Kind::Group.word(), group.as_str()));
        report.edges.needs.extend(needs);
        report.edges.watch.extend(FILES.map(BString::from));
        report
    }
}

/// Returns all groups of a user, including the login group. Empty for a group.
pub(crate) fn groups_of(account: &Account) -> Vec<String> {
    let mut groups: Vec<String> = account.group.iter().chain(&account.groups).cloned().collect();
    groups.sort();
    groups.dedup();
    groups
}

fn bytes(path: &Path) -> BString {
    path.as_os_str().as_bytes().into()
}

/// Returns the two files if they differ. The file of an account that does not exist is missing.
pub(crate) fn preview(entity: &AccountEntity, host: &Host) -> Result<Option<FilePair>, AccountError> {
    let images = Images::open(host)?;
    let actual = entity.actual(host)?;
    let Some(wanted) = wanted(entity, host, &images, actual.as_ref())? else { return Ok(None) };
    let id = entity.id.to_string();
    let failed = |error| PathError::new("write", host.cache_dir(), error);
    let preview = Preview::new(host, id.as_bytes()).map_err(failed)?;
    let below = Path::new("account.toml");
    for (path, account) in [(preview.from(below), actual), (preview.to(below), wanted)] {
        if let Some(account) = account {
            let content = to_text(&account).into();
            Shown::File { content, mode: 0o600 }.write(&path).map_err(failed)?;
        }
    }
    Ok(Some(preview.pair(below, Path::new(&id))))
}

/// Returns the account after an apply, which may be missing, or `None` if nothing would change.
fn wanted(
    entity: &AccountEntity,
    host: &Host,
    images: &Images,
    actual: Option<&Account>,
) -> Result<Option<Option<Account>>, AccountError> {
    let provider = entity.shared.provider;
    let Some(definition) = &entity.definition else {
        let base = entity.base_of_orphan(host, images)?.unwrap_or_else(|| Account::bare(entity.id.clone()));
        return Ok(match plan::scrubbing(provider, &base, actual) {
            Scrubbing::Run(_, wanted) => Some(wanted),
            Scrubbing::Forget | Scrubbing::Refuse(_) => None,
        });
    };
    let state = entity.state(host, images)?;
    Ok(match plan::step(provider, definition, state.plan_input(), true) {
        Step::Run(_, mut wanted) => {
            if let Some(predecessor) = &state.predecessor
                && entity.own_group_renamed(host, images, predecessor, &state.base)?.is_some()
            {
                wanted.group = Some(wanted.id.name.clone());
            }
            Some(Some(wanted))
        }
        Step::Keep(_) | Step::Refuse(_) => None,
    })
}

//! A key set: the keys of one file for one user, put into that user's `authorized_keys`.

use crate::account::{self, Account, NoAccount};
use crate::home::{Change, DONE, Home, PENDING};
use crate::name::Name;
use crate::record::Record;
use crate::section::Section;
use crate::source::Source;
use crate::unmarked;
use bstr::{BStr, BString, ByteSlice};
use holo_change::Tree;
use holo_change::error::PathError;
use holo_plugin::{
    Action, Applied, AsUserError, Asset, Entity, EntityReport, FilePair, Host, Mode, Output, Preview, Shown, Verdict,
    as_user,
};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The time limit for a home directory to answer; it may be on a file system of the user's own making.
const LIMIT: Duration = Duration::from_secs(60);

/// A key set.
#[derive(Debug)]
pub(crate) struct KeySet {
    pub(crate) name: Name,
    /// The content of its file; none for an orphan.
    pub(crate) source: Option<Source>,
    /// The path of its file as it is shown.
    pub(crate) path: PathBuf,
    /// The path of the keys below the root, if it is known already.
    pub(crate) watched: Option<PathBuf>,
    /// All key sets of the user.
    pub(crate) family: Arc<Family>,
}

/// The key sets of one user.
#[derive(Debug, Default)]
pub(crate) struct Family {
    /// Those with a file.
    pub(crate) living: Vec<(Name, Source)>,
    /// Those that have left keys.
    pub(crate) orphans: Vec<Name>,
    /// A file that is invalid: nobody knows which keys it wants.
    pub(crate) invalid: Option<PathBuf>,
    /// What has been done for key sets while others were applied, which they have not told of yet.
    pub(crate) done_by_others: Mutex<BTreeMap<BString, Vec<String>>>,
}

/// An error in a home directory, or on the way to it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeySetError {
    #[error(transparent)]
    Account(#[from] NoAccount),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("{}: {why}", .home.display())]
    HomeFailed { home: PathBuf, why: AsUserError },
    #[error("the keys of {id} stay as long as {} is invalid: it may want them", .file.display())]
    HeldBack { id: BString, file: PathBuf },
}

/// The reason why a key set was not applied, with a note if anything may have been changed before.
struct ApplyError {
    error: KeySetError,
    nothing_changed: bool,
}

impl<T: Into<KeySetError>> From<T> for ApplyError {
    fn from(error: T) -> Self {
        ApplyError { error: error.into(), nothing_changed: true }
    }
}

/// Does something in the home directory of a user, as that user.
pub(crate) fn at_home_of<T: Send + 'static>(
    host: &Host,
    user: &str,
    work: impl FnOnce(&Home) -> holo_change::error::Result<T> + Send + 'static,
) -> Result<T, KeySetError> {
    let root = Tree::open(host.root())?;
    let Account { credentials, home } = Account::find(host, &root, user)?;
    let (root, shown, uid) = (Arc::clone(&root), host.below_root(&home), credentials.uid);
    let done = as_user(&credentials, LIMIT, move || {
        let tree = root.subtree(&home).map_err(Ok)?;
        work(&Home { tree, uid }).map_err(Err)
    });
    match done {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(Ok(unopened))) => Err(account::no_home(unopened, user, shown).into()),
        Ok(Err(Err(error))) => Err(error.into()),
        Err(why) => Err(KeySetError::HomeFailed { home: shown, why }),
    }
}

impl KeySet {
    fn section(&self, host: &Host) -> Result<Section, PathError> {
        let Family { living, orphans, .. } = &*self.family;
        let living = living.iter().map(|(name, source)| (name, source.clone()));
        let all = living.chain(orphans.iter().map(|name| (name, Source::gone())));
        let relatives = all.filter(|(name, _)| **name != self.name);
        let relatives = relatives.map(|(name, source)| Section::new(name.id(), source)).collect();
        let section = Section::new(self.name.id(), self.source.clone().unwrap_or_else(Source::gone));
        // Without its file, what was there before us stays.
        let counted = if self.is_orphan() { Vec::new() } else { unmarked::read(host, self.name.parts())? };
        Ok(section.with_relatives(relatives).with_counted(counted))
    }

    /// Returns the reason why keys that nothing defines any more are left alone.
    fn held_back(&self) -> Option<KeySetError> {
        let file = self.family.invalid.as_ref().filter(|_| self.is_orphan())?;
        Some(KeySetError::HeldBack { id: self.name.id(), file: file.clone() })
    }

    fn is_orphan(&self) -> bool {
        self.source.is_none()
    }

    /// Does something in the user's home directory, as the user.
    fn at_home<T: Send + 'static>(
        &self,
        host: &Host,
        work: impl FnOnce(&Home) -> holo_change::error::Result<T> + Send + 'static,
    ) -> Result<T, KeySetError> {
        at_home_of(host, &self.name.user, work)
    }

    fn pending(&self, host: &Host) -> Result<Change, KeySetError> {
        let section = self.section(host)?;
        self.at_home(host, move |home| home.compare(&section))
    }

    fn try_apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Result<Applied, ApplyError> {
        let id = self.name.id();
        let section = self.section(host)?;
        let mut record = Record::hold(host)?;
        if let Some(error) = self.held_back() {
            return Err(error.into());
        }
        let looked = section.clone();
        let looked = self.at_home(host, move |home| {
            let change = home.compare(&looked)?;
            if change.is_empty() {
                home.tidy()?;
            }
            Ok(change)
        });
        let change = match looked {
            Err(KeySetError::Account(account)) if self.is_orphan() && account.is_missing() && mode.force => None,
            looked => Some(looked?),
        };
        let mut done = None;
        let has_keys = !section.is_empty();
        // From before they are there: an apply that is killed in between has left keys that are to be found.
        let heirs = change.iter().flat_map(|change| &change.edit.handed_over).map(|handover| &handover.to);
        for owner in heirs.chain(has_keys.then_some(&id)) {
            record.add(owner)?;
        }
        let mut unmarked = change.as_ref().map(|change| change.edit.unmarked.clone()).unwrap_or_default();
        if change.is_some_and(|change| !change.is_empty()) {
            host.keep_change(|| self.preview_file(host).ok().flatten(), output);
            let changed = self.at_home(host, move |home| home.provision(&section));
            let changed = changed.map_err(|error| ApplyError { error, nothing_changed: false })?;
            for (from, to) in changed.edit.handovers() {
                output.warning(format!("{to} takes over from {from}"));
            }
            unmarked.clone_from(&changed.edit.unmarked);
            for handover in changed.edit.handed_over.iter().filter(|handover| handover.to != id) {
                let mut by_others = self.family.done_by_others.lock().unwrap_or_else(PoisonError::into_inner);
                by_others.entry(handover.to.clone()).or_default().push(handover.in_words("gave"));
            }
            done = Some(changed);
        }
        let recorded = unmarked::write(host, self.name.parts(), &unmarked);
        recorded.map_err(|error| ApplyError { error: error.into(), nothing_changed: done.is_none() })?;
        if !has_keys {
            // Only now: an apply that is killed before is to find the keys.
            record.remove(&id).map_err(|error| ApplyError { error: error.into(), nothing_changed: done.is_none() })?;
        }
        let mut by_others = self.family.done_by_others.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match (done, by_others.remove(&id)) {
            (Some(done), _) => Applied::ChangedQuietly(done.in_words(&DONE)),
            (None, Some(by_others)) => Applied::ChangedQuietly(by_others),
            (None, None) if self.is_orphan() => {
                Applied::ChangedQuietly(vec![format!("forgot {id}, of which no key is left")])
            }
            (None, None) => Applied::Unchanged,
        })
    }

    fn would(&self, change: &Change) -> Verdict {
        let mut changes = change.in_words(&PENDING);
        if changes.is_empty() && self.is_orphan() {
            changes.push(format!("would forget {}, of which no key is left", self.name.id()));
        }
        if changes.is_empty() { Verdict::InDesiredState } else { Verdict::WouldChange(changes) }
    }

    /// Copies our part of the user's file, as the comparison is made by root, who shall not look into the home directory. Returns true if
    /// there is anything to compare.
    fn copy_section(&self, host: &Host, name: &BStr) -> Result<bool, KeySetError> {
        let content = match self.at_home(host, Home::content) {
            // Nothing is there, and so nothing of ours.
            Err(KeySetError::Account(account)) if account.is_missing() => Vec::new(),
            content => content?.unwrap_or_default(),
        };
        let section = self.section(host)?.as_source(&content);
        if section.is_empty() && self.is_orphan() {
            return Ok(false);
        }
        let copy = Tree::open(host.cache_dir())?.place(Path::new(OsStr::from_bytes(name)));
        let written = copy.create()?.write_all(&section);
        written.map_err(|error| PathError::new("write", copy.shown(), error))?;
        Ok(true)
    }

    /// Copies what the user's file is, and what it would be, as nobody else shall look into the home directory.
    fn preview_file(&self, host: &Host) -> Result<Option<FilePair>, KeySetError> {
        let looked = self.held_back().map_or_else(|| self.pending(host), Err);
        let (edit, content) = match looked {
            Ok(change) => (change.edit, self.at_home(host, Home::content)?),
            Err(KeySetError::Account(account)) if account.is_missing() && !self.is_orphan() => {
                (self.section(host)?.edit(&[]), None)
            }
            Err(error) => return Err(error),
        };
        if !edit.changes_keys() {
            return Ok(None);
        }
        let failed = |error| PathError::new("write", host.cache_dir(), error);
        let preview = Preview::new(host, &self.name.id()).map_err(failed)?;
        let below = Path::new("authorized_keys");
        // The file stays when no key is left in it.
        let wanted = Some(edit.content).filter(|wanted| content.is_some() || !wanted.is_empty());
        for (path, content) in [(preview.from(below), content), (preview.to(below), wanted)] {
            if let Some(content) = content {
                Shown::File { content, mode: 0 }.write(&path).map_err(failed)?;
            }
        }
        let id = self.name.id();
        let shown = self.watched.as_ref().map_or_else(|| OsStr::from_bytes(&id).into(), |path| host.below_root(path));
        Ok(Some(preview.pair(below, &shown)))
    }

    fn explain(&self, error: &KeySetError, output: &mut Output<'_>) {
        output.error(error.to_string());
        if let KeySetError::Account(account) = error
            && account.is_missing()
            && self.is_orphan()
        {
            output.warning("so it cannot be told whether keys are left somewhere; --force forgets them");
        }
    }
}

impl Entity for KeySet {
    fn report(&self) -> EntityReport {
        let mut report = EntityReport::new(self.name.id());
        report.edges.needs.push(Asset::new("user", self.name.user.as_str()));
        report.edges.owns.push(Asset::new("ssh-keys", [self.name.user.as_bytes(), b"/", &self.name.set].concat()));
        report.edges.watch.extend(self.watched.as_ref().map(|path| path.as_os_str().as_bytes().into()));
        let Some(source) = &self.source else {
            report.action = Action::because("Scrubbing", "source file has been deleted");
            report.edges.orphan = true;
            return report;
        };
        let path: BString = self.path.as_os_str().as_bytes().into();
        report.sources.push(path.clone());
        report.inform("found in", path);
        for key in source.keys() {
            report.inform("key is", key.listed());
        }
        if source.keys().next().is_none() {
            report.inform("is", "empty!");
        }
        report
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        self.try_apply(host, mode, output).unwrap_or_else(|ApplyError { error, nothing_changed }| {
            self.explain(&error, output);
            if nothing_changed { Applied::FAILED_UNCHANGED } else { Applied::FAILED }
        })
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        let looked = self.held_back().map_or_else(|| self.pending(host), Err);
        match looked {
            Ok(change) => self.would(&change),
            Err(KeySetError::Account(account)) if account.is_missing() && account.may_come() && !self.is_orphan() => {
                // Another entity may bring the user first.
                output.warning(format!("{account}, so far"));
                match self.section(host) {
                    Ok(section) => self.would(&Change { edit: section.edit(&[]), modes: Vec::new() }),
                    Err(error) => {
                        output.error(error.to_string());
                        Verdict::Failed
                    }
                }
            }
            Err(error) => {
                self.explain(&error, output);
                Verdict::Failed
            }
        }
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        let name = [&self.name.set, &b"@"[..], self.name.user.as_bytes()].concat();
        let to = host.cache_dir().join(OsStr::from_bytes(&name));
        let is_there = self.copy_section(host, name.as_bstr()).unwrap_or_else(|_| {
            // A file that cannot be read must not show as empty. Nothing can be compared with a directory.
            let _ = std::fs::remove_file(&to);
            let _ = std::fs::create_dir(&to);
            true
        });
        let pair = is_there.then(|| FilePair::new(&self.path, to))?;
        // The path of the copy is another one in each run. Where plugins are tested, it is what version 3 shows.
        let shown = self.watched.as_ref().filter(|_| !host.test_mode()).map(|path| host.below_root(path));
        Some(match shown {
            Some(shown) => pair.with_to_label(shown.as_os_str().as_bytes()),
            None => pair,
        })
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        self.preview_file(host).ok().flatten()
    }
}

//! A key set: the keys of one file for one user, put into that user's `authorized_keys`.

use crate::account::{self, Account, NoAccount};
use crate::family::{self, Family};
use crate::home::Home;
use crate::name::Name;
use crate::source::Source;
use bstr::{BStr, BString, ByteSlice};
use holo_change::Tree;
use holo_change::error::PathError;
use holo_plugin::{
    Action, Applied, AsUserError, Asset, Entity, EntityReport, FilePair, Host, Mode, Output, Preview, Shown, Verdict,
    apply_one, as_user,
};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
    /// Returns the reason why keys that nothing defines any more are left alone.
    pub(crate) fn held_back(&self) -> Option<KeySetError> {
        let file = self.family.invalid.as_ref().filter(|_| self.is_orphan())?;
        Some(KeySetError::HeldBack { id: self.name.id(), file: file.clone() })
    }

    pub(crate) fn is_orphan(&self) -> bool {
        self.source.is_none()
    }

    /// Copies our part of the user's file, as the comparison is made by root, who shall not look into the home directory. Returns true if
    /// there is anything to compare.
    fn copy_section(&self, host: &Host, name: &BStr) -> Result<bool, KeySetError> {
        let content = match at_home_of(host, &self.name.user, Home::content) {
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

    /// Makes the files that show a change of the user's file, as nobody else shall look into the home directory. Without content, there is no
    /// file.
    pub(crate) fn show_change(
        &self,
        host: &Host,
        before: Option<Vec<u8>>,
        after: Vec<u8>,
    ) -> Result<FilePair, PathError> {
        let failed = |error| PathError::new("write", host.cache_dir(), error);
        let preview = Preview::new(host, &self.name.id()).map_err(failed)?;
        let below = Path::new("authorized_keys");
        for (path, content) in [(preview.from(below), before), (preview.to(below), Some(after))] {
            if let Some(content) = content {
                Shown::File { content, mode: 0 }.write(&path).map_err(failed)?;
            }
        }
        let id = self.name.id();
        let shown = self.watched.as_ref().map_or_else(|| OsStr::from_bytes(&id).into(), |path| host.below_root(path));
        Ok(preview.pair(below, &shown))
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
        apply_one(self, mode, output, |jobs, answers| family::apply(host, jobs, answers))
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        let outcomes = family::check(host, &[self]);
        outcomes.into_iter().next().map_or(Verdict::Failed, |(_, outcome)| outcome.report(output))
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
        family::preview(self, host).ok().flatten()
    }
}

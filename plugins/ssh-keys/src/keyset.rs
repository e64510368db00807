//! A key set: the keys of one file, which are managed in the `authorized_keys` of one user.

use crate::account::{self, Account, NoAccount};
use crate::home::Home;
use crate::name::Name;
use crate::section::Section;
use crate::source::Source;
use crate::unmarked;
use bstr::{BStr, BString};
use holo_change::Tree;
use holo_change::error::PathError;
use holo_plugin::{AsUserError, FilePair, Host, Preview, Shown, as_user};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The timeout for work in a home directory, which may be on a file system that the user controls, such as FUSE.
const LIMIT: Duration = Duration::from_secs(60);

/// A key set.
#[derive(Debug)]
pub(crate) struct KeySet {
    pub(crate) name: Name,
    /// The content of its file, or `None` for an orphan.
    pub(crate) source: Option<Source>,
    /// The path of its file, as shown to the user.
    pub(crate) path: PathBuf,
    /// The path of `authorized_keys` below the root, if it is known.
    pub(crate) watched: Option<PathBuf>,
    /// All key sets of the user.
    pub(crate) family: Arc<Family>,
}

/// The key sets of one user.
#[derive(Debug, Default)]
pub(crate) struct Family {
    /// The key sets that have files.
    pub(crate) living: Vec<(Name, Source)>,
    /// The orphaned key sets, which have keys but no file.
    pub(crate) orphans: Vec<Name>,
    /// The path of an invalid key file, whose keys are unknown.
    pub(crate) invalid: Option<PathBuf>,
    /// Changes made to key sets while others were applied, which are not reported yet.
    pub(crate) done_by_others: Mutex<BTreeMap<BString, Vec<String>>>,
}

/// An error in or above a home directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeySetError {
    #[error(transparent)]
    Account(#[from] NoAccount),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("{}: {why}", .home.display())]
    HomeFailed { home: PathBuf, why: AsUserError },
    #[error("the keys of {id} stay as long as {} is invalid: it may define them", .file.display())]
    HeldBack { id: BString, file: PathBuf },
}

/// Runs `work` in the home directory of a user, with the credentials of that user.
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
    /// Returns the reason why the keys of this orphan must be kept, if any.
    pub(crate) fn held_back(&self) -> Option<KeySetError> {
        let file = self.family.invalid.as_ref().filter(|_| self.is_orphan())?;
        Some(KeySetError::HeldBack { id: self.name.id(), file: file.clone() })
    }

    pub(crate) fn is_orphan(&self) -> bool {
        self.source.is_none()
    }

    /// Returns the section of this key set.
    fn section(&self, host: &Host) -> Result<Section, PathError> {
        let section = Section::new(self.name.id(), self.source.clone().unwrap_or_else(Source::gone));
        let counted = if self.is_orphan() { Vec::new() } else { unmarked::read(host, self.name.parts())? };
        Ok(section.with_counted(counted))
    }

    /// Copies the managed part of the user's file to the cache directory, because the dispatcher compares files as root, who must not look
    /// into the home directory. Returns false if there is nothing to compare.
    pub(crate) fn copy_section(&self, host: &Host, name: &BStr) -> Result<bool, KeySetError> {
        let content = match at_home_of(host, &self.name.user, Home::content) {
            // Without a user or a home directory there is no file, and so no managed section.
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

    /// Writes the files that show a change of the user's file, because only this plugin may look into the home directory. `before` is
    /// `None` if there was no file.
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

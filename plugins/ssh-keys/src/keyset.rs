//! A key set: the keys of one file, which are managed in the `authorized_keys` of one user, and the file itself.

use crate::home::{self, Account, Home, NoAccount, Reread};
use crate::record;
use crate::section::{MarkedLines, Section, Source};
use bstr::{BStr, BString, ByteSlice};
use holo_change::error::PathError;
use holo_change::{Stamp, Tree};
use holo_plugin::{AsUserError, FilePair, Host, Preview, Shown, as_user};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// The user's file when a key set was last compared with it.
    pub(crate) last_read: Mutex<Option<(Stamp, MarkedLines)>>,
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
        Ok(Err(Ok(unopened))) => Err(home::no_home(unopened, user, shown).into()),
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
        let counted = if self.is_orphan() { Vec::new() } else { record::read(host, self.name.parts())? };
        Ok(section.with_counted(counted))
    }

    /// Returns the managed part of the user's file, in the wording of the source. The file is only read again when it has changed.
    fn managed_part(&self, host: &Host) -> Result<Vec<u8>, KeySetError> {
        let mut last_read = self.family.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last_read.as_ref().map(|(stamp, _)| *stamp);
        let section = match at_home_of(host, &self.name.user, move |home| home.read_unless(known)) {
            // Without a user or a home directory there is no file, and so no managed section.
            Err(KeySetError::Account(account)) if account.is_missing() => None,
            reread => match reread? {
                Reread::Same => last_read.as_ref(),
                Reread::Missing => None,
                Reread::Changed(stamp, content) => Some(&*last_read.insert((stamp, MarkedLines::new(content)))),
            },
        };
        let nothing = MarkedLines::default();
        Ok(self.section(host)?.as_source(section.map_or(&nothing, |(_, lines)| lines)))
    }

    /// Returns true if the managed part of the user's file is as desired.
    pub(crate) fn has_its_keys(&self, host: &Host) -> Result<bool, KeySetError> {
        let part = self.managed_part(host)?;
        Ok(self.source.as_ref().map_or(part.is_empty(), |source| source.is(&part)))
    }

    /// Copies the managed part of the user's file to the cache directory, because the dispatcher compares files as root, who must not look
    /// into the home directory. Returns false if there is nothing to compare.
    pub(crate) fn copy_section(&self, host: &Host, name: &BStr) -> Result<bool, KeySetError> {
        let section = self.managed_part(host)?;
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
                Shown::File { content, mode: 0o600 }.write(&path).map_err(failed)?;
            }
        }
        let id = self.name.id();
        let shown = self.watched.as_ref().map_or_else(|| OsStr::from_bytes(&id).into(), |path| host.below_root(path));
        Ok(preview.pair(below, &shown))
    }
}

/// The prefix of the IDs of this plugin.
const PREFIX: &[u8] = b"ssh-keyset:";
/// The suffix of key files.
const SUFFIX: &[u8] = b".pub";

/// The user and the name of a key set, as in its ID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) user: String,
    pub(crate) set: BString,
}

impl Name {
    /// Parses an ID.
    pub(crate) fn from_id(id: &BStr) -> Option<Name> {
        let (user, set) = id.strip_prefix(PREFIX)?.split_once_str("/")?;
        Name::new(user, set)
    }

    /// Parses the name of a file in the directory of a user.
    pub(crate) fn from_file(user: &OsStr, file: &OsStr) -> Option<Name> {
        Name::new(user.as_bytes(), file.as_bytes().strip_suffix(SUFFIX)?)
    }

    fn new(user: &[u8], set: &[u8]) -> Option<Name> {
        let is_set = !set.is_empty() && !set.contains(&b'/') && !set.contains(&b'\n');
        (is_user_name(user) && is_set).then(|| Name { user: user.to_str_lossy().into_owned(), set: set.into() })
    }

    /// Returns the user and the name of the set.
    pub(crate) fn parts(&self) -> (&str, &BStr) {
        (&self.user, self.set.as_bstr())
    }

    pub(crate) fn id(&self) -> BString {
        [PREFIX, self.user.as_bytes(), b"/", &self.set].concat().into()
    }

    /// Returns the path of the key file below the resource directory.
    pub(crate) fn path(&self) -> PathBuf {
        Path::new(&self.user).join(OsStr::from_bytes(&[&self.set, SUFFIX].concat()))
    }
}

/// Returns true if a name matches `[a-z_][a-z0-9_-]*\$?`.
pub(crate) fn is_user_name(name: &[u8]) -> bool {
    let stem = name.strip_suffix(b"$").unwrap_or(name);
    stem.first().is_some_and(|first| first.is_ascii_lowercase() || *first == b'_')
        && stem.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(byte))
}

#[cfg(test)]
mod name_tests {
    use super::*;

    #[test]
    fn name_is_parsed_from_ids_and_files() {
        let name = Name::from_id(b"ssh-keyset:jane/home office".as_bstr()).unwrap();
        assert_eq!(name.path(), Path::new("jane/home office.pub"));
        assert_eq!(name.id(), "ssh-keyset:jane/home office");
        assert_eq!(Name::from_file(OsStr::new("jane"), OsStr::new("home office.pub")), Some(name));
        for id in [
            "file:/x",
            "ssh-keyset:jane",
            "ssh-keyset:jane/",
            "ssh-keyset:jane/a/b",
            "ssh-keyset:../x",
            "ssh-keyset:/x",
        ] {
            assert_eq!(Name::from_id(id.into()), None, "{id}");
        }
        for (user, file) in [("jane", "x"), ("jane", ".pub"), ("Jane", "x.pub"), ("jane", "a\nb.pub")] {
            assert_eq!(Name::from_file(OsStr::new(user), OsStr::new(file)), None, "{user}/{file}");
        }
    }

    #[test]
    fn user_names_follow_the_rules_of_useradd() {
        for good in ["a", "_", "www-data", "_apt", "jane_2", "host$"] {
            assert!(is_user_name(good.as_bytes()), "{good}");
        }
        for bad in ["", "$", "-x", "2x", "Jane", "a$b", "a.b", "..", "a/b", "ä"] {
            assert!(!is_user_name(bad.as_bytes()), "{bad}");
        }
    }
}

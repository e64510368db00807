//! Accounts, and `.ssh` and `authorized_keys` below a home directory, whose owner may replace anything in it.
//!
//! All work is done with the credentials of that user. Symlinks are not followed, files of other owners are not read, and existing files
//! are replaced instead of written to. Therefore the worst that a user can cause is what the user could do directly.

use crate::section::{Edit, Edits, Sections};
use holo_change::error::PathError;
use holo_change::snapshot::{self, Snapshot};
use holo_change::{Durability, PathHandle, Stamp, Tree};
use holo_plugin::{Credentials, Host, KnownUser};
use nix::unistd::User;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIRECTORY: &str = ".ssh";
const FILE: &str = "authorized_keys";
/// The temporary file that is renamed to [`FILE`].
const TEMPORARY: &str = ".authorized_keys.holonew";

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The maximum size of `authorized_keys` in bytes. Without a limit, an endless file would fill the memory.
const MAX_SIZE: u64 = 1 << 20;

/// The number of bytes of contents that are kept between the changes of several key sets. It suffices for one change of a file of any valid
/// size.
const KEPT_CONTENTS: usize = 2 << 20;

/// The maximum number of attempts when the user keeps changing the file.
const ATTEMPTS: usize = 100;

/// The home directory of a user: the user whose credentials this thread has.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) tree: Arc<Tree>,
    pub(crate) uid: u32,
}

/// An open `.ssh` directory. It stays the same directory when its name is given to another one.
struct Keys {
    mode: u32,
    shown: PathBuf,
    /// `authorized_keys`, and the temporary file next to it.
    file: PathHandle,
    temporary: PathHandle,
    uid: u32,
}

/// A file that was read before.
pub(crate) enum Reread {
    Missing,
    Same,
    Changed(Stamp, Vec<u8>),
}

/// The changes to make, or the changes that were made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) edits: Edits,
    /// True if the file did not exist before.
    pub(crate) is_new_file: bool,
    /// Wrong modes, as fragments such as `the mode of /home/jane/.ssh to 0700`.
    pub(crate) modes: Vec<String>,
}

/// The verbs for removed keys, keys that are handed over, added keys, and modes.
pub(crate) type Verbs = [&'static str; 4];
/// The verbs for pending changes.
pub(crate) const PENDING: Verbs = ["would remove", "would give", "would add", "would set"];
/// The verbs for changes that were made.
pub(crate) const DONE: Verbs = ["removed", "gave", "added", "set"];

impl Edit {
    /// Returns the changes as message fragments.
    pub(crate) fn in_words(&self, [remove, give, add, _]: &Verbs) -> Vec<String> {
        let Edit { removed, added, handed_over, .. } = self;
        let removed = removed.iter().map(|key| format!("{remove} key {key}"));
        let given = handed_over.iter().map(|handover| handover.in_words(give));
        let added = added.iter().map(|key| format!("{add} key {key}"));
        removed.chain(given).chain(added).collect()
    }
}

impl Change {
    /// Returns the changes for a user without the file.
    pub(crate) fn of_new_file(sections: &Sections) -> Change {
        Change { edits: sections.edit(&[], KEPT_CONTENTS), is_new_file: true, modes: Vec::new() }
    }

    /// Returns the changes of modes as message fragments.
    pub(crate) fn modes_in_words(&self, [.., set]: &Verbs) -> Vec<String> {
        self.modes.iter().map(|mode| format!("{set} {mode}")).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.edits.each.iter().any(Edit::changes_keys) && self.modes.is_empty()
    }
}

impl Home {
    /// Returns the path of `authorized_keys` below a home directory.
    pub(crate) fn keys_below(home: &Path) -> PathBuf {
        home.join(DIRECTORY).join(FILE)
    }

    /// Returns the handle of `.ssh`, relative to the home directory.
    fn directory(&self) -> PathHandle {
        self.tree.place(Path::new(DIRECTORY))
    }

    /// Returns the content of `authorized_keys`, or `None` if it does not exist.
    pub(crate) fn content(&self) -> Result<Option<Vec<u8>>, PathError> {
        let found = self.open_directory()?.map(|keys| keys.read()).transpose()?;
        Ok(found.filter(|found| found.stamp.is_some()).map(|found| found.content))
    }

    /// Reads `authorized_keys`, unless it still has this stamp.
    pub(crate) fn read_unless(&self, known: Option<Stamp>) -> Result<Reread, PathError> {
        let Some(keys) = self.open_directory()? else { return Ok(Reread::Missing) };
        if let (Some(known), Some(now)) = (known, Stamp::of(&keys.file)?)
            && now.is_same(&known)
        {
            return Ok(Reread::Same);
        }
        let found = keys.read()?;
        Ok(found.stamp.map_or(Reread::Missing, |stamp| Reread::Changed(stamp, found.content)))
    }

    /// Compares the file with its desired state, and returns the pending changes.
    pub(crate) fn compare(&self, sections: &Sections) -> Result<Change, PathError> {
        match self.open_directory()? {
            Some(keys) => Ok(keys.compare(sections, &keys.read()?)),
            None => Ok(Change::of_new_file(sections)),
        }
    }

    /// Removes the temporary file of an apply that was killed, if there is nothing else to do.
    pub(crate) fn tidy(&self) -> Result<(), PathError> {
        self.open_directory()?.map_or(Ok(()), |keys| keys.temporary.remove())
    }

    /// Brings the sections into their desired state, and returns the changes.
    ///
    /// # Errors If the file cannot be replaced, or if it is changed concurrently during all of [`ATTEMPTS`].
    pub(crate) fn provision(&self, sections: &Sections) -> Result<Change, PathError> {
        // Modes that were set by attempts that failed.
        let mut modes = Vec::new();
        for _ in 0..ATTEMPTS {
            let keys = match self.open_directory()? {
                Some(keys) => keys,
                None if sections.are_empty() => break,
                None => self.create_directory()?,
            };
            let found = keys.read()?;
            let mut change = keys.compare(sections, &found);
            if change.is_empty() {
                return Ok(Change { modes, ..change });
            }
            if !sections.are_empty() && keys.mode != DIRECTORY_MODE {
                self.directory().change_mode(DIRECTORY_MODE)?;
                modes.push(mode_of(&self.directory().shown(), DIRECTORY_MODE));
            }
            // A mode is changed by replacing the file, because chmod would change all hard links of it.
            let new = found.replace(&keys.file, &keys.temporary, &change.edits.content, FILE_MODE)?;
            // The user may have moved another file to that name, or moved `.ssh` away.
            if new.is_some_and(|new| self.leads_to(&new)) {
                modes.append(&mut change.modes);
                modes.dedup();
                return Ok(Change { modes, ..change });
            }
        }
        match self.compare(sections)? {
            done if done.is_empty() => Ok(done),
            _ => {
                let shown = Home::keys_below(&self.tree.place(Path::new("")).shown());
                Err(PathError::new("replace", shown, io::Error::other("it keeps being changed concurrently")))
            }
        }
    }

    /// Opens `.ssh`. Returns `None` if it does not exist.
    fn open_directory(&self) -> Result<Option<Keys>, PathError> {
        // The name may refer to another directory by now.
        self.tree.forget();
        let place = self.directory();
        let opened = match place.as_tree() {
            Ok(opened) => opened,
            Err(error) if error.error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(snapshot::explain_unopened(&place, error, "a directory")),
        };
        let stat = opened.stat()?;
        snapshot::demand_owner(stat.uid, self.uid, &place)?;
        let (file, temporary) = (opened.place(Path::new(FILE)), opened.place(Path::new(TEMPORARY)));
        Ok(Some(Keys { mode: stat.mode, shown: place.shown(), file, temporary, uid: self.uid }))
    }

    fn create_directory(&self) -> Result<Keys, PathError> {
        let place = self.directory();
        if place.stat()?.is_none() {
            place.create_directory(DIRECTORY_MODE)?;
        }
        match Durability::Each.sync([], [&place]) {
            // The user may have no permission to read the home directory, only to search it.
            Err(error) if error.error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
        self.open_directory()?.ok_or_else(|| PathError::missing("open", place.shown()))
    }

    /// Returns true if this is the file that the path of `authorized_keys` refers to now.
    fn leads_to(&self, file: &Stamp) -> bool {
        self.tree.forget();
        let keys = self.tree.place(&Home::keys_below(Path::new("")));
        Stamp::of(&keys).is_ok_and(|now| now.is_some_and(|now| now.is_same_file(file)))
    }
}

impl Keys {
    fn read(&self) -> Result<Snapshot, PathError> {
        Snapshot::read(&self.file, self.uid, MAX_SIZE)
    }

    fn compare(&self, sections: &Sections, found: &Snapshot) -> Change {
        let edits = sections.edit(&found.content, KEPT_CONTENTS);
        let mut modes = Vec::new();
        // Modes are managed only for users with managed keys.
        if !sections.are_empty() {
            if self.mode != DIRECTORY_MODE {
                modes.push(mode_of(&self.shown, DIRECTORY_MODE));
            }
            if found.stamp.is_some_and(|stamp| stamp.stat().mode != FILE_MODE) {
                modes.push(mode_of(&self.file.shown(), FILE_MODE));
            }
        }
        Change { edits, is_new_file: found.stamp.is_none(), modes }
    }
}

/// Returns the change of a mode as a message fragment.
fn mode_of(path: &Path, mode: u32) -> String {
    format!("the mode of {} to {mode:04o}", path.display())
}

/// A user who has, or should have, a home directory.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    /// Credentials for work in the home directory.
    pub(crate) credentials: Credentials,
    /// The home directory, below the root.
    pub(crate) home: PathBuf,
}

/// Why a user's home directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAccount {
    #[error("user {0} does not exist")]
    NoUser(String),
    #[error("home directory {} of user {name} does not exist", .home.display())]
    NoHome { name: String, home: PathBuf },
    #[error("home directory {} of user {name} is not a directory", .home.display())]
    OddHome { name: String, home: PathBuf },
    #[error("cannot look up user {name}: {reason}")]
    NotKnown { name: String, reason: String },
    #[error(transparent)]
    Path(#[from] PathError),
}

impl NoAccount {
    /// Returns true if the user or the home directory does not exist, or the path of the home is not a directory.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, NoAccount::NoUser(_) | NoAccount::NoHome { .. } | NoAccount::OddHome { .. })
    }

    /// Returns true if another entity may still create the user or the home directory.
    pub(crate) fn may_come(&self) -> bool {
        !matches!(self, NoAccount::OddHome { .. })
    }
}

impl Account {
    /// Looks up a user by name. In test mode, the user is the owner of `/home/NAME` below the root.
    pub(crate) fn find(host: &Host, root: &Arc<Tree>, name: &str) -> Result<Account, NoAccount> {
        if host.test_mode() { owner(host, root, name) } else { known_to_the_system(name) }
    }
}

/// Returns the path of a user's home directory below the root, or `None` if the user is unknown.
pub(crate) fn home(host: &Host, name: &str) -> Option<PathBuf> {
    if host.test_mode() { Some(test_home(name)) } else { User::from_name(name).ok()?.map(|user| user.dir) }
}

fn test_home(name: &str) -> PathBuf {
    Path::new("/home").join(name)
}

fn owner(host: &Host, root: &Arc<Tree>, name: &str) -> Result<Account, NoAccount> {
    let home = test_home(name);
    let directory = root.subtree(&home).map_err(|error| no_home(error, name, host.below_root(&home)))?;
    let stat = directory.stat()?;
    let credentials = Credentials { uid: stat.uid, gid: stat.gid, groups: Vec::new() };
    Ok(Account { credentials, home })
}

fn known_to_the_system(name: &str) -> Result<Account, NoAccount> {
    let not_known = |error: io::Error| NoAccount::NotKnown { name: name.to_owned(), reason: error.to_string() };
    let user = KnownUser::find(name).map_err(not_known)?.ok_or_else(|| NoAccount::NoUser(name.to_owned()))?;
    Ok(Account { credentials: user.credentials, home: user.home })
}

/// Maps the error of opening a home directory to a reason.
pub(crate) fn no_home(error: PathError, name: &str, home: PathBuf) -> NoAccount {
    let name = name.to_owned();
    match error.is_missing() {
        // The path, or a part of it, exists but is not a directory.
        true if error.error.kind() == io::ErrorKind::NotADirectory => NoAccount::OddHome { name, home },
        true => NoAccount::NoHome { name, home },
        false => error.into(),
    }
}

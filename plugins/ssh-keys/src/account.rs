//! //! Accounts: the user that owns a home directory, and the path of that directory.

use holo_change::Tree;
use holo_change::error::PathError;
use holo_plugin::{Credentials, Host, KnownUser};
use nix::unistd::User;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

//! Looking up users and groups of the managed system by name.

use crate::{Credentials, leads_through_symlink};
use holo_change::{PathError, Tree, join};
use holo_protocol::Witness;
use holo_protocol::words::reason;
use nix::unistd::{self, User};
use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The files with users and groups, and the one with the order of the sources of accounts.
const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";
const ORDER: &str = "/etc/nsswitch.conf";

/// The users and groups of a system: those of the name service if it is the running system, otherwise those in
/// `etc/passwd` and `etc/group` below the root.
#[derive(Debug)]
pub struct Accounts {
    root: PathBuf,
    /// The owners that were looked up for the current request, by kind and name. Thousands of files may have the same.
    owners: Mutex<HashMap<(&'static str, String), u32>>,
}

/// A user of the running system, from its name service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownUser {
    /// The credentials for work below the home directory.
    pub credentials: Credentials,
    /// The home directory.
    pub home: PathBuf,
}

impl KnownUser {
    /// Looks up a user by name; `None` if the user does not exist.
    ///
    /// # Errors
    /// If the name service fails.
    pub fn find(name: &str) -> io::Result<Option<KnownUser>> {
        let Some(user) = User::from_name(name)? else { return Ok(None) };
        let Ok(c_name) = CString::new(name) else { return Ok(None) };
        let groups = unistd::getgrouplist(&c_name, user.gid)?;
        let credentials = Credentials {
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            groups: groups.iter().map(|group| group.as_raw()).collect(),
        };
        Ok(Some(KnownUser { credentials, home: user.dir }))
    }
}

/// A user or group could not be resolved to an ID.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The user or group does not exist.
    #[error("there is no {kind} {name:?}")]
    Unknown {
        /// `user` or `group`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// The name service failed.
    #[error("cannot look up {kind} {name:?}: {}", reason(error))]
    NameService {
        /// `user` or `group`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// The account file below the root could not be read.
    #[error(transparent)]
    File(#[from] PathError),
}

impl Accounts {
    pub(crate) fn of(root: &Path) -> Accounts {
        Accounts { root: root.to_owned(), owners: Mutex::default() }
    }

    /// Returns the IDs of an owner and a group, each given by name or ID. They do not change during a request.
    ///
    /// # Errors
    /// If one does not exist, or cannot be looked up.
    pub fn owners(&self, owner: Option<&str>, group: Option<&str>) -> Result<(Option<u32>, Option<u32>), AccountError> {
        let owner = owner.map(|name| self.owner("user", name, Accounts::user)).transpose()?;
        let group = group.map(|name| self.owner("group", name, Accounts::group)).transpose()?;
        Ok((owner, group))
    }

    fn owner(
        &self,
        kind: &'static str,
        name: &str,
        find: impl FnOnce(&Accounts, &str) -> Result<u32, AccountError>,
    ) -> Result<u32, AccountError> {
        let key = (kind, name.to_owned());
        if let Some(id) = self.known_owners().get(&key) {
            return Ok(*id);
        }
        let id = find(self, name)?;
        self.known_owners().insert(key, id);
        Ok(id)
    }

    /// Looks all owners up again from now on, as a request begins.
    pub(crate) fn forget_owners(&self) {
        self.known_owners().clear();
    }

    /// Returns true for the root of the running system.
    fn are_of_this_system(&self) -> bool {
        self.root == Path::new("/")
    }

    fn known_owners(&self) -> MutexGuard<'_, HashMap<(&'static str, String), u32>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ID of a user, given by name or ID.
    ///
    /// # Errors
    /// If the user does not exist, or cannot be looked up.
    pub fn user(&self, name: &str) -> Result<u32, AccountError> {
        let known = |name: &str| User::from_name(name).map(|user| user.map(|user| user.uid.as_raw()));
        self.find("user", USERS, name, known)
    }

    /// Returns the ID of a group, given by name or ID.
    ///
    /// # Errors
    /// Those of [`Accounts::user`].
    pub fn group(&self, name: &str) -> Result<u32, AccountError> {
        let known = |name: &str| unistd::Group::from_name(name).map(|group| group.map(|group| group.gid.as_raw()));
        self.find("group", GROUPS, name, known)
    }

    /// Returns the name of a group that the name service knows, which may not be a local one. `None` in test mode.
    #[must_use]
    pub fn group_name(&self, number: u32) -> Option<String> {
        if !self.are_of_this_system() {
            return None;
        }
        unistd::Group::from_gid(number.into()).ok().flatten().map(|group| group.name)
    }

    fn find(
        &self,
        kind: &'static str,
        file: &str,
        name: &str,
        known: impl Fn(&str) -> nix::Result<Option<u32>>,
    ) -> Result<u32, AccountError> {
        // A name may consist of digits, so account names take precedence over IDs.
        let found = if self.are_of_this_system() {
            let name_service =
                |errno: nix::Error| AccountError::NameService { kind, name: name.to_owned(), error: errno.into() };
            known(name).map_err(name_service)?
        } else {
            in_file(&Tree::open(&self.root)?, file, name)?
        };
        found.or_else(|| name.parse().ok()).ok_or_else(|| AccountError::Unknown { kind, name: name.to_owned() })
    }
}

impl Accounts {
    /// Returns the files on which it rests which users and groups these are, given by name or ID. `None` if a name
    /// comes from elsewhere, such as a directory service.
    #[must_use]
    pub fn witnesses<'n>(
        &self,
        users: impl IntoIterator<Item = &'n str>,
        groups: impl IntoIterator<Item = &'n str>,
    ) -> Option<Vec<Witness>> {
        let (users, groups): (Vec<&str>, Vec<&str>) = (users.into_iter().collect(), groups.into_iter().collect());
        let is_in = |file: &str, name: &str| {
            let found = Tree::open(&self.root).and_then(|root| in_file(&root, file, name));
            found.is_ok_and(|id| id.is_some())
        };
        let mut files = Vec::new();
        for (file, database, names) in [(USERS, "passwd", users), (GROUPS, "group", groups)] {
            if names.is_empty() {
                continue;
            }
            let is_local = |name: &&str| name.parse::<u32>().is_ok() || is_in(file, name);
            let is_fixed = || names.iter().all(is_local) && files_come_first(database);
            if self.are_of_this_system() && !is_fixed() {
                return None;
            }
            files.push(file);
        }
        if self.are_of_this_system() && !files.is_empty() {
            files.push(ORDER);
        }
        let is_elsewhere = |file: &&str| leads_through_symlink(&self.root, Path::new(file));
        if files.iter().any(is_elsewhere) {
            return None;
        }
        Some(files.into_iter().map(|file| Witness::file(&join(&self.root, Path::new(file)))).collect())
    }
}

/// Returns true if the name service of the running system looks in the local files first.
fn files_come_first(database: &str) -> bool {
    let text = match fs::read_to_string(ORDER) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
        text => text.unwrap_or_default(),
    };
    has_files_first(&text, database)
}

/// Returns true if an `nsswitch.conf` names `files` first for a database. Without a line, this is the default.
fn has_files_first(text: &str, database: &str) -> bool {
    let sources =
        |line: &'_ str| Some(line.trim_start().strip_prefix(database)?.trim_start().strip_prefix(':')?.to_owned());
    text.lines().find_map(sources).is_none_or(|sources| sources.split_whitespace().next() == Some("files"))
}

/// Returns the ID in the line `NAME:x:ID:…`.
fn in_file(root: &Arc<Tree>, file: &str, name: &str) -> Result<Option<u32>, PathError> {
    let place = root.place(Path::new(file)).followed()?;
    let Some(mut file) = place.open_if_file()? else { return Ok(None) };
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(|error| PathError::new("read", place.shown(), error))?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_those_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        let etc = root.path().join("etc");
        let accounts = Accounts::of(root.path());
        assert_eq!(accounts.user("fred").unwrap_err().to_string(), "there is no user \"fred\"");
        assert_eq!(accounts.user("1234").unwrap(), 1234);
        fs::create_dir(&etc).unwrap();
        fs::write(etc.join("passwd"), "root:x:0:0::/root:/bin/sh\nodd\nfred:x:77:88::/home/fred:\n4:x:5:6:::\n")
            .unwrap();
        fs::write(etc.join("group"), "root:x:0:\nfred:x:88:a,b\n").unwrap();
        assert_eq!((accounts.user("fred").unwrap(), accounts.group("fred").unwrap()), (77, 88));
        assert_eq!(accounts.user("4").unwrap(), 5);
        assert!(accounts.user("odd").is_err());
        // Owners are looked up once, until the next request.
        let owners = || accounts.owners(Some("fred"), Some("fred")).unwrap();
        assert_eq!(owners(), (Some(77), Some(88)));
        fs::write(etc.join("passwd"), "fred:x:78:88::/home/fred:\n").unwrap();
        assert_eq!(owners(), (Some(77), Some(88)));
        accounts.forget_owners();
        assert_eq!(owners(), (Some(78), Some(88)));
    }

    #[test]
    fn only_local_names_rest_on_files() {
        let text = "# passwd: ldap\npasswd: files systemd\ngroup:\t[x] files\n shadow : files\n";
        assert!(has_files_first(text, "passwd") && has_files_first(text, "shadow") && has_files_first(text, "other"));
        assert!(!has_files_first(text, "group"));
        let accounts = Accounts::of(Path::new("/"));
        assert_eq!(accounts.witnesses(["nobody-has-this-name"], []), None);
        assert_eq!(accounts.witnesses([], []), Some(Vec::new()));
    }

    #[test]
    fn the_running_system_is_asked() {
        let accounts = Accounts::of(Path::new("/"));
        assert_eq!((accounts.user("root").unwrap(), accounts.group("root").unwrap()), (0, 0));
    }
}

//! The directories of unit files. Those below a home directory are only accessed as their owner, who may have created
//! symlinks to places where only other users have access.

use crate::scope::Scope;
use holo_plugin::system::Root;
use holo_plugin::{Credentials, KnownUser, as_user};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directories for the system's unit files from users and packages, in order of precedence, highest first. Those in
/// which systemd itself writes generated units are not included.
pub(super) const OF_SYSTEM: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];
/// Those for units of all users.
const OF_USERS: [&str; 6] = [
    "etc/systemd/user",
    "run/systemd/user",
    "usr/local/lib/systemd/user",
    "usr/local/share/systemd/user",
    "usr/share/systemd/user",
    "usr/lib/systemd/user",
];
/// Those below a home directory; the first one has precedence over those of all users.
const OF_USER: [&str; 2] = [".config/systemd/user", ".local/share/systemd/user"];
/// The timeout for the file system of a home directory.
const LIMIT: Duration = Duration::from_secs(30);

/// The directories of a manager's units.
#[derive(Clone, Debug)]
pub(super) struct Directories {
    /// Below the root, in order of precedence, highest first.
    all: Vec<PathBuf>,
    /// The last components of each path.
    pub(super) end: &'static str,
    /// The user to whose home directory some of them belong.
    owner: Option<Credentials>,
}

impl Directories {
    /// Returns the directories of a manager; `None` if its user does not exist. Below another root, home directories
    /// are unknown.
    fn find(root: &Root, scope: &Scope) -> Option<Directories> {
        let user = match scope {
            Scope::System => return Some(Directories::of_system()),
            Scope::AllUsers => return Some(Directories { all: paths(&OF_USERS), end: "systemd/user", owner: None }),
            Scope::User(name) => KnownUser::find(name).ok().flatten().filter(|_| root.is_running())?,
        };
        Some(Directories::of_user(&user))
    }

    pub(super) fn of_system() -> Directories {
        Directories { all: paths(&OF_SYSTEM), end: "systemd/system", owner: None }
    }

    pub(super) fn of_user(user: &KnownUser) -> Directories {
        let home = user.home.strip_prefix("/").unwrap_or(&user.home);
        let [own, shared] = OF_USER.map(|directory| home.join(directory));
        let all = [vec![own], paths(&OF_USERS), vec![shared]].concat();
        Directories { all, end: "systemd/user", owner: Some(user.credentials.clone()) }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.all.iter().map(PathBuf::as_path)
    }

    /// Returns the directory for symlinks that enable or mask units.
    pub(super) fn own(&self) -> &Path {
        self.all.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Works in the directories as their owner; `None` if that is not possible.
    pub(super) fn work<T: Send + 'static>(
        self,
        root: &Root,
        work: impl FnOnce(&Root, &Directories) -> T + Send + 'static,
    ) -> Option<T> {
        let Some(owner) = self.owner.clone() else { return Some(work(root, &self)) };
        let path = root.shown("");
        as_user(&owner, LIMIT, move || work(&Root::new(&path), &self)).ok()
    }
}

/// Works in the directories of a manager as their owner; `None` if there is no such user, or that is not possible.
pub(super) fn look<T: Send + 'static>(
    root: &Root,
    scope: &Scope,
    work: impl FnOnce(&Root, &Directories) -> T + Send + 'static,
) -> Option<T> {
    Directories::find(root, scope)?.work(root, work)
}

/// Returns the directories in which users place a manager's unit files, and the one for packages.
pub(super) fn of_people(root: &Root, scope: &Scope) -> (Vec<PathBuf>, &'static str) {
    let absolute = |directory: &str| Path::new("/").join(directory);
    let Scope::User(name) = scope else {
        return match scope {
            Scope::AllUsers => (vec![absolute(OF_USERS[0])], "/usr/lib/systemd/user"),
            _ => (vec![absolute(OF_SYSTEM[0])], "/usr/lib/systemd/system"),
        };
    };
    // A user who has not been created yet will most likely get this directory.
    let usual = || Path::new("/home").join(name);
    let home = KnownUser::find(name).ok().flatten().filter(|_| root.is_running()).map_or_else(usual, |user| user.home);
    (vec![home.join(OF_USER[0]), absolute(OF_USERS[0])], "/usr/lib/systemd/user")
}

fn paths(directories: &[&str]) -> Vec<PathBuf> {
    directories.iter().map(PathBuf::from).collect()
}

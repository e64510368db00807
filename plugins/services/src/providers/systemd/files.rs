//! The directories of unit files, aliases, and changes since systemd loaded the files. Directories below a home directory are only accessed
//! as their own users.

use super::{show, words};
use crate::providers::FOLDER;
use crate::unit::{Scope, UnitName};
use holo_plugin::system::{Root, UNIT_DIRECTORIES};
use holo_plugin::{Asset, Credentials, KnownUser, as_user};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The directory for the administrator's files, and for symlinks that mask units.
pub(super) const ADMINISTRATORS: &str = UNIT_DIRECTORIES[0];
/// The maximum length of a chain of aliases.
const LONGEST_CHAIN: usize = 8;

/// Returns the main name of a unit: the target of an alias, or the name itself. Only files are read.
pub(super) fn main_name(root: &Root, name: &UnitName) -> UnitName {
    let given = name.clone();
    look(root, name.scope(), move |root, directories| main_name_in(root, directories, &given))
        .unwrap_or_else(|| name.clone())
}

fn main_name_in(root: &Root, directories: &Directories, name: &UnitName) -> UnitName {
    let mut name = name.clone();
    for _ in 0..LONGEST_CHAIN {
        match alias_of(root, directories, &name) {
            Some(next) if next != name => name = next,
            _ => break,
        }
    }
    name
}

/// Returns the target of an alias: a symlink in the unit directories to a file with another name.
fn alias_of(root: &Root, directories: &Directories, name: &UnitName) -> Option<UnitName> {
    for file in words::files(name) {
        for directory in directories.iter() {
            let Ok(link) = root.link(directory.join(&file)) else { continue };
            let target = link?;
            let leads_elsewhere = target.parent().is_some_and(|parent| {
                // The target may be relative, with any number of `..`; all of systemd's directories end alike.
                !parent.as_os_str().is_empty() && !parent.ends_with(directories.end)
            });
            let target = target.file_name()?.to_str().filter(|_| !leads_elsewhere)?;
            let instance = words::instance(name).filter(|_| file != name.as_str());
            let target = match (instance, target.split_once("@.")) {
                (Some(instance), Some((prefix, kind))) => format!("{prefix}@{instance}.{kind}"),
                _ => target.to_owned(),
            };
            return words::complete(&target).ok().map(|target| target.in_scope(name.scope().clone()));
        }
    }
    None
}

/// Returns the path of a unit's file below the root, if it exists.
pub(super) fn path(root: &Root, directories: &Directories, name: &UnitName) -> Option<PathBuf> {
    let files = words::files(name);
    let paths = files.iter().flat_map(|file| directories.iter().map(move |folder| folder.join(file)));
    paths.into_iter().find(|path| root.has(path))
}

/// The names in the directories of the system's units, which are read once for all units.
pub(super) struct FileNames(Vec<(PathBuf, BTreeSet<OsString>)>);

impl FileNames {
    pub(super) fn read(root: &Root) -> FileNames {
        let names = |directory: PathBuf| {
            let names = root.names(&directory).unwrap_or_default();
            (directory, names.into_iter().collect())
        };
        FileNames(paths(&UNIT_DIRECTORIES).into_iter().map(names).collect())
    }

    /// Returns the paths with a name, in order of precedence.
    fn with_name<'n>(&'n self, name: &'n str) -> impl Iterator<Item = PathBuf> + 'n {
        let found = self.0.iter().filter(move |(_, names)| names.contains(OsStr::new(name)));
        found.map(move |(directory, _)| directory.join(name))
    }

    /// Returns the users and groups as which a unit runs, according to its files. A drop-in may replace a user, but both are
    /// returned.
    pub(super) fn accounts(&self, root: &Root, name: &UnitName) -> Vec<Asset> {
        let files = words::files(name);
        let mut paths: Vec<PathBuf> = files.iter().find_map(|file| self.with_name(file).next()).into_iter().collect();
        for drop_ins in files.iter().flat_map(|file| self.with_name(&format!("{file}.d")).collect::<Vec<_>>()) {
            let names = root.names(&drop_ins).unwrap_or_default();
            let all = names.iter().map(|name| drop_ins.join(name));
            paths.extend(all.filter(|path| path.extension().is_some_and(|extension| extension == "conf")));
        }
        let texts: Vec<String> = paths.iter().filter_map(|path| root.text(path)).collect();
        let accounts: BTreeSet<(&str, &str)> = texts.iter().flat_map(|text| accounts_in(text)).collect();
        accounts.into_iter().map(|(kind, name)| Asset::new(kind, name)).collect()
    }
}

fn accounts_in(text: &str) -> impl Iterator<Item = (&'static str, &str)> {
    let settings = text.lines().filter_map(|line| line.split_once('='));
    let named = settings.filter_map(|(key, value)| match key.trim() {
        "User" => Some(("user", value)),
        "Group" | "SupplementaryGroups" => Some(("group", value)),
        _ => None,
    });
    let each = named.flat_map(|(kind, names)| names.split_whitespace().map(move |name| (kind, name)));
    // Numbers name no account, and specifiers are only known to systemd.
    let is_name = |name: &str| !name.contains('%') && name.parse::<u32>().is_err();
    each.filter(move |(_, name)| is_name(name))
}

/// Returns the path of a unit's file if it is a regular file of its own in one of the directories, not a symlink or a
/// mask.
pub(super) fn plain_file(name: &UnitName) -> Option<PathBuf> {
    let path = |directory: &&str| Path::new("/").join(directory).join(name.as_str());
    let found = UNIT_DIRECTORIES.iter().map(path).find_map(|path| {
        let metadata = path.symlink_metadata().ok()?;
        Some((metadata.is_file() && metadata.len() > 0, path))
    });
    found.and_then(|(is_plain, path)| is_plain.then_some(path))
}

/// Returns a unit's file that is at the path of the symlink that would mask it.
pub(super) fn in_the_way_of_a_mask(root: &Root, name: &UnitName) -> Option<PathBuf> {
    let file = name.as_str().to_owned();
    let looked = look(root, name.scope(), move |root, directories| {
        let path = directories.own().join(file);
        root.link(&path).is_ok().then(|| Path::new("/").join(path))
    });
    looked.flatten()
}

/// Returns true if a unit may count as started before its processes can have failed, according to its file.
pub(super) fn starts_unseen(name: &UnitName, file: &Path) -> bool {
    let has_more = |directory: &&str| Path::new("/").join(directory).join(format!("{name}.d")).exists();
    let is_service = name.as_str().ends_with(".service");
    // Settings in several files would have to be merged like systemd does.
    is_service
        && (UNIT_DIRECTORIES.iter().any(has_more) || fs::read_to_string(file).map_or(true, |text| is_simple(&text)))
}

/// Returns true if a unit file defines a service of a type that starts unseen, such as the default type.
fn is_simple(text: &str) -> bool {
    let mut types = text.lines().filter_map(|line| line.trim().strip_prefix("Type")?.trim_start().strip_prefix('='));
    types.next_back().is_none_or(|value| show::starts_unseen(value.trim()) || value.trim().is_empty())
}

/// The file that systemd touches whenever it loads unit files.
const LAST_READ: &str = "/run/systemd/systemd-units-load";

/// Returns the time at which the running systemd has loaded unit files, if its file exists.
pub(super) fn last_read() -> Option<SystemTime> {
    fs::symlink_metadata(LAST_READ).and_then(|metadata| metadata.modified()).ok()
}

/// Returns what has changed on the running system since a time: the names of files and folders directly in systemd's
/// directories.
///
/// The kernel's clock for files lags a few milliseconds behind, so changes before that time never seem to be after it.
/// Changes while systemd was loading files may be missed.
pub(super) fn changes_since(directories: &Directories, read: SystemTime) -> BTreeSet<String> {
    let now = SystemTime::now();
    // Times in the future are from a clock that has been set since.
    let changed = newest(directories).into_iter().filter(|(_, at)| *at > read && *at <= now);
    changed.map(|(name, _)| name).collect()
}

/// Returns, for each entry of the directories, the time of its last change, or of that of a file directly below it.
fn newest(directories: &Directories) -> BTreeMap<String, SystemTime> {
    let mut newest: BTreeMap<String, SystemTime> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for directory in directories.iter() {
        let directory = Path::new("/").join(directory);
        // A directory may be a symlink to another.
        let Ok(canonical) = directory.canonicalize() else { continue };
        if !seen.insert(canonical) {
            continue;
        }
        let mut note = |name: &str, metadata: &fs::Metadata| {
            let at = changed(metadata);
            newest.entry(name.to_owned()).and_modify(|newest| *newest = at.max(*newest)).or_insert(at);
        };
        if let Ok(metadata) = directory.metadata() {
            note(FOLDER, &metadata);
        }
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(is_directory) = note_entry(&entry, |metadata| note(&name, metadata)) else { continue };
            if is_directory {
                // Symlinks in the directories of targets lead to units, which have entries themselves.
                let is_of_drop_ins = name.ends_with(".d");
                for inner in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                    if is_of_drop_ins {
                        note_entry(&inner, |metadata| note(&name, metadata));
                    } else if let Ok(metadata) = inner.metadata() {
                        note(&name, &metadata);
                    }
                }
            }
        }
    }
    newest
}

/// Passes the metadata of an entry, and of the target of a symlink, to `note`. Returns true if the entry is a
/// directory.
fn note_entry(entry: &fs::DirEntry, mut note: impl FnMut(&fs::Metadata)) -> Option<bool> {
    let metadata = entry.metadata().ok()?;
    note(&metadata);
    if metadata.is_symlink()
        && let Ok(file) = fs::metadata(entry.path())
        && file.is_file()
    {
        note(&file);
    }
    Some(metadata.is_dir())
}

fn changed(metadata: &fs::Metadata) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(metadata.ctime()).unwrap_or_default());
    UNIX_EPOCH + seconds + Duration::from_nanos(u64::try_from(metadata.ctime_nsec()).unwrap_or_default())
}

/// Parses a time from `systemctl show --timestamp=us+utc`: `Sun 2026-11-22 00:06:08.206326 UTC`.
pub(super) fn parse_time(text: &str) -> Option<SystemTime> {
    let mut words = text.split_whitespace().skip(1);
    let (date, time) = (words.next()?, words.next()?);
    if words.next()? != "UTC" {
        return None;
    }
    let numbers = |text: &str, separator: char| -> Option<Vec<u64>> {
        text.split(separator).map(|number| number.parse().ok()).collect()
    };
    let (clock, micros) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month, day] = numbers(date, '-')?[..] else { return None };
    let [hours, minutes, seconds] = numbers(clock, ':')?[..] else { return None };
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since the epoch in a calendar that starts in March, so that leap days come last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    let micros = Duration::from_micros(micros.parse().ok()?);
    Some(UNIX_EPOCH + Duration::from_secs(((days * 24 + hours) * 60 + minutes) * 60 + seconds) + micros)
}

/// The directories for units of all users, in order of precedence.
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
    pub(super) fn find(root: &Root, scope: &Scope) -> Option<Directories> {
        let user = match scope {
            Scope::System => return Some(Directories::of_system()),
            Scope::AllUsers => return Some(Directories { all: paths(&OF_USERS), end: "systemd/user", owner: None }),
            Scope::User(name) => KnownUser::find(name).ok().flatten().filter(|_| root.is_running())?,
        };
        Some(Directories::of_user(&user))
    }

    pub(super) fn of_system() -> Directories {
        Directories { all: paths(&UNIT_DIRECTORIES), end: "systemd/system", owner: None }
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
            _ => (vec![absolute(UNIT_DIRECTORIES[0])], "/usr/lib/systemd/system"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn times_are_those_of_the_epoch() {
        let micros = |text: &str| parse_time(text).map(|time| time.duration_since(UNIX_EPOCH).unwrap().as_micros());
        assert_eq!(micros("Sun 2026-11-22 00:06:08.206326 UTC"), Some(1_795_305_968_206_326));
        assert_eq!(micros("Thu 1970-01-01 00:00:00 UTC"), Some(0));
        assert_eq!(micros("Thu 2024-02-29 23:59:59.000001 UTC"), Some(1_709_251_199_000_001));
        for odd in ["", "n/a", "Sun 2026-11-22 00:06:08 CET", "Sun 2026-13-22 00:06:08 UTC", "Sun x UTC"] {
            assert_eq!(micros(odd), None, "{odd}");
        }
    }

    #[test]
    fn accounts_are_those_of_a_unit_and_its_drop_ins() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            ("usr/lib/systemd/system/app@.service", "[Service]\nUser = app\nGroup=app\n#User=no\n"),
            ("etc/systemd/system/app@.service.d/a.conf", "[Service]\nSupplementaryGroups=tls 100 %i\n"),
            ("etc/systemd/system/app@one.service.d/a.conf", "[Service]\nUser=other\n"),
            ("etc/systemd/system/app@one.service.d/a.conf.bak", "[Service]\nUser=no\n"),
        ];
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let name = words::complete("app@one").unwrap();
        let root = Root::new(folder.path());
        let accounts = FileNames::read(&root).accounts(&root, &name);
        let expected = [("group", "app"), ("group", "tls"), ("user", "app"), ("user", "other")];
        assert_eq!(accounts, expected.map(|(kind, name)| Asset::new(kind, name)));
    }

    #[test]
    fn services_are_simple_unless_their_file_says_otherwise() {
        for simple in [
            "",
            "[Service]\nExecStart=true\n",
            "Type=forking\nType = exec\n",
            "Type=\n",
            "# Type=notify\n",
            "Type=idle",
        ] {
            assert!(is_simple(simple), "{simple}");
        }
        for other in ["[Service]\nType=notify\n", " Type = oneshot \n", "Type=simple\nType=dbus\n"] {
            assert!(!is_simple(other), "{other}");
        }
    }

    #[test]
    fn a_link_to_another_name_is_an_alias() {
        let folder = tempfile::tempdir().unwrap();
        let path = |path: &str| folder.path().join(path);
        for directory in ["etc/systemd/system", "usr/lib/systemd/system", "opt"] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        for unit in ["ssh.service", "getty@.service", "masked.service"] {
            fs::write(path("usr/lib/systemd/system").join(unit), "").unwrap();
        }
        let etc = path("etc/systemd/system");
        symlink("/usr/lib/systemd/system/ssh.service", etc.join("sshd.service")).unwrap();
        symlink("sshd.service", etc.join("secure.service")).unwrap();
        symlink("getty@.service", path("usr/lib/systemd/system/tty@.service")).unwrap();
        symlink("/dev/null", etc.join("masked.service")).unwrap();
        symlink("/opt/linked.service", etc.join("other.service")).unwrap();
        symlink("round.service", etc.join("round.service")).unwrap();
        let root = Root::new(folder.path());
        let name = |name: &str| main_name(&root, &words::complete(name).unwrap()).to_string();
        assert_eq!(name("sshd"), "ssh.service");
        assert_eq!(name("secure"), "ssh.service");
        assert_eq!(name("ssh"), "ssh.service");
        assert_eq!(name("tty@tty1"), "getty@tty1.service");
        assert_eq!(name("masked"), "masked.service");
        assert_eq!(name("other"), "other.service");
        assert_eq!(name("round"), "round.service");
        assert_eq!(name("nowhere"), "nowhere.service");
    }
}

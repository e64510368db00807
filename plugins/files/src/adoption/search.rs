//! Searches for files that belong to no package or differ from it, and decides which of them are adopted.

use super::dpkg;
use super::exclusions::{Exclusion, Exclusions, Mention};
use super::unmanaged::{self, Rights};
use crate::overlay::PREFIX;
use crate::overlay::adopt::{PRIVATE_MODE, resource_mode};
use bstr::BString;
use holo_change::claims::{self, Claim};
use holo_plugin::system::{Diversion, DiversionsError, PackagedFile, Root};
use holo_plugin::{Candidate, Host, quoted};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The directories in which every file was created by a package or manually.
pub(super) const SCOPES: [&str; 4] = ["/etc", "/usr/local", "/usr/lib/systemd/system", "/var/spool/cron"];
/// The directory whose files were created manually even if packages are unknown.
const LOCAL_SCOPE: &str = "/usr/local";
/// The directories of which each entry is only searched on request.
const OPTIONAL: [&str; 3] = ["/opt", "/srv", "/home"];
/// The home directory of root, which is only searched on request.
const OF_ROOT: &str = "/root";
/// Where the unit files are to which symlinks of systemctl lead; others were linked by name.
const UNIT_FILES: [&str; 5] =
    ["/usr/lib/systemd", "/lib/systemd", "/etc/systemd", "/run/systemd", "/usr/local/lib/systemd"];
/// The directories whose symlinks configure systemd units.
const UNITS: [&str; 2] = ["/etc/systemd/system", "/etc/systemd/user"];
/// The symlink to the unit that systemd starts at boot. The services plugin does not manage it.
const DEFAULT_TARGET: &str = "/etc/systemd/system/default.target";
/// The symlinks of `update-alternatives`.
const ALTERNATIVES: &str = "/etc/alternatives";
/// The states of alternatives, each in a file with the name of the symlink, on Debian and on Fedora.
const ALTERNATIVES_STATES: [&str; 2] = ["var/lib/dpkg/alternatives", "var/lib/alternatives"];
/// The maximum size in bytes. Larger files are data, not configuration.
const MAX_SIZE: u64 = 16 << 20;
const TOO_LARGE: &str = "it is larger than 16 MiB";
/// The usual mode of a directory, which needs no definition.
const DIRECTORY_MODE: u32 = 0o755;
/// The maximum number of files without a package in a manually maintained directory.
const MOST_BY_HAND: usize = 50;
/// The maximum number of files that are listed for one pattern; more are listed as the pattern.
const MOST_LISTED: usize = 3;

/// Lists the files that are adopted, and those that are not, with the reason. `managed` contains the IDs of managed files.
pub(super) fn candidates(host: &Host, managed: BTreeSet<BString>, include: &[PathBuf]) -> Vec<Candidate> {
    let search = Search::new(host, managed, include);
    let mut found = search.candidates();
    found.extend(search.deleted());
    found.extend(search.optional());
    found.extend(dpkg::overrides(&Root::new(host.root()), &search.exclusions));
    found.extend(dpkg::diversions(&search.diversions));
    found
}

/// A search for unmanaged files.
struct Search<'a> {
    host: &'a Host,
    exclusions: Exclusions,
    managed: BTreeSet<BString>,
    claims: Vec<Claim>,
    /// The additional directories to search.
    include: &'a [PathBuf],
    /// The files that dpkg installs under other names.
    diversions: Result<Vec<Diversion>, DiversionsError>,
    /// All files in the searched directories, and those in place of files that an administrator has diverted.
    files: BTreeMap<PathBuf, Metadata>,
    /// Those that belong to packages.
    packaged: BTreeMap<PathBuf, PackagedFile>,
    /// The packages of these.
    packages: BTreeSet<String>,
    /// The configuration files of removed packages.
    leftovers: BTreeMap<PathBuf, String>,
}

/// A file that is not as its package installed it.
enum Change {
    /// It is adopted, for this reason.
    Adopted(String),
    /// A pattern excludes it.
    Excluded(Exclusion),
    /// It is listed as not adopted, with this reason.
    Left { reason: String, command: Option<String> },
    /// It is one of possibly many files of no package, and is adopted for this reason unless there are too many.
    Unowned(&'static str),
}

impl Search<'_> {
    fn new<'a>(host: &'a Host, managed: BTreeSet<BString>, include: &'a [PathBuf]) -> Search<'a> {
        let scopes = SCOPES.iter().map(Path::new).chain(include.iter().map(PathBuf::as_path));
        let mut files: BTreeMap<PathBuf, Metadata> = scopes.flat_map(|scope| list(scope, host)).collect();
        let diversions = host.system().diversions();
        let local = || diversions.iter().flatten().filter(|one| one.package.is_none());
        let instead = |one: &Diversion| Some((one.from.clone(), host.below_root(&one.from).symlink_metadata().ok()?));
        files.extend(local().filter_map(instead));
        let paths: Vec<PathBuf> = files.keys().chain(local().map(|one| &one.to)).cloned().collect();
        let packaged = host.system().packaged_files(&paths);
        let packages = packaged.values().map(|file| file.package.clone()).collect();
        let claims = claims::all(host.locations());
        let (exclusions, leftovers) = (Exclusions::read(host), host.system().leftover_files());
        Search { host, exclusions, managed, claims, include, diversions, files, packaged, packages, leftovers }
    }

    fn candidates(&self) -> Vec<Candidate> {
        let mut found = Vec::new();
        let mut excluded: BTreeMap<Exclusion, Vec<&Path>> = BTreeMap::new();
        let mut unowned: BTreeMap<&Path, Vec<(&Path, &str)>> = BTreeMap::new();
        for (path, metadata) in &self.files {
            // Without knowledge of packages, assume that files belong to them.
            let is_searched = !self.packaged.is_empty() || path.starts_with(LOCAL_SCOPE) || self.is_included(path);
            let change = Some(path).filter(|path| is_searched && !self.is_managed(path)).and_then(|path| {
                match self.packaged.get(path) {
                    Some(file) => self.changed(path, metadata, file),
                    None => self.unowned(path, metadata),
                }
            });
            match change {
                None => {}
                Some(Change::Excluded(exclusion)) => excluded.entry(exclusion).or_default().push(path),
                Some(Change::Left { reason, command }) => found.push(left(path, &reason, command)),
                Some(Change::Adopted(reason)) => found.push(self.candidate(path, &reason)),
                Some(Change::Unowned(reason)) => {
                    unowned.entry(path.parent().unwrap_or(path)).or_default().push((path, reason));
                }
            }
        }
        for (directory, paths) in unowned {
            if paths.len() > MOST_BY_HAND && !self.is_included(directory) {
                found.push(installed_software(directory, paths.len()));
            } else {
                found.extend(paths.into_iter().map(|(path, reason)| self.candidate(path, reason)));
            }
        }
        found.extend(excluded.into_iter().flat_map(|(exclusion, paths)| listed(exclusion, &paths)));
        found
    }

    /// Returns true if the user has asked for the directory that contains a path.
    fn is_included(&self, path: &Path) -> bool {
        self.include.iter().any(|directory| path.starts_with(directory))
    }

    /// Returns true if an entity of any plugin manages a path.
    fn is_managed(&self, path: &Path) -> bool {
        self.managed.contains(&id(path)) || self.claims.iter().any(|claim| claim.covers(path))
    }

    /// Returns a candidate, which is excluded if no definition can contain its path.
    fn candidate(&self, path: &Path, reason: &str) -> Candidate {
        if let Err(problem) = unmanaged::definable(path) {
            return left(path, problem, None);
        }
        let candidate = Candidate::new(id(path), reason);
        match self.group(path) {
            Some(group) => candidate.in_group(group),
            None => candidate,
        }
    }

    fn content(&self, path: &Path) -> Option<Vec<u8>> {
        fs::read(self.host.below_root(path)).ok()
    }

    /// Compares a file with its package. Returns `None` if they are equal.
    fn changed(&self, path: &Path, metadata: &Metadata, file: &PackagedFile) -> Option<Change> {
        let package = &file.package;
        let digest = match &file.digest {
            _ if metadata.is_dir() => return self.changed_rights(path, metadata, file),
            None => return None,
            Some(_) if metadata.is_symlink() => {
                return Some(Change::Adopted(format!("a symlink instead of the file in package {package}")));
            }
            Some(_) if !metadata.is_file() => return Some(special()),
            Some(digest) => digest,
        };
        if digest.is_of(&self.content(path)?)? {
            return self.changed_rights(path, metadata, file);
        }
        if metadata.len() > MAX_SIZE {
            return Some(Change::Left { reason: TOO_LARGE.to_owned(), command: by_name(path) });
        }
        Some(Change::Adopted(format!("changed from the version in package {package}")))
    }

    /// Compares mode, owner and ACL of a file or directory with those in its package.
    fn changed_rights(&self, path: &Path, metadata: &Metadata, file: &PackagedFile) -> Option<Change> {
        let package = &file.package;
        match unmanaged::rights(path, metadata, Some(file), &self.exclusions, self.host) {
            Rights::Packaged => None,
            Rights::Changed => {
                Some(Change::Adopted(format!("its mode, owner or ACL is not that of package {package}")))
            }
            Rights::Unknown => Some(Change::Left {
                reason: "its mode or owner is unusual, and that of its package is unknown".to_owned(),
                command: by_name(path),
            }),
        }
    }

    /// Examines a file that belongs to no package. Returns `None` if it is neither adopted nor listed.
    fn unowned(&self, path: &Path, metadata: &Metadata) -> Option<Change> {
        let name = &*path.to_string_lossy();
        let kind = metadata.file_type();
        if path.starts_with(ALTERNATIVES) {
            return self.alternative(path);
        }
        if let Some(package) = self.leftovers.get(path) {
            let reason = format!("package {package} left it behind when it was removed");
            return Some(Change::Left { reason, command: by_name(path) });
        }
        if let Some(exclusion) = self.exclusions.of(name) {
            return (!kind.is_dir()).then_some(Change::Excluded(exclusion));
        }
        if kind.is_dir() {
            let usual = self.host.root().metadata().map_or((0, 0), |root| (root.uid(), root.gid()));
            let is_usual = metadata.mode() & 0o7777 == DIRECTORY_MODE && (metadata.uid(), metadata.gid()) == usual;
            let change = match (is_usual && !unmanaged::has_acl(path, self.host), self.is_empty(path)) {
                (false, _) => Change::Adopted("a directory of no package, with a mode or owner of its own".to_owned()),
                (true, true) => Change::Unowned("an empty directory of no package"),
                (true, false) => return None,
            };
            return (!self.exclusions.is_mentioned(name)).then_some(change);
        }
        if kind.is_symlink() {
            let target = fs::read_link(self.host.below_root(path)).ok()?;
            let Some(target) = target.to_str() else {
                return Some(Change::Left { reason: "its target is not UTF-8".to_owned(), command: None });
            };
            let leads_to_unit = target == "/dev/null"
                || !target.starts_with('/')
                || UNIT_FILES.iter().any(|units| Path::new(target).starts_with(units));
            let is_below_units = UNITS.iter().any(|units| path.starts_with(units));
            let is_of_units = is_below_units && leads_to_unit && path != Path::new(DEFAULT_TARGET);
            let is_usual = is_of_units || self.exclusions.links(name, target);
            return (!is_usual).then(|| Change::Adopted("a symlink of no package".to_owned()));
        }
        if is_mounted(&self.host.below_root(path)) {
            return Some(Change::Left { reason: "another file is mounted on it".to_owned(), command: None });
        }
        if !kind.is_file() {
            return Some(special());
        }
        if metadata.len() > MAX_SIZE {
            return Some(Change::Left { reason: TOO_LARGE.to_owned(), command: by_name(path) });
        }
        let Some(content) = self.content(path) else {
            return Some(Change::Left { reason: "it cannot be read".to_owned(), command: None });
        };
        if let Some(sum) = self.exclusions.generated(name) {
            let changed = || Change::Adopted("changed since its package generated it".to_owned());
            return (sum.is_of(&content) != Some(true)).then(changed);
        }
        match self.exclusions.mention(name, &content) {
            None => Some(Change::Unowned("a file of no package")),
            Some(Mention::Copied) => None,
            Some(Mention::Unknown(package)) if resource_mode(path, metadata.mode(), self.host) == PRIVATE_MODE => {
                let reason = format!("a script of package {package} may have generated it with a key");
                Some(Change::Left { reason, command: by_name(path) })
            }
            Some(Mention::Unknown(package)) => {
                Some(Change::Adopted(format!("a file that a script of package {package} may have generated")))
            }
        }
    }

    /// Returns true if there is nothing in a directory.
    fn is_empty(&self, directory: &Path) -> bool {
        let after = (Bound::Excluded(directory), Bound::Unbounded);
        self.files.range::<Path, _>(after).next().is_none_or(|(path, _)| !path.starts_with(directory))
    }

    /// Returns the change if an alternative was chosen manually.
    fn alternative(&self, path: &Path) -> Option<Change> {
        let name = path.strip_prefix(ALTERNATIVES).ok()?;
        let root = Root::new(self.host.root());
        let state = ALTERNATIVES_STATES.iter().find_map(|states| root.text(Path::new(states).join(name)))?;
        let target = fs::read_link(self.host.below_root(path)).ok()?;
        let (name, target) = (name.to_str()?, target.to_str()?);
        (state.lines().next() == Some("manual")).then(|| Change::Left {
            reason: "the alternative was chosen manually".to_owned(),
            command: Some(format!("update-alternatives --set {} {}", quoted(name), quoted(target))),
        })
    }

    /// Returns the configuration files that were deleted although their packages are installed.
    fn deleted(&self) -> Vec<Candidate> {
        let is_deleted = |path: &PathBuf| {
            !self.files.contains_key(path)
                && self.host.below_root(path).symlink_metadata().is_err()
                && !self.is_managed(path)
        };
        let files = self.host.system().configuration_files().into_iter().filter(|(path, _)| is_deleted(path));
        let candidate = |(path, package): (PathBuf, String)| {
            let candidate = self.candidate(&path, &format!("deleted, although it belongs to package {package}"));
            candidate.in_group(package)
        };
        files.map(candidate).collect()
    }

    /// Lists what the directories contain that are only searched on request.
    fn optional(&self) -> Vec<Candidate> {
        let entry = |entry: walkdir::DirEntry, root: &Path, directory: &str| {
            Some(Path::new(directory).join(entry.path().strip_prefix(root).ok()?))
        };
        let entries = OPTIONAL.iter().flat_map(|directory| {
            let root = self.host.below_root(Path::new(directory));
            let entries = WalkDir::new(&root).min_depth(1).max_depth(1).into_iter().filter_map(Result::ok);
            entries.filter_map(|found| entry(found, &root, directory)).collect::<Vec<_>>()
        });
        let paths: Vec<PathBuf> = entries.chain(self.has_work_of_root().then(|| OF_ROOT.into())).collect();
        let packaged = self.host.system().packaged_files(&paths);
        let has_managed = |path: &Path| {
            let inside = BString::from([&id(path)[..], b"/"].concat());
            self.managed.range(inside.clone()..).next().is_some_and(|managed| managed.starts_with(&inside))
        };
        let is_left = |path: &&PathBuf| {
            let is_of_package = packaged.contains_key(*path) && *path != Path::new(OF_ROOT);
            let is_known = is_of_package || self.is_managed(path) || self.is_included(path);
            !is_known && !has_managed(path)
        };
        let candidate = |path: &PathBuf| {
            let command = path.to_str().map(|path| format!("holo adopt --all --include {}", quoted(path)));
            left(path, "its directory is only searched on request", command)
        };
        paths.iter().filter(is_left).map(candidate).collect()
    }

    /// Returns true if the home directory of root contains files other than those that a package has put there, and keys for logins.
    fn has_work_of_root(&self) -> bool {
        let root = self.host.below_root(Path::new(OF_ROOT));
        let mut entries = fs::read_dir(&root).into_iter().flatten().filter_map(Result::ok);
        let is_own = |entry: fs::DirEntry| {
            let path = Path::new(OF_ROOT).join(entry.file_name());
            let mention = self.content(&path).and_then(|content| self.exclusions.mention(path.to_str()?, &content));
            entry.file_name() != ".ssh" && mention != Some(Mention::Copied)
        };
        entries.any(is_own)
    }

    /// Returns the package to group a file with: the one with the name of a directory for fragments, such as
    /// `/etc/rsyslog.d`, whose services read it, the one that owns it or whose scripts install it, the one with the name of
    /// a parent directory, or the only one with files in a parent directory.
    fn group(&self, path: &Path) -> Option<&str> {
        let diversion = self.diversions.iter().flatten().find(|one| one.package.is_none() && one.from == path);
        if let Some(file) = self.packaged.get(diversion.map_or(path, |diversion| &diversion.to)) {
            let is_for_fragments = |above: &&Path| above.as_os_str().as_bytes().ends_with(b".d");
            let reader = path.ancestors().skip(1).filter(is_for_fragments).find_map(|above| self.namesake(above));
            return Some(reader.unwrap_or(&file.package));
        }
        if let Some(package) = path.to_str().and_then(|path| self.exclusions.package(path)) {
            return Some(package);
        }
        // The searched directories themselves, and those above them, are shared by all packages.
        let scopes = || SCOPES.iter().chain(&OPTIONAL).map(Path::new).chain(self.include.iter().map(PathBuf::as_path));
        let is_shared = |above: &&Path| scopes().any(|scope| scope.starts_with(above));
        let mut above = path.ancestors().skip(1).take_while(|above| !is_shared(above));
        above.find_map(|above| self.namesake(above).map(Ok).or_else(|| self.only_package_in(above)))?.ok()
    }

    /// Returns the package with the name of a directory, such as `rsyslog` for `/etc/rsyslog.d`.
    fn namesake(&self, directory: &Path) -> Option<&str> {
        let name = directory.file_name()?.to_str()?;
        let name = name.strip_suffix(".d").unwrap_or(name);
        let name = [".conf", ".service"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        self.packages.get(name).map(String::as_str)
    }

    /// Returns the only package with files in a directory, `None` if there is no package, and an error if there are several.
    fn only_package_in(&self, directory: &Path) -> Option<Result<&str, SeveralError>> {
        let own = self.packaged.get(directory).map(|file| &*file.package);
        let inside = self.packaged.range(directory.to_owned()..).skip_while(|(path, _)| *path == directory);
        let inside = inside.take_while(|(path, _)| path.starts_with(directory));
        let packages: BTreeSet<&str> = inside.map(|(_, file)| &*file.package).collect();
        match (packages.len(), packages.first(), own) {
            (0, _, own) => own.map(Ok),
            (1, Some(only), _) => Some(Ok(only)),
            _ => Some(Err(SeveralError)),
        }
    }
}

/// Returns the change for a socket, a device or the like.
fn special() -> Change {
    Change::Left { reason: "it is neither a file, a directory nor a symlink".to_owned(), command: None }
}

/// A directory belongs to several packages.
struct SeveralError;

fn id(path: &Path) -> BString {
    [PREFIX, path.as_os_str().as_bytes()].concat().into()
}

/// Returns the command that adopts a path by name.
fn by_name(path: &Path) -> Option<String> {
    let path = unmanaged::definable(path).ok()?;
    Some(format!("holo adopt {}", quoted(path)))
}

/// Returns an entry for a file that is not adopted.
fn left(path: &Path, reason: &str, command: Option<String>) -> Candidate {
    unmanaged::left_as(PREFIX, path, reason, command)
}

/// Returns an entry for the files of a directory that contains too many.
fn installed_software(directory: &Path, count: usize) -> Candidate {
    let reason = format!("{count} files are installed software, which an archive can provide");
    left(&directory.join("*"), &reason, None)
}

/// Lists the files that a pattern excludes, or, if they are too many, the pattern.
fn listed(exclusion: Exclusion, paths: &[&Path]) -> Vec<Candidate> {
    let Some(reason) = exclusion.reason else { return Vec::new() };
    if paths.len() > MOST_LISTED {
        return vec![left(Path::new(exclusion.pattern), reason, None)];
    }
    paths.iter().map(|path| left(path, reason, by_name(path))).collect()
}

/// Returns true if a file is a mount point. Device numbers cannot tell, because the layers of an overlay have their own.
fn is_mounted(path: &Path) -> bool {
    let mount = |path: &Path| {
        let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID).ok()?;
        (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
    };
    path.parent().is_some_and(|folder| mount(folder) != mount(path))
}

/// Returns all files below a directory on the same file system.
fn list(scope: &Path, host: &Host) -> Vec<(PathBuf, Metadata)> {
    let root = host.below_root(scope);
    let entries = WalkDir::new(&root).min_depth(1).same_file_system(true).into_iter().filter_map(Result::ok);
    let entry = |entry: walkdir::DirEntry| {
        let metadata = entry.metadata().ok()?;
        Some((scope.join(entry.path().strip_prefix(&root).ok()?), metadata))
    };
    entries.filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_paths_are_escaped() {
        let left = left(Path::new("/etc/x\n\"y\""), "odd", None);
        assert_eq!(left.to_line(), "file:/etc/x\\n\\\"y\\\"\todd\t\texcluded");
    }

    #[test]
    fn many_excluded_files_are_listed_as_their_pattern() {
        let exclusion = Exclusion { pattern: "/etc/a/**", reason: Some("cache") };
        let lines = |paths: &[&str]| {
            let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
            listed(exclusion, &paths).iter().map(|candidate| candidate.to_line().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            lines(&["/etc/a/b", "/etc/a/c d"]),
            [
                "file:/etc/a/b\tcache\t\texcluded\tholo adopt /etc/a/b",
                "file:/etc/a/c d\tcache\t\texcluded\tholo adopt '/etc/a/c d'"
            ]
        );
        assert_eq!(lines(&["/etc/a/1", "/etc/a/2", "/etc/a/3", "/etc/a/4"]), ["file:/etc/a/**\tcache\t\texcluded"]);
        assert_eq!(listed(Exclusion { pattern: "/etc/a", reason: None }, &[Path::new("/etc/a")]), []);
    }
}

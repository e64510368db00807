//! Files owned by packages, from the package manager's database, and whether they have been modified.
//!
//! Text databases are read directly, as that is faster than the package manager's programs; RPM's database is read with
//! its program.

#[cfg(test)]
mod tests;

use crate::package_manager::{APK, APT, DNF, PACMAN, PackageManager, RPM_DATABASES, ZYPPER};
use crate::root::Root;
use bstr::ByteSlice;
use data_encoding::{BASE64, HEXLOWER};
use holo_process::Program;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file that a package owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackagedFile {
    /// The name of the package.
    pub package: String,
    /// The digest of the packaged content, if the package manager has it.
    pub digest: Option<Digest>,
}

/// The digest of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Digest {
    /// Hexadecimal digits, whose number identifies the algorithm: MD5, SHA-1, SHA-256 or SHA-512.
    Hexadecimal(String),
    /// SHA-1 in Base64.
    Sha1(String),
}

impl Digest {
    /// Returns true if this is the digest of the content; `None` if the algorithm is unknown.
    #[must_use]
    pub fn is_of(&self, content: &[u8]) -> Option<bool> {
        match self {
            Digest::Sha1(text) => Some(BASE64.encode(&Sha1::digest(content)) == *text),
            Digest::Hexadecimal(text) => {
                let digest = match text.len() {
                    32 => HEXLOWER.encode(&Md5::digest(content)),
                    40 => HEXLOWER.encode(&Sha1::digest(content)),
                    64 => HEXLOWER.encode(&Sha256::digest(content)),
                    128 => HEXLOWER.encode(&Sha512::digest(content)),
                    _ => return None,
                };
                Some(digest == *text)
            }
        }
    }
}

/// Returns those of these files that packages own.
pub(crate) fn find(manager: &PackageManager, root: &Root, paths: &[PathBuf]) -> BTreeMap<PathBuf, PackagedFile> {
    let wanted = Wanted::new(paths);
    let found = match manager.name {
        name if name == APT.name => find_dpkg(root, &wanted),
        name if name == PACMAN.name => find_pacman(root, &wanted),
        name if name == APK.name => find_apk(root, &wanted),
        name if name == DNF.name || name == ZYPPER.name => find_rpm(root, &wanted),
        _ => BTreeMap::new(),
    };
    found.into_iter().filter_map(|(name, file)| Some((wanted.0.get(&name)?.clone(), file))).collect()
}

/// The requested paths by the names that they may have in a database, without leading slashes.
struct Wanted(BTreeMap<Vec<u8>, PathBuf>);

impl Wanted {
    fn new(paths: &[PathBuf]) -> Wanted {
        let mut wanted = BTreeMap::new();
        for path in paths {
            let below = path.strip_prefix("/").unwrap_or(path);
            wanted.insert(below.as_os_str().as_bytes().to_vec(), path.clone());
            // If /bin is a symlink to /usr/bin, packages may still list files in /bin.
            let parts = ["bin", "sbin", "lib", "lib32", "lib64"];
            let merged = below.strip_prefix("usr").ok().filter(|rest| parts.iter().any(|part| rest.starts_with(part)));
            let apart = parts.iter().any(|part| below.starts_with(part)).then(|| Path::new("usr").join(below));
            for other in merged.map(Path::to_owned).into_iter().chain(apart) {
                wanted.entry(other.as_os_str().as_bytes().to_vec()).or_insert_with(|| path.clone());
            }
        }
        Wanted(wanted)
    }

    fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.keys().map(Vec::as_slice)
    }

    fn has(&self, name: &[u8]) -> bool {
        self.0.contains_key(name)
    }
}

/// The files found, by their names in the database.
type Found = BTreeMap<Vec<u8>, PackagedFile>;

fn find_apk(root: &Root, wanted: &Wanted) -> Found {
    let mut found = Found::new();
    let Some(text) = APK.databases.iter().find_map(|path| root.read(path).ok().flatten()) else { return found };
    let (mut package, mut directory) = (String::new(), &b""[..]);
    let mut file: Option<Vec<u8>> = None;
    for line in text.lines() {
        let Some((key, value)) = line.split_once_str(":") else { continue };
        let own = || PackagedFile { package: package.clone(), digest: None };
        match key {
            b"P" => package = value.to_str_lossy().into_owned(),
            b"F" => {
                (directory, file) = (value, None);
                if wanted.has(value) {
                    found.entry(value.to_vec()).or_insert_with(own);
                }
            }
            b"R" => {
                let path = if directory.is_empty() { value.to_vec() } else { [directory, b"/", value].concat() };
                file = wanted.has(&path).then_some(path);
                if let Some(path) = &file {
                    found.entry(path.clone()).or_insert_with(own);
                }
            }
            // `Q1` marks an SHA-1 digest.
            b"Z" => {
                let digest = value.strip_prefix(b"Q1").and_then(|digest| digest.to_str().ok());
                if let (Some(found), Some(digest)) = (file.as_ref().and_then(|path| found.get_mut(path)), digest) {
                    found.digest = Some(Digest::Sha1(digest.to_owned()));
                }
            }
            _ => {}
        }
    }
    found
}

const INFO: &str = "var/lib/dpkg/info";
const STATUS: &str = "var/lib/dpkg/status";
/// The files that dpkg installs under other names: three lines each.
const DIVERSIONS: &str = "var/lib/dpkg/diversions";

/// A file that dpkg installs under another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diversion {
    /// The path in the packages that contain the file.
    pub from: PathBuf,
    /// The path at which dpkg installs it.
    pub to: PathBuf,
    /// The package whose own file stays at the first path; `None` if the administrator has diverted the file.
    pub package: Option<String>,
}

/// The file of diversions has a line too many or too few, or a relative path. Dpkg refuses to run in this case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("dpkg cannot read it, because line {line} is not part of a diversion")]
pub struct DiversionsError {
    /// The number of the first line that dpkg does not accept.
    pub line: usize,
}

/// Reads the diversions of dpkg.
pub(crate) fn diversions(root: &Root) -> Result<Vec<Diversion>, DiversionsError> {
    parse_diversions(&root.read(DIVERSIONS).ok().flatten().unwrap_or_default())
}

fn parse_diversions(text: &[u8]) -> Result<Vec<Diversion>, DiversionsError> {
    let lines: Vec<&[u8]> = text.lines().collect();
    let diversion = |(index, lines): (usize, &[&[u8]])| match lines {
        [from, to, package] if from.starts_with(b"/") && to.starts_with(b"/") && !package.is_empty() => Ok(Diversion {
            from: from.to_path_lossy().into_owned(),
            to: to.to_path_lossy().into_owned(),
            package: (*package != b":").then(|| package.to_str_lossy().into_owned()),
        }),
        _ => Err(DiversionsError { line: index * 3 + 1 }),
    };
    lines.chunks(3).enumerate().map(diversion).collect()
}

/// The maximum number of names searched for one by one in each list; more are looked up line by line.
const FEW: usize = 8;

fn find_dpkg(root: &Root, wanted: &Wanted) -> Found {
    let mut found = Found::new();
    // Lists contain the names of diverted files in their packages.
    let diversions = diversions(root).unwrap_or_default();
    let diverted: HashMap<&[u8], &Diversion> = diversions.iter().map(|one| (listed(&one.from), one)).collect();
    let elsewhere = diverted.iter().filter(|(_, one)| wanted.has(listed(&one.to))).map(|(name, _)| *name);
    let searched: HashSet<&[u8]> = wanted.names().chain(elsewhere).collect();
    // Each name as in a list, with the surrounding newlines.
    let needles: Vec<(Vec<u8>, &[u8])> = searched.iter().map(|name| ([b"\n/", *name, b"\n"].concat(), *name)).collect();
    let status = OnceCell::new();
    for list in root.names(INFO).unwrap_or_default() {
        let Some(instance) = list.to_str().and_then(|name| name.strip_suffix(".list")) else { continue };
        let Ok(Some(text)) = root.read(Path::new(INFO).join(&list)) else { continue };
        let names: Vec<&[u8]> = if needles.len() <= FEW {
            needles.iter().filter(|(needle, _)| text.contains_str(needle)).map(|(_, name)| *name).collect()
        } else {
            text.lines().filter_map(|line| line.strip_prefix(b"/")).filter(|name| searched.contains(name)).collect()
        };
        if names.is_empty() {
            continue;
        }
        let package = instance.split_once(':').map_or(instance, |(package, _)| package);
        let conffiles = status.get_or_init(|| Conffiles::read(root));
        if conffiles.removed.contains(package) {
            continue;
        }
        let sums = root.read(Path::new(INFO).join(format!("{instance}.md5sums"))).ok().flatten().unwrap_or_default();
        let sums = Sums::new(&sums, names.len());
        for name in names {
            let diversion = diverted.get(name).filter(|one| one.package.as_deref() != Some(package));
            let installed = diversion.map_or(name, |diversion| listed(&diversion.to));
            if !wanted.has(installed) {
                continue;
            }
            let digest = sums.digest(name).or_else(|| conffiles.digest(package, name)).map(Digest::Hexadecimal);
            // A directory may belong to many packages; the first one is used.
            found.entry(installed.to_vec()).or_insert(PackagedFile { package: package.to_owned(), digest });
        }
    }
    found
}

/// Returns a path without its leading slash.
fn listed(path: &Path) -> &[u8] {
    path.strip_prefix("/").unwrap_or(path).as_os_str().as_bytes()
}

/// The digests of a package's files, except for configuration files.
enum Sums<'a> {
    Text(&'a [u8]),
    Table(HashMap<&'a [u8], &'a [u8]>),
}

impl<'a> Sums<'a> {
    /// Prepares for this number of queries.
    fn new(text: &'a [u8], queries: usize) -> Sums<'a> {
        if queries <= FEW {
            return Sums::Text(text);
        }
        Sums::Table(text.lines().filter_map(|line| line.split_once_str("  ")).map(|(sum, name)| (name, sum)).collect())
    }

    fn digest(&self, name: &[u8]) -> Option<String> {
        let sum = match self {
            Sums::Table(table) => table.get(name).copied()?,
            Sums::Text(text) => {
                let mut lines = text.lines();
                lines.find_map(|line| line.strip_suffix(name)?.strip_suffix(b"  "))?
            }
        };
        Some(sum.to_str().ok()?.to_owned())
    }
}

/// The configuration files of packages.
struct Conffiles {
    /// The digests of packaged files, by package name and path without the leading slash.
    digests: HashMap<(String, Vec<u8>), String>,
    /// The packages of which only configuration files are left.
    removed: HashSet<String>,
}

impl Conffiles {
    fn read(root: &Root) -> Conffiles {
        let (mut digests, mut removed, mut present) = (HashMap::new(), HashSet::new(), HashSet::new());
        for_each_conffile(root, |conffile| {
            let package = conffile.package.to_str_lossy().into_owned();
            if conffile.is_left { &mut removed } else { &mut present }.insert(package.clone());
            if let Some(path) = conffile.path.strip_prefix(b"/") {
                digests.insert((package, path.to_vec()), conffile.digest.to_str_lossy().into_owned());
            }
        });
        // The package may be installed for another architecture.
        removed.retain(|package| !present.contains(package));
        Conffiles { digests, removed }
    }

    fn digest(&self, package: &str, name: &[u8]) -> Option<String> {
        self.digests.get(&(package.to_owned(), name.to_vec())).cloned()
    }
}

/// A configuration file in dpkg's database.
struct Conffile<'a> {
    package: &'a [u8],
    path: &'a [u8],
    digest: &'a [u8],
    /// True if the package is installed and its current version contains the file.
    is_current: bool,
    /// True if the package was removed, except for its configuration files.
    is_left: bool,
}

fn for_each_conffile(root: &Root, mut handle: impl FnMut(Conffile<'_>)) {
    let status = root.read(STATUS).ok().flatten().unwrap_or_default();
    for stanza in status.split_str("\n\n") {
        let field = |name: &[u8]| stanza.lines().find_map(|line| line.strip_prefix(name));
        let Some(package) = field(b"Package: ") else { continue };
        let status = field(b"Status: ").unwrap_or_default();
        let (is_installed, is_left) = (status.ends_with(b" installed"), status.ends_with(b" config-files"));
        let lines = stanza.lines().skip_while(|line| *line != b"Conffiles:").skip(1);
        for line in lines.take_while(|line| line.starts_with(b" ")) {
            let mut words = line.trim().splitn_str(3, " ");
            let (Some(path), Some(digest)) = (words.next(), words.next()) else { continue };
            let is_current = is_installed && words.next().is_none() && digest != b"newconffile";
            handle(Conffile { package, path, digest, is_current, is_left });
        }
    }
}

/// Returns the configuration files of removed packages in dpkg's database.
pub(crate) fn leftovers(root: &Root) -> BTreeMap<PathBuf, String> {
    conffiles(root, |conffile| conffile.is_left)
}

/// Returns the configuration files of installed packages in dpkg's database.
pub(crate) fn configuration_files(root: &Root) -> BTreeMap<PathBuf, String> {
    conffiles(root, |conffile| conffile.is_current)
}

fn conffiles(root: &Root, is_wanted: impl Fn(&Conffile<'_>) -> bool) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    for_each_conffile(root, |conffile| {
        if is_wanted(&conffile) {
            files.insert(conffile.path.to_path_lossy().into_owned(), conffile.package.to_str_lossy().into_owned());
        }
    });
    files
}

const LOCAL: &str = "var/lib/pacman/local";

fn find_pacman(root: &Root, wanted: &Wanted) -> Found {
    let mut found = Found::new();
    for directory in root.names(LOCAL).unwrap_or_default() {
        let Ok(Some(text)) = root.read(Path::new(LOCAL).join(&directory).join("files")) else { continue };
        for name in wanted.names().filter(|name| text.contains_str(name)) {
            // Directories have a trailing slash.
            let is_it = |line: &[u8]| line == name || line.strip_suffix(b"/") == Some(name);
            let mut files = text.lines().skip_while(|line| *line != b"%FILES%").take_while(|line| !line.is_empty());
            if files.any(is_it) {
                let package = name_of(&directory.to_string_lossy()).to_owned();
                let digest = backup(&text, name);
                found.entry(name.to_vec()).or_insert(PackagedFile { package, digest });
            }
        }
    }
    found
}

/// Returns the name of a package without its version and release.
fn name_of(directory: &str) -> &str {
    directory.rsplitn(3, '-').nth(2).unwrap_or(directory)
}

fn backup(text: &[u8], name: &[u8]) -> Option<Digest> {
    let mut backups = text.lines().skip_while(|line| *line != b"%BACKUP%").take_while(|line| !line.is_empty());
    let digest = backups.find_map(|line| line.strip_prefix(name)?.strip_prefix(b"\t"))?;
    Some(Digest::Hexadecimal(digest.to_str().ok()?.to_owned()))
}

/// A line for each file of a package: the query selects packages.
const FORMAT: &str = "[%{=NAME}\\t%{FILEDIGESTS}\\t%{FILENAMES}\\n]";
const TIME_LIMIT: Duration = Duration::from_secs(10);

fn find_rpm(root: &Root, wanted: &Wanted) -> Found {
    let mut found = Found::new();
    // A query would create the database.
    let Some(database) = RPM_DATABASES.iter().find(|path| root.has(path)) else { return found };
    let mut query = Program::new("rpm");
    if !root.is_running() {
        query.arg("--root").arg(root.shown(""));
    }
    if let Some(folder) = Path::new(database).parent() {
        query.arg("--dbpath").arg(Path::new("/").join(folder));
    }
    query.args(["--query", "--file", "--queryformat", FORMAT, "--"]).timeout(TIME_LIMIT).env("LC_ALL", "C");
    query.args(wanted.names().map(|name| Path::new("/").join(OsStr::from_bytes(name))));
    // The command fails if a file has no owner, but still reports the others.
    let Ok(output) = query.output() else { return found };
    for line in output.stdout.lines() {
        let mut fields = line.splitn_str(3, "\t");
        let (Some(package), Some(digest), Some(name)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let Some(name) = name.strip_prefix(b"/").filter(|name| wanted.has(name)) else { continue };
        let digest = digest.to_str().ok().filter(|digest| !digest.is_empty()).map(str::to_owned);
        let package = package.to_str_lossy().into_owned();
        let file = PackagedFile { package, digest: digest.map(Digest::Hexadecimal) };
        found.entry(name.to_vec()).or_insert(file);
    }
    found
}

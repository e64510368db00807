//! The machine below a root: its distribution, package manager and init system, and whether its files are trusted.
//!
//! All files are read below the root. No symlink, absolute or not, leads out of it.
//!
//! ```
//! use holo_system::System;
//!
//! let root = tempfile::tempdir().unwrap();
//! std::fs::create_dir_all(root.path().join("usr/lib")).unwrap();
//! std::fs::write(root.path().join("usr/lib/os-release"), "ID=fedora\n").unwrap();
//! let system = System::new(root.path());
//! assert_eq!(system.os_release().ids(), ["fedora"]);
//! assert_eq!(system.package_manager().unwrap().name, "dnf");
//! ```

mod init;
pub mod offline;
mod package_files;
pub mod package_manager;
mod root;
pub mod transaction;
mod trust;

pub use init::{UNIT_DIRECTORIES, init_system, installed_init_system, is_run_by_openrc, is_run_by_systemd};
pub use offline::is_offline;
pub use package_files::{Digest, Diversion, DiversionsError, PackagedFile};
pub use package_manager::PackageManager;
pub use root::{Root, content, read_file};
pub use trust::{Fault, Trust, TrustError, Violation};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A system whose properties are read on first use.
#[derive(Clone, Debug)]
pub struct System {
    root: PathBuf,
    os_release: OnceLock<OsRelease>,
    package_manager: OnceLock<Option<&'static PackageManager>>,
}

impl System {
    /// Returns the system below a root. Nothing is read yet.
    #[must_use]
    pub fn new(root: &Path) -> System {
        System { root: root.to_owned(), os_release: OnceLock::new(), package_manager: OnceLock::new() }
    }

    /// Returns the content of os-release.
    pub fn os_release(&self) -> &OsRelease {
        self.os_release.get_or_init(|| OsRelease::read(&Root::new(&self.root)))
    }

    /// Returns how likely a package manager is that of this system; 0 if there is no evidence for it.
    pub fn rank(&self, manager: &PackageManager) -> u8 {
        manager.rank(&Root::new(&self.root), self.os_release())
    }

    /// Returns those of these files that packages own, by path. Paths are absolute below the root. All of them are
    /// looked up at once; files whose owner cannot be determined, and those that a removed package has left behind, are
    /// left out.
    #[must_use]
    pub fn packaged_files(&self, paths: &[PathBuf]) -> BTreeMap<PathBuf, PackagedFile> {
        let root = Root::new(&self.root);
        self.package_manager().map(|manager| package_files::find(manager, &root, paths)).unwrap_or_default()
    }

    /// Returns the configuration files that installed packages contain, each with the name of its package, whether they
    /// exist or not. Empty if the package manager is not dpkg.
    #[must_use]
    pub fn configuration_files(&self) -> BTreeMap<PathBuf, String> {
        package_files::configuration_files(&Root::new(&self.root))
    }

    /// Returns the configuration files that packages left behind when they were removed, each with the name of its package. Empty if the
    /// package manager is not dpkg.
    #[must_use]
    pub fn leftover_files(&self) -> BTreeMap<PathBuf, String> {
        package_files::leftovers(&Root::new(&self.root))
    }

    /// Returns the files that dpkg installs under other names. Empty if the package manager is not dpkg.
    ///
    /// # Errors
    /// If dpkg could not read their list either.
    pub fn diversions(&self) -> Result<Vec<Diversion>, DiversionsError> {
        package_files::diversions(&Root::new(&self.root))
    }

    /// Returns the package manager; `None` if it is unknown.
    pub fn package_manager(&self) -> Option<&'static PackageManager> {
        *self.package_manager.get_or_init(|| package_manager::of_system(&Root::new(&self.root), self.os_release()))
    }
}

/// The paths of os-release below the root; the first readable one is used.
pub const OS_RELEASE_PATHS: [&str; 2] = ["etc/os-release", "usr/lib/os-release"];

/// The content of os-release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsRelease {
    values: BTreeMap<String, String>,
}

impl OsRelease {
    /// Reads the file of the system below the root. If there is none, there are no values.
    #[must_use]
    pub fn read(root: &Root) -> OsRelease {
        OsRelease::parse(&OS_RELEASE_PATHS.iter().find_map(|path| root.text(path)).unwrap_or_default())
    }

    /// Parses the content of the file. If a key occurs several times, the last value is used, as in a shell.
    #[must_use]
    pub fn parse(text: &str) -> OsRelease {
        let mut values = BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let Some((key, value)) = line.split_once('=') else { continue };
            values.insert(key.to_owned(), unquoted(value));
        }
        OsRelease { values }
    }

    /// Returns the value of a key if it is not empty.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the IDs of the distributions from which this one derives, nearest first.
    pub fn id_like(&self) -> impl Iterator<Item = &str> {
        self.get("ID_LIKE").unwrap_or_default().split_whitespace()
    }

    /// Returns the ID of the distribution and those from which it derives, nearest first.
    #[must_use]
    pub fn ids(&self) -> Vec<&str> {
        self.get("ID").unwrap_or_default().split_whitespace().chain(self.id_like()).collect()
    }
}

/// Unquotes a value like a shell. If the quotes do not match, those at the ends are removed.
fn unquoted(value: &str) -> String {
    let words = shlex::split(value).map(|words| words.join(" "));
    words.unwrap_or_else(|| value.trim_matches(['"', '\'']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn values_are_read_as_a_shell_reads_them() {
        let text = "# x\nNAME=\"Open\\\"SUSE\"\nID=other\n ID='opensuse-leap' \nID_LIKE=\"suse  opensuse\"\nVERSION_ID=15.6\n\
                VERSION=\"15 'x'\"\nodd\nEMPTY=\n";
        let release = OsRelease::parse(text);
        assert_eq!(release.get("NAME"), Some("Open\"SUSE"));
        assert_eq!(release.ids(), ["opensuse-leap", "suse", "opensuse"]);
        assert_eq!((release.get("VERSION_ID"), release.get("VERSION")), (Some("15.6"), Some("15 'x'")));
        assert_eq!((release.get("EMPTY"), release.get("odd")), (None, None));
        assert_eq!(OsRelease::parse("ID=\"broken\n").ids(), ["broken"]);
        assert_eq!(OsRelease::parse("").ids(), [] as [&str; 0]);
    }

    #[test]
    fn an_absolute_link_is_resolved_inside_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let path = |path: &str| folder.path().join(path);
        fs::create_dir_all(path("usr/lib/variant")).unwrap();
        fs::create_dir_all(path("etc")).unwrap();
        symlink("/usr/lib/variant/os-release", path("etc/os-release")).unwrap();
        fs::write(path("usr/lib/variant/os-release"), "ID=arch\n").unwrap();
        assert_eq!(OsRelease::read(&Root::new(folder.path())).ids(), ["arch"]);
        // The symlink's target exists on the host, but not below the root.
        fs::remove_file(path("etc/os-release")).unwrap();
        symlink(std::env::current_exe().unwrap(), path("etc/os-release")).unwrap();
        fs::write(path("usr/lib/os-release"), "ID=alpine\n").unwrap();
        assert_eq!(OsRelease::read(&Root::new(folder.path())).ids(), ["alpine"]);
    }
}

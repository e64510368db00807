//! The package manager.

use crate::{OsRelease, Root};
use std::path::{Path, PathBuf};

/// The kind of the asset that packages need and that whatever configures their repositories provides: an up-to-date index.
pub const INDEX: &str = "package-index";

/// The files by which a package manager is recognized.
#[derive(Debug, PartialEq, Eq)]
pub struct PackageManager {
    /// Its name in definitions and facts.
    pub name: &'static str,
    /// `ID` or `ID_LIKE` of the distributions based on it.
    pub distributions: &'static [&'static str],
    /// The program to run.
    pub program: &'static str,
    /// The paths of its programs below the root.
    pub programs: &'static [&'static str],
    /// The paths of its database of installed packages below the root.
    pub databases: &'static [&'static str],
    /// The directories of its configuration below the root.
    pub configuration: &'static [&'static str],
    /// The files, and directories of files, below the root that name its repositories.
    pub sources: &'static [&'static str],
}

impl PackageManager {
    /// Returns the paths that change when packages are installed or removed, as seen from the root; directories have a
    /// trailing slash.
    pub fn watched(&self) -> impl Iterator<Item = String> {
        // Only pacman's database is a directory.
        let slash = if self.name == PACMAN.name { "/" } else { "" };
        self.databases.iter().map(move |path| format!("/{path}{slash}"))
    }
}

/// The paths of RPM's database below the root.
pub const RPM_DATABASES: &[&str] = &[
    "var/lib/rpm/rpmdb.sqlite",
    "usr/lib/sysimage/rpm/rpmdb.sqlite",
    "var/lib/rpm/Packages",
    "usr/lib/sysimage/rpm/Packages.db",
    "var/lib/rpm/Packages.db",
];

/// apt: Debian and its derivatives.
pub static APT: PackageManager = PackageManager {
    name: "apt",
    distributions: &["debian", "ubuntu"],
    program: "apt-get",
    programs: &["usr/bin/apt-get"],
    databases: &["var/lib/dpkg/status"],
    configuration: &["etc/apt"],
    sources: &["etc/apt/sources.list", "etc/apt/sources.list.d"],
};

/// dnf: Fedora and its derivatives.
pub static DNF: PackageManager = PackageManager {
    name: "dnf",
    distributions: &["fedora", "rhel", "centos"],
    program: "dnf",
    programs: &["usr/bin/dnf", "usr/bin/dnf5"],
    databases: RPM_DATABASES,
    configuration: &["etc/dnf"],
    sources: &["etc/yum.repos.d"],
};

/// zypper: SUSE.
pub static ZYPPER: PackageManager = PackageManager {
    name: "zypper",
    distributions: &["suse", "opensuse", "sles"],
    program: "zypper",
    programs: &["usr/bin/zypper"],
    databases: RPM_DATABASES,
    configuration: &["etc/zypp"],
    sources: &["etc/zypp/repos.d"],
};

/// pacman: Arch Linux and its derivatives.
pub static PACMAN: PackageManager = PackageManager {
    name: "pacman",
    distributions: &["arch", "archlinux", "manjaro"],
    program: "pacman",
    programs: &["usr/bin/pacman"],
    databases: &["var/lib/pacman/local"],
    configuration: &["etc/pacman.conf"],
    sources: &["etc/pacman.conf", "etc/pacman.d", "etc/pacman.d/repositories"],
};

/// apk: Alpine Linux.
pub static APK: PackageManager = PackageManager {
    name: "apk",
    distributions: &["alpine"],
    program: "apk",
    programs: &["sbin/apk", "usr/bin/apk", "usr/sbin/apk"],
    databases: &["lib/apk/db/installed", "usr/lib/apk/db/installed"],
    configuration: &["etc/apk"],
    sources: &["etc/apk/repositories"],
};

/// All package managers; the first of several equally likely ones is used.
pub static ALL: [&PackageManager; 5] = [&APT, &DNF, &ZYPPER, &PACMAN, &APK];

impl PackageManager {
    /// Returns true if the database of installed packages exists.
    #[must_use]
    pub fn has_database(&self, root: &Root) -> bool {
        self.databases.iter().any(|path| root.has(path))
    }

    /// Returns true if the package manager is configured.
    #[must_use]
    pub fn has_configuration(&self, root: &Root) -> bool {
        self.configuration.iter().any(|path| root.has(path))
    }

    /// Returns the paths, as seen from the root, that decide with everything below them which packages are available.
    pub fn configuration_paths(&self) -> impl Iterator<Item = PathBuf> {
        [self.configuration, self.sources].into_iter().flatten().map(|path| Path::new("/").join(path))
    }

    /// Returns true if a path, as seen from the root, may decide which packages are available.
    #[must_use]
    pub fn is_configured_by(&self, path: &Path) -> bool {
        self.configuration_paths().any(|configuration| path.starts_with(configuration))
    }

    /// Returns the paths by which it is recognized, besides the distribution.
    pub fn evidence(&self) -> impl Iterator<Item = &'static str> {
        [self.databases, self.programs, self.configuration].into_iter().flatten().copied()
    }

    fn has_program(&self, root: &Root) -> bool {
        self.programs.iter().any(|path| root.has(path))
    }

    /// Returns true if the distribution, or one from which it derives, is based on this package manager.
    fn is_native(&self, release: &OsRelease) -> bool {
        let is_of = |id: &str, family: &str| {
            id.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        release.ids().iter().any(|id| self.distributions.iter().any(|family| is_of(id, family)))
    }

    /// Returns how likely this is the package manager of a system: its distribution counts most, then its database of
    /// installed packages. 0 if there is no evidence for it.
    #[must_use]
    pub fn rank(&self, root: &Root, release: &OsRelease) -> u8 {
        let is_there = self.has_configuration(root) || self.has_program(root);
        4 * u8::from(self.is_native(release)) + 2 * u8::from(self.has_database(root)) + u8::from(is_there)
    }
}

/// Returns the package manager of a system: the distribution's own, otherwise one with installed packages, otherwise
/// one that is itself installed.
#[must_use]
pub fn of_system(root: &Root, release: &OsRelease) -> Option<&'static PackageManager> {
    let mut best = (0, None);
    for manager in ALL {
        let rank = manager.rank(root, release);
        if rank > best.0 {
            best = (rank, Some(manager));
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::tests::root;

    fn of(release: &str, paths: &[&str]) -> &'static str {
        let folder = root(paths);
        of_system(&Root::new(folder.path()), &OsRelease::parse(release)).map_or("", |manager| manager.name)
    }

    #[test]
    fn databases_are_watched_where_they_change() {
        let watched = |manager: &PackageManager| manager.watched().collect::<Vec<_>>();
        assert_eq!(watched(&APT), ["/var/lib/dpkg/status"]);
        assert_eq!(watched(&PACMAN), ["/var/lib/pacman/local/"]);
        assert!(watched(&DNF).contains(&"/var/lib/rpm/rpmdb.sqlite".to_owned()));
    }

    #[test]
    fn a_distribution_has_its_own_manager_whatever_else_is_installed() {
        let others = ["var/lib/pacman/local/x", "etc/dnf/dnf.conf", "lib/apk/db/installed", "usr/bin/zypper"];
        assert_eq!(of("ID=debian", &others), "apt");
        assert_eq!(of("ID=debian", &[]), "apt");
        assert_eq!(of("ID=fedora", &others), "dnf");
        assert_eq!(of("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", &[]), "dnf");
        assert_eq!(of("ID=opensuse-leap", &["usr/bin/apt-get"]), "zypper");
        assert_eq!(of("ID=alpine", &[]), "apk");
        assert_eq!(of("ID=manjaro\nID_LIKE=arch", &["usr/bin/apt-get"]), "pacman");
        assert_eq!(of("ID=arches", &[]), "");
    }

    #[test]
    fn otherwise_what_is_there_counts() {
        assert_eq!(of("", &[]), "");
        assert_eq!(of("ID=unittest", &[]), "");
        assert_eq!(of("", &["var/lib/dpkg/status", "etc/dnf/dnf.conf"]), "apt");
        assert_eq!(of("", &["var/lib/rpm/rpmdb.sqlite", "etc/zypp/zypp.conf"]), "zypper");
        assert_eq!(of("", &["var/lib/rpm/rpmdb.sqlite", "usr/bin/apt-get"]), "dnf");
        assert_eq!(of("", &["etc/pacman.conf"]), "pacman");
        assert_eq!(of("ID=unheard-of", &["usr/bin/dnf5", "usr/bin/pacman", "sbin/apk"]), "dnf");
    }
}

//! What a package manager has to be able to do, and which of them a system has.

use crate::model::{Installed, Item, Key, Mark, Offers, Request, Step};
use crate::providers::{apk::Apk, apt::Apt, dnf::Dnf, pacman::Pacman, zypper::Zypper};
use crate::system::{Problem, System};
use holo_plugin::process::{Captured, Program};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A package manager.
pub(crate) trait Provider: Sync {
    /// What definitions call it.
    fn name(&self) -> &'static str;

    /// How it is found out whether a system has it.
    fn traits(&self) -> Traits;

    /// Compares two versions.
    fn compare(&self, a: &str, b: &str) -> Ordering;

    /// Whether a version is the one that is asked for.
    fn matches(&self, asked: &str, version: &str) -> bool {
        self.compare(asked, version).is_eq()
    }

    /// Whether it could be given such a package.
    fn validate(&self, key: &Key) -> Result<(), String>;

    /// Which packages there are. Asks once for all.
    fn installed(&self, system: &System<'_>) -> Result<Installed, Problem>;

    /// In which versions these packages could be installed. Packages that are not known are left out.
    fn offers(&self, system: &System<'_>, keys: &[&Key]) -> Result<BTreeMap<Key, Offers>, Problem>;

    /// Fetches anew what it knows of packages.
    fn refresh(&self, system: &System<'_>) -> Result<Program, Problem>;

    /// What a request would do. Changes nothing.
    fn simulate(&self, system: &System<'_>, request: &Request) -> Result<Vec<Step>, Problem>;

    /// What does it: one program, unless the manager cannot do it in one.
    fn transaction(&self, system: &System<'_>, request: &Request) -> Result<Vec<Program>, Problem>;

    /// The marks that it knows.
    fn marks(&self) -> &'static [Mark];

    /// What gives packages a mark.
    fn mark(&self, system: &System<'_>, mark: Mark, items: &[Item]) -> Result<Program, Problem>;

    /// Whether a held package has to be released before it can be changed.
    fn releases_first(&self) -> bool {
        false
    }

    /// Whether a package that was asked for in a version is held by that.
    fn pins(&self) -> bool {
        false
    }

    /// Whether it failed only because someone else is at work.
    fn is_locked(&self, _: &Captured) -> bool {
        false
    }
}

/// By what a package manager is recognized.
pub(crate) struct Traits {
    /// `ID` or `ID_LIKE` of systems that are made with it.
    pub(crate) systems: &'static [&'static str],
    /// Where it keeps what is installed, below the root.
    pub(crate) databases: &'static [&'static str],
    /// What else is there if it is.
    pub(crate) configuration: &'static [&'static str],
    /// The program that it is.
    pub(crate) program: &'static str,
    /// Whether it makes its database where there is none, if only it is configured.
    pub(crate) begins_from_nothing: bool,
}

/// All package managers; where nothing else decides, the first.
pub(crate) static PROVIDERS: [&dyn Provider; 5] = [&Apt, &Dnf, &Zypper, &Pacman, &Apk];

/// The package manager of this name.
pub(crate) fn named(name: &str) -> Option<&'static dyn Provider> {
    PROVIDERS.into_iter().find(|provider| provider.name() == name)
}

/// The package manager that a system is made with: of a distribution's own that before all others, then one that has installed something.
pub(crate) fn of_system(root: &Path) -> Option<&'static dyn Provider> {
    let systems = systems(root);
    let mut best = (0, None);
    for provider in PROVIDERS {
        let rank = rank(&provider.traits(), &systems, root);
        if rank > best.0 {
            best = (rank, Some(provider));
        }
    }
    best.1
}

fn rank(traits: &Traits, systems: &[String], root: &Path) -> u8 {
    let is_own = systems.iter().any(|system| traits.systems.contains(&system.as_str()));
    let (is_used, is_configured) = (has_database(traits, root), has_configuration(traits, root));
    4 * u8::from(is_own) + 2 * u8::from(is_used) + u8::from(is_configured)
}

/// Whether there is a database of what is installed.
fn has_database(traits: &Traits, root: &Path) -> bool {
    traits.databases.iter().any(|path| root.join(path).exists())
}

fn has_configuration(traits: &Traits, root: &Path) -> bool {
    traits.configuration.iter().any(|path| root.join(path).exists())
}

/// Whether a provider can work on a root that is not the system's own.
pub(crate) fn can_work_on(provider: &dyn Provider, root: &Path) -> bool {
    let traits = provider.traits();
    let may_begin = traits.begins_from_nothing && has_configuration(&traits, root);
    (has_database(&traits, root) || may_begin) && find_program(traits.program).is_some()
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The system's `ID` and what it is like.
fn systems(root: &Path) -> Vec<String> {
    let text =
        ["etc/os-release", "usr/lib/os-release"].iter().find_map(|path| fs::read_to_string(root.join(path)).ok());
    let text = text.unwrap_or_default();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.map(|value| value.trim().trim_matches(['"', '\'']).to_owned()).unwrap_or_default()
    };
    let all = format!("{} {}", value("ID"), value("ID_LIKE"));
    all.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(files: &[(&str, &str)]) -> Option<&'static str> {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        of_system(root.path()).map(Provider::name)
    }

    #[test]
    fn a_distribution_has_its_own_manager_whatever_else_is_installed() {
        let debian = ("etc/os-release", "ID=debian\n");
        let others = [("var/lib/pacman/local/x", ""), ("etc/dnf/dnf.conf", ""), ("lib/apk/db/installed", "")];
        assert_eq!(system(&[&[debian][..], &others].concat()), Some("apt"));
        assert_eq!(system(&[debian]), Some("apt"));
        assert_eq!(system(&[("usr/lib/os-release", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n")]), Some("dnf"));
        assert_eq!(system(&[("etc/os-release", "ID=opensuse-leap\nID_LIKE=\"suse opensuse\"\n")]), Some("zypper"));
        assert_eq!(system(&[("etc/os-release", "ID=alpine\n")]), Some("apk"));
        assert_eq!(system(&[("etc/os-release", "ID=arch\n")]), Some("pacman"));
    }

    #[test]
    fn otherwise_what_is_there_counts() {
        assert_eq!(system(&[]), None);
        assert_eq!(system(&[("etc/os-release", "ID=unittest\n")]), None);
        assert_eq!(system(&[("var/lib/dpkg/status", ""), ("etc/dnf/dnf.conf", "")]), Some("apt"));
        assert_eq!(system(&[("var/lib/rpm/rpmdb.sqlite", ""), ("etc/zypp/zypp.conf", "")]), Some("zypper"));
        assert_eq!(system(&[("var/lib/rpm/rpmdb.sqlite", "")]), Some("dnf"));
        assert_eq!(system(&[("etc/pacman.conf", "")]), Some("pacman"));
    }
}

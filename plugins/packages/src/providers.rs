//! The interface to package managers, and the package managers, one module for each.

mod apk;
mod apt;
mod dnf;
mod pacman;
mod rpm;
mod zypper;

use crate::action::Action;
use crate::model::{Answers, Installed, Item, Key, KeyError, Mark, Offers, PackageError, Step, Transaction};
use crate::repository::{Repository, RepositoryFile};
use crate::system::System;
use holo_plugin::Host;
use holo_plugin::definitions::Invalid;
use holo_plugin::process::{Captured, Program};
use holo_plugin::provider::{Provider, Providers, UnknownProviderError};
use holo_plugin::system::{PackageManager, Root};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// All package managers. The first one is the default.
pub(crate) static ALL: Providers<dyn PackageProvider> =
    Providers::new(&[&apt::Apt, &dnf::Dnf, &zypper::Zypper, &pacman::Pacman, &apk::Apk]);

/// Returns the package manager of the system. In test mode, the first one is mocked if there is none.
pub(crate) fn for_host(host: &Host) -> Option<&'static dyn PackageProvider> {
    ALL.best(host).or_else(|| ALL.first().filter(|_| host.test_mode()))
}

/// Why a package or a repository has no package manager.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ProviderError {
    #[error("provider: {0}")]
    Unknown(#[from] UnknownProviderError),
    #[error("no package manager was found on this system")]
    None,
}

/// A package manager.
pub(crate) trait PackageProvider: Provider {
    /// Returns its name and the files by which it is detected.
    fn manager(&self) -> &'static PackageManager;

    /// Returns true if it creates its database on a root without one, provided that its configuration exists.
    fn begins_from_nothing(&self) -> bool {
        false
    }

    /// Compares two versions.
    fn compare(&self, a: &str, b: &str) -> Ordering;

    /// Returns true if a version is the requested one.
    fn matches(&self, asked: &str, version: &str) -> bool {
        self.compare(asked, version).is_eq()
    }

    /// Checks that the package manager supports packages with this key.
    fn validate(&self, key: &Key) -> Result<(), KeyError>;

    /// Returns the installed packages, with a single query.
    fn installed(&self, system: &System<'_>) -> Result<Installed, PackageError>;

    /// Returns the paths below the root, besides its databases, on which it rests which packages are installed, and that
    /// no transaction was interrupted. `None` if it rests on more than a few files.
    fn witnesses(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// Returns the installed packages that were installed on request: neither as a dependency, nor as part of the distribution's base
    /// system.
    fn chosen(&self, _: &System<'_>, installed: &Installed) -> Result<BTreeSet<Key>, PackageError> {
        let is_base = |key: &Key| self.base_names().contains(&key.name.as_str());
        Ok(installed.not_automatic().filter(|key| !is_base(key)).collect())
    }

    /// Returns the packages of the base system, for distributions where a list of names is all there is.
    fn base_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the native architecture if the package manager is multi-arch. Runs no program.
    fn native_arch(&self, _root: &Root) -> Option<String> {
        None
    }

    /// Returns the available versions of packages. Unknown packages are left out.
    fn offers(&self, system: &System<'_>, keys: &[&Key]) -> Result<BTreeMap<Key, Offers>, PackageError>;

    /// Returns the paths below the root that change whenever its index changes.
    fn index_files(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the names of all known packages. Downloads nothing.
    fn names(&self, system: &System<'_>) -> Result<BTreeSet<String>, PackageError>;

    /// Returns the names of the packages that provide this name. Downloads nothing.
    fn provided_by(&self, _: &System<'_>, _: &str) -> Result<BTreeSet<String>, PackageError> {
        Ok(BTreeSet::new())
    }

    /// Returns the program that refreshes the index.
    fn refresh(&self, system: &System<'_>) -> Result<Program, PackageError>;

    /// Returns the effects of a transaction. Changes nothing.
    fn simulate(&self, system: &System<'_>, transaction: &Transaction) -> Result<Vec<Step>, PackageError>;

    /// Returns the programs that carry out a transaction. It is one, unless the manager needs several.
    fn programs(&self, system: &System<'_>, transaction: &Transaction) -> Result<Vec<Program>, PackageError>;

    /// Returns the program that completes interrupted installations, if a transaction for these packages does not.
    fn complete(&self, _: &System<'_>) -> Result<Option<Program>, PackageError> {
        Ok(None)
    }

    /// Returns the program that downloads the packages of a transaction, if supported. Unlike a transaction, a download can be interrupted.
    fn download(&self, _: &System<'_>, _: &Transaction) -> Result<Option<Program>, PackageError> {
        Ok(None)
    }

    /// Returns the repairs that are needed after an interrupted transaction, as far as they are known before the first of them.
    fn interrupted(&self, _: &System<'_>) -> Result<Vec<Repair>, PackageError> {
        Ok(Vec::new())
    }

    /// Returns the marks that it supports.
    fn marks(&self) -> &'static [Mark];

    /// Returns the program that marks packages.
    fn mark(&self, system: &System<'_>, mark: Mark, items: &[Item]) -> Result<Program, PackageError>;

    /// Returns true if a held package must be released before it can be changed.
    fn releases_first(&self) -> bool {
        false
    }

    /// Returns true if packages start their daemons when they are installed.
    fn starts_daemons(&self) -> bool {
        false
    }

    /// Returns true if packages can recommend others, which may be left out.
    fn knows_recommendations(&self) -> bool {
        false
    }

    /// Returns the program that prints the name and the version of a package file.
    fn describe(&self, _: &Path) -> Option<Program> {
        None
    }

    /// Returns the suffix of package files.
    fn file_suffix(&self) -> &'static str {
        ""
    }

    /// Returns true if packages ask questions during installation.
    fn takes_answers(&self) -> bool {
        false
    }

    /// Returns the program that stores answers before a package asks.
    fn answer(&self, _: &System<'_>, _: &Key, _: &Answers) -> Option<Program> {
        None
    }

    /// Returns true if installing a requested version also holds the package.
    fn pins(&self) -> bool {
        false
    }

    /// Returns the files of a repository. Runs no program.
    ///
    /// # Errors The key of the definition that the manager does not support.
    fn repository(&self, _: &Repository) -> Result<Vec<RepositoryFile>, Invalid> {
        let why = "has no file for each repository; declare its list of repositories as a file";
        Err(Invalid::new("name", format!("{} {why}", self.name())))
    }

    /// Returns the files that its repositories need.
    fn repository_needs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the reason why the manager would ignore the files of a repository, if any.
    fn repository_obstacle(&self, _: &Root) -> Option<String> {
        None
    }

    /// Returns the program that makes the manager trust the key of a repository, where the files alone do not.
    fn trust(&self, _: &System<'_>, _: &Repository) -> Option<Program> {
        None
    }

    /// Returns true if it failed for a reason that does not depend on the package, such as a network that is down.
    fn is_general(&self, captured: &Captured) -> bool {
        says_general(&String::from_utf8_lossy(&captured.stderr))
    }

    /// Returns true if it failed only because another process has locked it.
    fn is_locked(&self, _: &Captured) -> bool {
        false
    }
}

/// The repair of an interrupted package manager.
pub(crate) struct Repair {
    /// The message that describes the problem and the repair.
    pub(crate) said: String,
    /// The command of the repair, as a person would enter it.
    pub(crate) command: String,
    /// The packages that it installs and removes.
    pub(crate) steps: Vec<Step>,
    pub(crate) by: RepairBy,
}

impl Repair {
    /// Returns a message, followed by the packages that the repair installs and removes.
    pub(crate) fn with_actions(&self, message: &str, words: fn(&Action) -> String) -> String {
        let action = |step: &Step| {
            let name = step.key().to_string();
            match (step.from.as_deref(), step.to.as_deref()) {
                (from, None) => Action::remove(&name, from, false),
                (None, to) => Action::install(&name, to),
                (Some(from), Some(to)) => Action::replace(&name, from, to, false),
            }
        };
        let actions: Vec<String> = self.steps.iter().map(|step| words(&action(step))).collect();
        if actions.is_empty() { message.to_owned() } else { format!("{message}: {}", actions.join(", ")) }
    }
}

/// How a repair is made.
pub(crate) enum RepairBy {
    /// By running a program of the package manager.
    Running(Box<Program>),
    /// By removing a file that was left behind.
    Removing(PathBuf),
}

/// Returns how well a package manager fits a host, or `None` if it does not.
pub(crate) fn rank(manager: &PackageManager, host: &Host) -> Option<u8> {
    Some(host.system().rank(manager)).filter(|rank| *rank > 0)
}

/// Returns true if the text reports a problem of the machine or its network.
fn says_general(text: &str) -> bool {
    let signs = [
        "No space left on device",
        "Read-only file system",
        "Temporary failure resolving",
        "Temporary failure in name resolution",
        "Could not resolve host",
        "Network is unreachable",
        "Unable to connect to",
        "Couldn't connect to server",
        "Connection timed out",
        "Connection refused",
    ];
    signs.iter().any(|sign| text.contains(sign))
}

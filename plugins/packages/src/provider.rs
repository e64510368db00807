//! The interface to a package manager.

use crate::error::{KeyError, PackageError};
use crate::model::{Answers, IndexPaths, Installed, Item, Key, Mark, Offers, Step, Transaction};
use crate::repository::{Repository, RepositoryFile};
use crate::system::System;
use holo_plugin::Host;
use holo_plugin::definitions::Invalid;
use holo_plugin::process::{Captured, Program};
use holo_plugin::provider::{Provider, UnknownProviderError};
use holo_plugin::system::{PackageManager, Root};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The reason why a package or repository has no manager.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ProviderError {
    #[error("provider: {0}")]
    Unknown(#[from] UnknownProviderError),
    #[error("no package manager was found on this system")]
    None,
}

/// A package manager.
pub(crate) trait PackageProvider: Provider {
    /// Its name, and its traces on a system.
    fn manager(&self) -> &'static PackageManager;

    /// Returns whether it makes its database where there is none, if only it is configured.
    fn begins_from_nothing(&self) -> bool {
        false
    }

    /// Compares two versions.
    fn compare(&self, a: &str, b: &str) -> Ordering;

    /// Returns true if a version is the one that is asked for.
    fn matches(&self, asked: &str, version: &str) -> bool {
        self.compare(asked, version).is_eq()
    }

    /// Checks that the package manager can have such a package.
    fn validate(&self, key: &Key) -> Result<(), KeyError>;

    /// Returns the installed packages. Asks once for all.
    fn installed(&self, system: &System<'_>) -> Result<Installed, PackageError>;

    /// Returns which of the installed packages somebody asked for: they are not there for others alone, and not on every system of the
    /// distribution.
    fn chosen(&self, _: &System<'_>, installed: &Installed) -> Result<BTreeSet<Key>, PackageError> {
        let is_base = |key: &Key| self.base_names().contains(&key.name.as_str());
        Ok(installed.not_automatic().filter(|key| !is_base(key)).collect())
    }

    /// Returns the packages by which the distribution calls its base, where their names are all that tells.
    fn base_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// The architecture of packages that are named without one, where a name means those only. Asks nobody.
    fn native_arch(&self, _root: &Root) -> Option<String> {
        None
    }

    /// In which versions these packages could be installed. Packages that are not known are left out.
    fn offers(&self, system: &System<'_>, keys: &[&Key]) -> Result<BTreeMap<Key, Offers>, PackageError>;

    /// The traces of its index.
    fn index_paths(&self) -> IndexPaths {
        IndexPaths { made: &[], sources: &[] }
    }

    /// Returns the names of all packages that it knows. Fetches nothing.
    fn names(&self, system: &System<'_>) -> Result<BTreeSet<String>, PackageError>;

    /// Fetches anew what it knows of packages.
    fn refresh(&self, system: &System<'_>) -> Result<Program, PackageError>;

    /// Returns the effects that a transaction would have. Changes nothing.
    fn simulate(&self, system: &System<'_>, transaction: &Transaction) -> Result<Vec<Step>, PackageError>;

    /// Returns the programs that carry out a transaction: one, unless the manager cannot do it in one.
    fn programs(&self, system: &System<'_>, transaction: &Transaction) -> Result<Vec<Program>, PackageError>;

    /// Returns the program that completes installations which were interrupted, if a transaction for these packages does not.
    fn complete(&self, _: &System<'_>) -> Result<Option<Program>, PackageError> {
        Ok(None)
    }

    /// Returns the program that fetches what a transaction needs, if that is possible: fetching can be cut off, a transaction cannot.
    fn download(&self, _: &System<'_>, _: &Transaction) -> Result<Option<Program>, PackageError> {
        Ok(None)
    }

    /// Returns the repair for what is left of a transaction that was cut off, if there is anything.
    fn interrupted(&self, _: &System<'_>) -> Result<Option<Repair>, PackageError> {
        Ok(None)
    }

    /// The marks that it knows.
    fn marks(&self) -> &'static [Mark];

    /// Returns the program that gives packages a mark.
    fn mark(&self, system: &System<'_>, mark: Mark, items: &[Item]) -> Result<Program, PackageError>;

    /// Returns true if a held package has to be released before it can be changed.
    fn releases_first(&self) -> bool {
        false
    }

    /// Returns true if packages can recommend others, which may be left out.
    fn knows_recommendations(&self) -> bool {
        false
    }

    /// Returns the program that says the name and the version of the package in a file.
    fn describe(&self, _: &Path) -> Option<Program> {
        None
    }

    /// The end of the names of files that have packages.
    fn file_suffix(&self) -> &'static str {
        ""
    }

    /// Returns true if packages ask questions when they are installed.
    fn takes_answers(&self) -> bool {
        false
    }

    /// Returns the program that keeps answers for when a package asks.
    fn answer(&self, _: &System<'_>, _: &Key, _: &Answers) -> Option<Program> {
        None
    }

    /// Returns true if a package that was asked for in a version is held by that.
    fn pins(&self) -> bool {
        false
    }

    /// Returns the files that a repository is made of. Asks nobody.
    ///
    /// # Errors
    /// The key of the definition that the manager has no use for.
    fn repository(&self, _: &Repository) -> Result<Vec<RepositoryFile>, Invalid> {
        let why = "has no file for each repository; declare its list of repositories as a file";
        Err(Invalid::new("name", format!("{} {why}", self.name())))
    }

    /// The files that its repositories need.
    fn repository_needs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the reason why the manager would not see a repository's files, if there is one.
    fn repository_obstacle(&self, _: &Root) -> Option<String> {
        None
    }

    /// Returns the program that has the manager trust the key of a repository, where the repository's files are not enough for that.
    fn trust(&self, _: &System<'_>, _: &Repository) -> Option<Program> {
        None
    }

    /// Returns true if it failed for a reason that is no single package's fault, such as a network that is down.
    fn is_general(&self, captured: &Captured) -> bool {
        says_general(&String::from_utf8_lossy(&captured.stderr))
    }

    /// Returns true if it failed only because another process is at work.
    fn is_locked(&self, _: &Captured) -> bool {
        false
    }
}

/// The repair of an interrupted package manager.
pub(crate) struct Repair {
    /// The words for what was found and done.
    pub(crate) said: String,
    pub(crate) by: RepairBy,
}

/// The means of a repair.
pub(crate) enum RepairBy {
    /// A program of the package manager.
    Running(Box<Program>),
    /// A file that was left behind goes.
    Removing(PathBuf),
}

/// Returns how well a package manager fits a host.
pub(crate) fn rank(manager: &PackageManager, host: &Host) -> Option<u8> {
    Some(host.system().rank(manager)).filter(|rank| *rank > 0)
}

/// Returns true if the text says that something is wrong with the machine or its network.
pub(crate) fn says_general(text: &str) -> bool {
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

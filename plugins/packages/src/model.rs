//! The model that all package managers share: installed and available packages, transactions, and their errors.

use crate::repository::masked;
use holo_plugin::process::{Captured, Program};
use holo_plugin::{Output, Stream};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::path::PathBuf;

/// The key of a package: its name, and its architecture if it is not the native one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) arch: Option<String>,
}

impl Key {
    /// Returns the unique name of the package. It includes the architecture if `native` is set, which means that the package manager is
    /// multi-arch.
    pub(crate) fn full_name(&self, native: Option<&str>) -> String {
        let own = |arch: &&str| native.is_none() || !ANY_ARCH.contains(arch) && *arch != "native";
        match self.arch.as_deref().filter(own).or(native) {
            Some(arch) => format!("{}:{arch}", self.name),
            None => self.name.clone(),
        }
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.arch {
            Some(arch) => write!(f, "{}:{arch}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// An installed instance of a package. A package can have several: of several architectures, or several versions side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) version: String,
    pub(crate) arch: String,
    pub(crate) status: Status,
    /// True if the package is on hold.
    pub(crate) held: bool,
    /// True if it was installed as a dependency.
    pub(crate) automatic: bool,
}

impl Instance {
    /// Returns true if the package counts as installed, even if the installation is incomplete.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self.status, Status::Installed | Status::Unconfigured | Status::Partial)
    }

    /// Returns true if the package is ready for use.
    pub(crate) fn is_complete(&self) -> bool {
        self.status == Status::Installed
    }
}

/// How far a package is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Ready for use.
    Installed,
    /// Unpacked but not configured, or with pending triggers.
    Unconfigured,
    /// Installed partially, because the installation or upgrade was interrupted.
    Partial,
    /// Removed partially, because the removal was interrupted.
    Removing,
    /// Removed except for its configuration files.
    Leftovers,
}

/// All installed packages of a system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Installed {
    pub(crate) packages: BTreeMap<String, Vec<Instance>>,
    /// The native architecture, if the package manager is multi-arch.
    pub(crate) native: Option<String>,
    /// The foreign architectures that the package manager is configured for, if it is multi-arch.
    pub(crate) foreign: BTreeSet<String>,
}

/// The architectures of packages that are independent of it.
const ANY_ARCH: [&str; 3] = ["all", "any", "noarch"];

impl Installed {
    /// Returns the instances of a package.
    pub(crate) fn instances(&self, key: &Key) -> Vec<&Instance> {
        let arch = key.arch.as_deref().or(self.native.as_deref());
        let fits = |instance: &&Instance| {
            arch.is_none_or(|arch| instance.arch == arch || ANY_ARCH.contains(&instance.arch.as_str()))
        };
        self.packages.get(&key.name).into_iter().flatten().filter(fits).collect()
    }

    /// Returns the instances of a package that count as installed.
    pub(crate) fn present(&self, key: &Key) -> Vec<&Instance> {
        let mut instances = self.instances(key);
        instances.retain(|instance| instance.is_there());
        instances
    }

    /// Returns the architecture of a key if the package manager is not configured for it.
    pub(crate) fn unknown_arch<'k>(&self, key: &'k Key) -> Option<&'k str> {
        let arch = key.arch.as_deref().filter(|arch| *arch != "native" && !ANY_ARCH.contains(arch))?;
        let is_known = self.native.as_deref().is_none_or(|native| native == arch) || self.foreign.contains(arch);
        (!is_known).then_some(arch)
    }

    /// Returns the packages with an instance that was not installed as a dependency.
    pub(crate) fn not_automatic(&self) -> impl Iterator<Item = Key> + '_ {
        self.packages.iter().flat_map(move |(name, instances)| {
            let asked = instances.iter().filter(|instance| instance.is_there() && !instance.automatic);
            asked.map(move |instance| self.key(name, instance))
        })
    }

    /// Returns the key of an instance. It has an architecture if the name alone would refer to another one.
    pub(crate) fn key(&self, name: &str, instance: &Instance) -> Key {
        let is_foreign = |native: &String| *native != instance.arch && !ANY_ARCH.contains(&instance.arch.as_str());
        let arch = self.native.as_ref().filter(|native| is_foreign(native)).map(|_| instance.arch.clone());
        Key { name: name.to_owned(), arch }
    }

    /// Adds an instance.
    pub(crate) fn add(&mut self, name: &str, instance: Instance) {
        self.packages.entry(name.to_owned()).or_default().push(instance);
    }

    /// Returns true if any instance of a package is held.
    pub(crate) fn is_held(&self, name: &str) -> bool {
        self.packages.get(name).into_iter().flatten().any(|instance| instance.held)
    }
}

/// The available versions of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offers {
    /// The version that is installed by default.
    pub(crate) candidate: Option<String>,
    /// All available versions.
    pub(crate) versions: Vec<String>,
}

/// The answers to debconf questions of a package.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Answers {
    /// The answers by the names of the questions.
    pub(crate) all: BTreeMap<String, String>,
    /// True if the answers are secret.
    pub(crate) sensitive: bool,
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all.keys()).finish()
    }
}

/// A package file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackageFile {
    pub(crate) path: PathBuf,
    pub(crate) version: String,
}

impl PackageFile {
    /// Returns the version of the file as the only available one.
    pub(crate) fn offers(&self) -> Offers {
        Offers { candidate: Some(self.version.clone()), versions: vec![self.version.clone()] }
    }
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) kind: Kind,
    pub(crate) items: Vec<Item>,
    /// True if it may downgrade packages.
    pub(crate) may_downgrade: bool,
    /// True if it may change held packages.
    pub(crate) changes_held: bool,
    /// True if it reinstalls packages of the same version.
    pub(crate) reinstalls: bool,
    /// True if it may remove packages that are not among the items. The simulation has approved that.
    pub(crate) may_remove: bool,
    /// Whether it installs recommended packages, or `None` for the default of the package manager.
    pub(crate) recommends: Option<bool>,
    /// True if it removes packages that are no longer needed.
    pub(crate) cleans: bool,
    /// Operations that a simulation takes as already done. Empty for a transaction that is carried out.
    pub(crate) given: Vec<(Kind, Item)>,
    /// The names of packages that must not come along, for apt and dnf, which can leave out recommended packages, or choose among alternatives.
    pub(crate) without: Vec<String>,
}

impl Transaction {
    /// Returns the items that are installed and those that are removed, including the given ones.
    pub(crate) fn coming_and_going(&self) -> (Vec<&Item>, Vec<&Item>) {
        let own = self.items.iter().map(|item| (self.kind, item));
        let all = own.chain(self.given.iter().map(|(kind, item)| (*kind, item)));
        let (coming, going): (Vec<_>, Vec<_>) = all.partition(|(kind, _)| *kind == Kind::Install);
        (coming.into_iter().map(|(_, item)| item).collect(), going.into_iter().map(|(_, item)| item).collect())
    }
}

/// The kind of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Installs its items in the given versions, whether or not others are installed.
    Install,
    /// Removes its items.
    Remove,
    /// Removes its items and their configuration.
    Purge,
}

/// A package of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) key: Key,
    /// The version to install, or the installed one.
    pub(crate) version: Option<String>,
    /// True if the version was requested, and is not just the candidate.
    pub(crate) exactly: bool,
    /// The package file, if the package does not come from a repository.
    pub(crate) file: Option<PathBuf>,
}

/// The effect of a transaction on a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// The architecture, if the package manager is multi-arch and it is not the native one.
    pub(crate) arch: Option<String>,
    /// The installed version, if it is known and will be replaced or removed.
    pub(crate) from: Option<String>,
    /// The version after the transaction.
    pub(crate) to: Option<String>,
}

impl Step {
    pub(crate) fn key(&self) -> Key {
        Key { name: self.name.clone(), arch: self.arch.clone() }
    }
}

/// A mark of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// On hold.
    Held,
    /// Not on hold any more.
    Released,
    /// Installed manually.
    ByHand,
    /// Installed as a dependency.
    Automatic,
}

/// The maximum number of output lines shown of a package manager that failed.
const LINES_SHOWN: usize = 20;

/// An error about packages.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{summary}")]
pub(crate) struct PackageError {
    /// The error in one line.
    pub(crate) summary: String,
    /// The last lines of the package manager's output.
    pub(crate) lines: Vec<String>,
    /// True if the cause does not depend on the package, so that all further operations would fail too.
    pub(crate) is_general: bool,
}

impl PackageError {
    pub(crate) fn new(summary: impl Into<String>) -> PackageError {
        PackageError { summary: summary.into(), lines: Vec::new(), is_general: false }
    }

    /// Creates the error of a program that failed.
    pub(crate) fn from_program(program: &Program, failure: &str, captured: &Captured) -> PackageError {
        let lines = captured.ended.last_lines(LINES_SHOWN).iter().map(|line| shown(line)).collect();
        let is_general = captured.ended.timed_out.is_some();
        PackageError { summary: format!("{}: {failure}", name(program)), lines, is_general }
    }

    /// Returns the error for packages that were not attempted because of this one.
    pub(crate) fn for_others(&self) -> PackageError {
        PackageError {
            summary: format!("{}, so no further changes were attempted", self.summary),
            lines: Vec::new(),
            ..self.clone()
        }
    }

    /// Prints the error.
    pub(crate) fn tell(&self, output: &mut Output<'_>) {
        for line in &self.lines {
            output.relay(Stream::Stderr, format!("{line}\n").as_bytes());
        }
        output.error(&self.summary);
    }
}

/// Sanitizes a line of a package manager's output. It may contain a password in a URL, and maintainer scripts may print control characters.
pub(crate) fn shown(line: &str) -> String {
    let harmless = |letter: char| {
        let is_harmless = !letter.is_control() || letter == '\t';
        if is_harmless { letter.to_string() } else { letter.escape_default().to_string() }
    };
    masked(line.trim_end_matches('\r')).chars().map(harmless).collect()
}

/// Why a package manager cannot have a package with this key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("{key} is not a valid {of} package name{}", why.map(|why| format!(": {why}")).unwrap_or_default())]
    Name { key: String, of: &'static str, why: Option<&'static str> },
    #[error("{key}: {manager} has packages for one architecture only, not for {arch}")]
    Arch { key: String, manager: &'static str, arch: String },
}

/// Returns the name of a program for messages.
pub(crate) fn name(program: &Program) -> String {
    program.to_string().split(' ').next().unwrap_or_default().to_owned()
}

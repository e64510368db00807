//! The model of package managers: packages that are installed, packages that are offered, and requests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::path::PathBuf;

/// The key of a package: a name, and an architecture if it is not the system's own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) arch: Option<String>,
}

impl Key {
    /// The one name of the package: with its architecture, where its manager has several. `native` is the system's own then.
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

/// An installed instance of a package. There may be several: of other architectures, or versions side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) version: String,
    pub(crate) arch: String,
    pub(crate) status: Status,
    /// True if it was asked to stay as it is.
    pub(crate) held: bool,
    /// True if it is there because others needed it.
    pub(crate) automatic: bool,
}

impl Instance {
    /// Returns true if the package counts as installed, whether or not its installation was completed.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self.status, Status::Installed | Status::Unconfigured | Status::Partial)
    }

    /// Returns true if it is ready for use.
    pub(crate) fn is_complete(&self) -> bool {
        self.status == Status::Installed
    }
}

/// The extent to which a package is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Ready for use.
    Installed,
    /// Unpacked, but not configured, or with triggers that are pending.
    Unconfigured,
    /// Some of its files, as its installation or upgrade was interrupted.
    Partial,
    /// Some of its files, as its removal was interrupted.
    Removing,
    /// Only configuration files.
    Leftovers,
}

/// All packages that a system has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Installed {
    pub(crate) packages: BTreeMap<String, Vec<Instance>>,
    /// The architecture that a name without one means, where that makes a difference.
    pub(crate) native: Option<String>,
    /// The other architectures that the package manager is configured for, where that makes a difference.
    pub(crate) foreign: BTreeSet<String>,
}

/// The architectures of packages that fit any.
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

    /// Returns the architecture of a package for which the package manager is not configured.
    pub(crate) fn unknown_arch<'k>(&self, key: &'k Key) -> Option<&'k str> {
        let arch = key.arch.as_deref().filter(|arch| *arch != "native" && !ANY_ARCH.contains(arch))?;
        let is_known = self.native.as_deref().is_none_or(|native| native == arch) || self.foreign.contains(arch);
        (!is_known).then_some(arch)
    }

    /// Returns the packages of which an instance is there for its own sake, as they are called on this system.
    pub(crate) fn not_automatic(&self) -> impl Iterator<Item = Key> + '_ {
        self.packages.iter().flat_map(move |(name, instances)| {
            let asked = instances.iter().filter(|instance| instance.is_there() && !instance.automatic);
            asked.map(move |instance| self.key(name, instance))
        })
    }

    /// Returns the name of an instance: with its architecture where the name alone means another one.
    pub(crate) fn key(&self, name: &str, instance: &Instance) -> Key {
        let is_foreign = |native: &String| *native != instance.arch && !ANY_ARCH.contains(&instance.arch.as_str());
        let arch = self.native.as_ref().filter(|native| is_foreign(native)).map(|_| instance.arch.clone());
        Key { name: name.to_owned(), arch }
    }

    /// Takes note of an instance.
    pub(crate) fn add(&mut self, name: &str, instance: Instance) {
        self.packages.entry(name.to_owned()).or_default().push(instance);
    }

    /// Returns true if any instance of a package is held.
    pub(crate) fn is_held(&self, name: &str) -> bool {
        self.packages.get(name).into_iter().flatten().any(|instance| instance.held)
    }
}

/// The versions in which a package could be installed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offers {
    /// The one that would be installed if nobody asked for another.
    pub(crate) candidate: Option<String>,
    /// All of them.
    pub(crate) versions: Vec<String>,
}

/// The traces of an index, below the root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexPaths {
    /// Changed whenever the index has changed.
    pub(crate) made: &'static [&'static str],
    /// Files, and directories of files, that say where the index is from.
    pub(crate) sources: &'static [&'static str],
}

/// The answers to what a package asks when it is installed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Answers {
    /// By the names of the questions.
    pub(crate) all: BTreeMap<String, String>,
    /// True if nobody may see them.
    pub(crate) sensitive: bool,
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all.keys()).finish()
    }
}

/// The package that is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackageFile {
    pub(crate) path: PathBuf,
    pub(crate) version: String,
}

impl PackageFile {
    /// Returns the versions that can be had.
    pub(crate) fn offers(&self) -> Offers {
        Offers { candidate: Some(self.version.clone()), versions: vec![self.version.clone()] }
    }
}

/// The packages of one transaction, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) kind: Kind,
    pub(crate) items: Vec<Item>,
    /// True if an item may become older.
    pub(crate) may_downgrade: bool,
    /// True if an item is held.
    pub(crate) changes_held: bool,
    /// True if items are installed again that are there in the same version.
    pub(crate) reinstalls: bool,
    /// True if packages that are not among the items are known to go, and may.
    pub(crate) may_remove: bool,
    /// True if packages come along that are only recommended; none for what the manager does by itself.
    pub(crate) recommends: Option<bool>,
    /// True if packages go too that nobody needs any more.
    pub(crate) cleans: bool,
    /// What is done before it: a simulation takes it as done. Empty for a transaction that is carried out.
    pub(crate) given: Vec<(Kind, Item)>,
}

impl Transaction {
    /// Returns the packages that come, and those that go, with what is done before.
    pub(crate) fn coming_and_going(&self) -> (Vec<&Item>, Vec<&Item>) {
        let own = self.items.iter().map(|item| (self.kind, item));
        let all = own.chain(self.given.iter().map(|(kind, item)| (*kind, item)));
        let (coming, going): (Vec<_>, Vec<_>) = all.partition(|(kind, _)| *kind == Kind::Install);
        (coming.into_iter().map(|(_, item)| item).collect(), going.into_iter().map(|(_, item)| item).collect())
    }
}

/// The effect of a transaction on its packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// They are installed in the version that is given, whatever is there.
    Install,
    /// They go.
    Remove,
    /// They go, and what was configured goes with them.
    Purge,
}

/// A package of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) key: Key,
    /// The version that shall be installed, or that is.
    pub(crate) version: Option<String>,
    /// True if the version was asked for, rather than just being the candidate.
    pub(crate) exactly: bool,
    /// The file that it comes from, if it is not from a repository.
    pub(crate) file: Option<PathBuf>,
}

/// The effect of a transaction on a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// The version that is there, if it is known and is not just kept beside the new one.
    pub(crate) from: Option<String>,
    /// The version that would be there.
    pub(crate) to: Option<String>,
}

/// A mark that a package can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// It stays as it is.
    Held,
    /// It does not any more.
    Released,
    /// It was asked for.
    ByHand,
    /// It is only there because others need it.
    Automatic,
}

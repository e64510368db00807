//! The state of a package before the first change.

use crate::model::{Installed, Key};
use crate::providers::PackageProvider;
use crate::wanted::{Ensure, Wanted};
use serde::{Deserialize, Serialize};

/// The recorded state of a package before the first change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Base {
    /// The name of the package manager that was used.
    pub(crate) provider: String,
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) arch: Option<String>,
    /// The installed version, even if its installation was incomplete, or `None` if it was not installed.
    pub(crate) version: Option<String>,
    /// True if the installation was incomplete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unfinished: bool,
    pub(crate) held: bool,
    pub(crate) automatic: bool,
    /// The names of packages that were installed along with it, if it was not installed before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) brought: Vec<String>,
}

impl Base {
    pub(crate) fn key(&self) -> Key {
        Key { name: self.name.clone(), arch: self.arch.clone() }
    }

    pub(crate) fn new(wanted: &Wanted, provider: &dyn PackageProvider, installed: &Installed) -> Base {
        let present = installed.present(&wanted.key);
        let newest = present.iter().max_by(|a, b| provider.compare(&a.version, &b.version));
        Base {
            provider: provider.name().to_owned(),
            name: wanted.key.name.clone(),
            arch: wanted.key.arch.clone(),
            version: newest.map(|instance| instance.version.clone()),
            unfinished: newest.is_some_and(|instance| !instance.is_complete()),
            held: present.iter().any(|instance| instance.held),
            automatic: newest.is_some_and(|instance| instance.automatic),
            brought: Vec::new(),
        }
    }

    /// Returns the desired state of an orphan: its original state, except that an installed version is not replaced.
    pub(crate) fn wanted(&self, id: &str) -> Wanted {
        let was_there = self.version.is_some();
        Wanted {
            id: id.to_owned(),
            key: self.key(),
            ensure: if was_there { Ensure::Present } else { Ensure::Absent },
            may_be_unfinished: self.unfinished,
            ours: Vec::new(),
            preferred: self.version.clone(),
            hold: was_there.then_some(self.held),
            automatic: was_there.then_some(self.automatic),
            is_orphan: true,
            timeout: None,
            recommends: None,
            refresh: None,
            brought: self.brought.clone(),
            answers: None,
            source: None,
            checksum: None,
            file: None,
            fetches: None,
            problem: None,
        }
    }
}

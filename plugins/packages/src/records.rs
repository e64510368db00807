//! Records of packages: their states before the first change, and the versions that a transaction is about to install, so that the plugin
//! recognizes its own work after a kill.

use crate::model::{Installed, Key};
use crate::providers::PackageProvider;
use crate::wanted::{Ensure, Wanted};
use holo_change::error::{PathError, Result};
use holo_change::{OnDisk, PathHandle, Tree};
use holo_plugin::Host;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

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

/// A file in the state directory. Each line contains the ID of a package, a tab, and the version.
const INTENDED: &str = ".intended";
/// Like `INTENDED`, but the version is preceded by the digest of the source.
const FETCHED: &str = ".fetched";

/// The recorded version of each package.
pub(crate) struct Intent {
    file: PathHandle,
    versions: BTreeMap<String, String>,
}

impl Intent {
    /// Reads the versions that earlier applies intended to install.
    pub(crate) fn open(host: &Host) -> Result<Intent> {
        Intent::read(host, INTENDED)
    }

    /// Reads the versions that earlier applies fetched.
    pub(crate) fn fetched(host: &Host) -> Result<Intent> {
        Intent::read(host, FETCHED)
    }

    fn read(host: &Host, name: &str) -> Result<Intent> {
        let file = Tree::open(host.state_dir())?.place(Path::new(name));
        let mut text = Vec::new();
        if let Some(mut open) = file.open_if_file()? {
            open.read_to_end(&mut text).map_err(|error| PathError::new("read", file.shown(), error))?;
        }
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        let versions = lines.map(|(id, version)| (id.to_owned(), version.to_owned())).collect();
        Ok(Intent { file, versions })
    }

    /// Returns the recorded version of a package.
    pub(crate) fn version(&self, id: &str) -> Option<&str> {
        self.versions.get(id).map(String::as_str)
    }

    /// Records versions by package ID, and removes the entries of packages without a version. The file is on disk when this returns.
    pub(crate) fn note<'a>(&mut self, about: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Result<()> {
        let before = self.versions.clone();
        for (id, version) in about {
            match version {
                Some(version) => drop(self.versions.insert(id.to_owned(), version.to_owned())),
                None => drop(self.versions.remove(id)),
            }
        }
        self.write(&before)
    }

    fn write(&self, before: &BTreeMap<String, String>) -> Result<()> {
        if self.versions == *before {
            return Ok(());
        }
        if self.versions.is_empty() {
            return self.file.remove();
        }
        let text: String = self.versions.iter().map(|(id, version)| format!("{id}\t{version}\n")).collect();
        self.file.replace(text.as_bytes(), 0o644, OnDisk::New)
    }
}

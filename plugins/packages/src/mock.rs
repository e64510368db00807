//! A mock package manager for test mode: every package is available, and the installed ones are stored in the state directory.

use crate::model::{Installed, Instance, Key, Kind, Mark, PackageError, Status, Transaction};
use holo_change::error::{PathError, Result as PathResult};
use holo_change::{OnDisk, PathHandle, Tree};
use holo_plugin::Host;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::path::Path;

/// The installed packages.
#[derive(Debug)]
pub(crate) struct Mock {
    file: PathHandle,
    /// The native architecture, which a name without architecture refers to.
    native: Option<String>,
    packages: BTreeMap<String, Entry>,
}

/// An installed package.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    arch: String,
    /// Empty if no version was requested.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    version: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    held: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    automatic: bool,
}

impl Mock {
    /// Opens the mock of the named package manager. `native` is the architecture of names without one.
    pub(crate) fn open(host: &Host, manager: &str, native: Option<String>) -> Result<Mock, PackageError> {
        read(host, manager, native).map_err(|error| PackageError::new(error.to_string()))
    }

    pub(crate) fn installed(&self) -> Installed {
        let mut installed = Installed { native: self.native.clone(), ..Installed::default() };
        let arch = |entry: &Entry| Some(&entry.arch).filter(|arch| !arch.is_empty()).or(self.native.as_ref()).cloned();
        for entry in self.packages.values() {
            let instance = Instance {
                version: entry.version.clone(),
                arch: arch(entry).unwrap_or_else(|| "all".to_owned()),
                status: Status::Installed,
                held: entry.held,
                automatic: entry.automatic,
            };
            installed.add(&entry.name, instance);
        }
        installed
    }

    /// Returns the key of a package in the stored map: its name, with the architecture if it is not the native one.
    fn id(&self, key: &Key) -> String {
        let native = self.native.as_deref();
        let usual = Key { name: key.name.clone(), arch: None };
        if key.full_name(native) == usual.full_name(native) { usual.name } else { key.to_string() }
    }

    /// Applies a transaction to the stored packages.
    pub(crate) fn transact(&mut self, transaction: &Transaction) -> Result<(), PackageError> {
        let mut packages = self.packages.clone();
        for item in &transaction.items {
            let id = self.id(&item.key);
            let arch = item.key.arch.clone().filter(|_| id != item.key.name);
            if transaction.kind == Kind::Install {
                let entry = packages.entry(id).or_default();
                entry.name.clone_from(&item.key.name);
                entry.arch = arch.unwrap_or_default();
                entry.version = item.version.clone().unwrap_or_default();
            } else {
                packages.remove(&id);
            }
        }
        self.keep(packages)
    }

    pub(crate) fn mark(&mut self, mark: Mark, items: &[crate::model::Item]) -> Result<(), PackageError> {
        let mut packages = self.packages.clone();
        for item in items {
            let Some(entry) = packages.get_mut(&self.id(&item.key)) else { continue };
            match mark {
                Mark::Held => entry.held = true,
                Mark::Released => entry.held = false,
                Mark::ByHand => entry.automatic = false,
                Mark::Automatic => entry.automatic = true,
            }
        }
        self.keep(packages)
    }

    /// Stores the packages. Keeps the previous ones if the file cannot be written.
    fn keep(&mut self, packages: BTreeMap<String, Entry>) -> Result<(), PackageError> {
        self.write(&packages).map_err(|error| PackageError::new(error.to_string()))?;
        self.packages = packages;
        Ok(())
    }

    fn write(&self, packages: &BTreeMap<String, Entry>) -> PathResult<()> {
        if packages.is_empty() {
            return self.file.remove();
        }
        let failed = |error| PathError::new("write", self.file.shown(), io::Error::from(error));
        let mut text = serde_json::to_vec_pretty(packages).map_err(failed)?;
        text.push(b'\n');
        self.file.replace(&text, 0o644, OnDisk::Whole)
    }
}

fn read(host: &Host, manager: &str, native: Option<String>) -> PathResult<Mock> {
    let file = Tree::open(host.state_dir())?.place(Path::new(&format!("mock-{manager}.json")));
    let failed = |error| PathError::new("read", file.shown(), io::Error::from(error));
    let packages = match file.open_if_file()? {
        Some(opened) => serde_json::from_reader(BufReader::new(opened)).map_err(failed)?,
        None => BTreeMap::new(),
    };
    Ok(Mock { file, native, packages })
}

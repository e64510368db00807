//! Stands for a package manager where there is none, in test mode: whatever is asked for can be had, and it is remembered what is there.

use crate::model::{Installed, Instance, Kind, Mark, Request, Status};
use crate::system::Problem;
use holo_plugin::Host;
use holo_plugin::error::{PathError, reason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// What is installed, as it is remembered in the plugin's state.
#[derive(Debug)]
pub(crate) struct Mock {
    path: PathBuf,
    packages: BTreeMap<String, Entry>,
}

/// A package, by its name and architecture.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    arch: String,
    /// Empty if any would have done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    version: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    held: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    automatic: bool,
}

impl Mock {
    pub(crate) fn open(host: &Host, provider: &str) -> Result<Mock, Problem> {
        let path = host.state_dir().join(format!("mock-{provider}.json"));
        let packages = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| error.to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(reason(&error)),
        };
        let packages = packages.map_err(|error| Problem::new(format!("read {}: {error}", path.display())))?;
        Ok(Mock { path, packages })
    }

    pub(crate) fn installed(&self) -> Installed {
        let mut installed = Installed::default();
        for entry in self.packages.values() {
            let instance = Instance {
                version: entry.version.clone(),
                arch: if entry.arch.is_empty() { "all".to_owned() } else { entry.arch.clone() },
                status: Status::Installed,
                held: entry.held,
                automatic: entry.automatic,
            };
            installed.add(&entry.name, instance);
        }
        installed
    }

    /// Does what was asked for, to what is remembered.
    pub(crate) fn transact(&mut self, request: &Request) -> Result<(), Problem> {
        for item in &request.items {
            let id = item.key.to_string();
            if request.kind == Kind::Install {
                let entry = self.packages.entry(id).or_default();
                entry.name.clone_from(&item.key.name);
                entry.arch = item.key.arch.clone().unwrap_or_default();
                entry.version = item.version.clone().unwrap_or_default();
            } else {
                self.packages.remove(&id);
            }
        }
        self.keep()
    }

    pub(crate) fn mark(&mut self, mark: Mark, items: &[crate::model::Item]) -> Result<(), Problem> {
        for item in items {
            let Some(entry) = self.packages.get_mut(&item.key.to_string()) else { continue };
            match mark {
                Mark::Held => entry.held = true,
                Mark::Released => entry.held = false,
                Mark::ByHand => entry.automatic = false,
                Mark::Automatic => entry.automatic = true,
            }
        }
        self.keep()
    }

    fn keep(&self) -> Result<(), Problem> {
        let failed = |error: std::io::Error| Problem::new(PathError::new("write", &self.path, error).to_string());
        if self.packages.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(error)),
                _ => Ok(()),
            };
        }
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut text = serde_json::to_vec_pretty(&self.packages).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        fs::write(&self.path, text).map_err(failed)
    }
}

//! Previews: the paths of a tree that the installation of a version would change.

use super::TreeError;
use super::location::TreeLocation;
use super::owned_tree::OwnedTree;
use super::owners::PathOwners;
use super::plan::Plan;
use crate::claims::Claims;
use crate::error::Result;
use crate::manifest::ManifestEntry;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A path that a version would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingEntry {
    /// The canonical path.
    pub path: PathBuf,
    /// The current entry; `None` if the path does not exist, or is a special file.
    pub before: Option<ManifestEntry>,
    /// The resulting entry.
    pub after: Option<ManifestEntry>,
}

impl OwnedTree {
    /// Returns the paths that the installation of a version with these entries would change, including those with
    /// manual changes. The system is not changed.
    ///
    /// # Errors
    /// If the version could not be installed, or a path cannot be read.
    pub fn pending(
        &self,
        wanted: &BTreeMap<PathBuf, ManifestEntry>,
        owners: &PathOwners,
        claims: &Claims,
    ) -> std::result::Result<Vec<PendingEntry>, TreeError> {
        let location = &self.location;
        let plan = Plan::new(location, self.manifest.as_ref(), wanted, owners, claims)?;
        let Some(directory) = &location.directory else {
            let added = |(path, entry): (&PathBuf, &ManifestEntry)| PendingEntry {
                path: location.full(path),
                before: None,
                after: Some(entry.clone()),
            };
            return Ok(wanted.iter().map(added).collect());
        };
        let mut paths: BTreeMap<PathBuf, Option<ManifestEntry>> = BTreeMap::new();
        for path in plan.gone {
            let base = base(location, &path)?;
            paths.insert(path, base);
        }
        for path in plan.in_the_way {
            paths.insert(path, None);
        }
        for path in plan.gone_directories.into_iter().rev() {
            // Directories that are not empty are kept.
            let goes = |name: &OsString| paths.get(&path.join(name)).is_some_and(Option::is_none);
            if directory.place(&path.join("x")).siblings()?.iter().all(goes) {
                paths.insert(path, None);
            }
        }
        for path in plan.moved.into_iter().chain(plan.directories) {
            let after = wanted.get(&path).cloned();
            paths.insert(path, after);
        }
        let pending = paths.into_iter().map(|(path, after)| {
            let before = location.store.entry(&location.at(directory, &path))?;
            Ok(PendingEntry { path: location.full(&path), before, after })
        });
        pending.collect()
    }
}

/// Returns the entry that is restored when a path is removed from the tree.
fn base(location: &TreeLocation, path: &Path) -> Result<Option<ManifestEntry>> {
    if !location.has_base(path)? {
        return Ok(None);
    }
    location.store.entry(&location.store.bases.location(&location.full(path)))
}

//! Comparing the directory of an entity with its manifest.

use super::location::TreeLocation;
use super::owners::PathOwners;
use super::plan::Plan;
use super::{TreeError, TreeStore};
use crate::claims::Claims;
use crate::error::Result;
use crate::image::Stamp;
use crate::manifest::Manifest;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A directory in which an entity creates files.
pub struct OwnedTree {
    pub(super) location: TreeLocation,
    pub(super) manifest: Option<Manifest>,
}

/// The differences between a manifest and its directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// The paths that a user has changed.
    pub changed: Vec<PathBuf>,
    /// True if a path is missing, or can be removed now.
    pub is_missing: bool,
}

impl OwnedTree {
    /// Opens the directory with this canonical path.
    ///
    /// # Errors
    /// If the directory or the manifest cannot be read.
    pub fn open(store: &TreeStore, id: &str, directory: &Path) -> Result<OwnedTree> {
        let record = store.manifest(id, directory);
        let manifest = record.load()?;
        let mut location = TreeLocation {
            store: store.clone(),
            id: id.to_owned(),
            path: store.root().place(directory),
            directory: None,
            manifest: record,
        };
        location.enter()?;
        Ok(OwnedTree { location, manifest })
    }

    /// Returns the manifest, if there is one.
    #[must_use]
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// Sets the manifest of an entity from which the tree is being taken over.
    pub fn set_manifest(&mut self, manifest: Option<Manifest>) {
        self.manifest = manifest;
    }

    /// Opens the directory again, which other processes may have removed and created in the meantime.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn reopen(&mut self) -> Result<()> {
        self.location.directory = None;
        self.location.enter()
    }

    /// Returns true if a version may be partly installed.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.unfinished)
    }

    /// Compares the directory with the manifest.
    ///
    /// # Errors
    /// If a path cannot be read.
    pub fn drift(&self) -> Result<Drift> {
        let mut drift = Drift::default();
        let Some(manifest) = &self.manifest else { return Ok(drift) };
        for (path, states) in &manifest.entries {
            if !manifest.unfinished && manifest.waiting.contains(path) {
                // The overlay that has prevented its removal may be gone.
                drift.is_missing |= !self.location.is_overlaid(path);
                continue;
            }
            match &self.location.directory {
                None => drift.is_missing = true,
                Some(directory) => {
                    let file = self.location.at(directory, path);
                    match Stamp::of(&file)? {
                        None => drift.is_missing = true,
                        Some(stamp) if self.location.is_ours(path, (&file, &stamp), states, manifest.unfinished)? => {}
                        Some(_) => drift.changed.push(path.clone()),
                    }
                }
            }
        }
        Ok(drift)
    }

    /// Returns the files that are kept while there is an overlay on them.
    #[must_use]
    pub fn waiting(&self) -> Vec<PathBuf> {
        let Some(manifest) = &self.manifest else { return Vec::new() };
        // Another entity may have created it in the meantime.
        let waits = |path: &&PathBuf| manifest.entries.contains_key(*path) && self.location.is_overlaid(path);
        manifest.waiting.iter().filter(waits).map(|path| self.location.full(path)).collect()
    }

    /// Returns true if only files with overlays are left.
    #[must_use]
    pub fn has_nothing_but_waiting(&self) -> bool {
        let Some(manifest) = self.manifest.as_ref().filter(|manifest| !manifest.unfinished) else { return false };
        manifest.entries.keys().all(|path| manifest.waiting.contains(path)) && !self.waiting().is_empty()
    }

    /// Returns the paths with manual changes that would be lost by a removal of the tree.
    ///
    /// # Errors
    /// If a path cannot be read, or a base could not be restored.
    pub fn losses_of_removal(
        &self,
        owners: &PathOwners,
        claims: &Claims,
    ) -> std::result::Result<Vec<PathBuf>, TreeError> {
        Ok(Plan::new(&self.location, self.manifest.as_ref(), &BTreeMap::new(), owners, claims)?.losses)
    }
}

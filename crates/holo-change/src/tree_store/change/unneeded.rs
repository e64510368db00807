//! Bases that are no longer needed.

use super::TreeChange;
use crate::error::Result;
use crate::manifest::{Manifest, ManifestEntry};
use crate::tree_store::location::TreeLocation;
use crate::tree_store::owners::PathOwners;
use std::collections::BTreeMap;
use std::path::PathBuf;

impl TreeChange {
    /// Returns the paths whose bases are no longer needed, including those that a killed run has not removed.
    pub(super) fn dropped(&self, entries: &BTreeMap<PathBuf, Vec<ManifestEntry>>) -> Result<Vec<PathBuf>> {
        let Some(manifest) = &self.manifest else { return Ok(Vec::new()) };
        let is_gone = |path: &&PathBuf| !entries.contains_key(*path);
        let mut dropped: Vec<PathBuf> = manifest.dropped.iter().filter(is_gone).cloned().collect();
        if self.location.store.bases.are_any()? {
            for path in manifest.entries.keys().filter(is_gone) {
                // The base is kept if another entity has this path now.
                if self.location.has_base(path)?
                    && !dropped.contains(path)
                    && !self.owners.has(&self.location.full(path))?
                {
                    dropped.push(path.clone());
                }
            }
        }
        Ok(dropped)
    }
}

/// Removes the bases of paths that no longer belong to the entity. The manifest on disk still lists them.
pub(super) fn sweep_bases(location: &TreeLocation, manifest: &mut Manifest, owners: &PathOwners) -> Result<()> {
    let dropped = std::mem::take(&mut manifest.dropped);
    // Another entity that has created the path in the meantime has saved its own base.
    for path in dropped.iter().map(|path| location.full(path)) {
        if !owners.has(&path)? {
            location.store.bases.remove(&path)?;
        }
    }
    Ok(())
}

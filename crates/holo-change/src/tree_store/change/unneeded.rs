//! The bases that are not needed any more.

use super::TreeChange;
use crate::error::Result;
use crate::manifest::{Manifest, ManifestEntry};
use crate::table::Table;
use crate::tree_store::location::TreeLocation;
use crate::tree_store::owners::PathOwners;
use std::path::PathBuf;

impl TreeChange {
    /// Returns the paths whose bases are not needed any more, including those that a killed run has not come to removing.
    pub(super) fn dropped(&self, entries: &Table<Vec<ManifestEntry>>) -> Result<Vec<PathBuf>> {
        let mut dropped = Vec::new();
        let Some(manifest) = &self.manifest else { return Ok(dropped) };
        for path in &manifest.dropped {
            if !entries.contains(path)? {
                dropped.push(path.clone());
            }
        }
        if self.location.store.bases.are_any()? {
            for row in manifest.entries.join(entries) {
                let (path, Some(_), None) = row? else { continue };
                // A base stays if another entity has made something there by now.
                if self.location.has_base(&path)?
                    && !dropped.contains(&path)
                    && !self.owners.has(&self.location.full(&path))?
                {
                    dropped.push(path);
                }
            }
        }
        Ok(dropped)
    }
}

/// Removes the bases of paths that are not ours any more. The manifest on disk still lists them.
pub(super) fn sweep_bases(location: &TreeLocation, manifest: &mut Manifest, owners: &PathOwners) -> Result<()> {
    let dropped = std::mem::take(&mut manifest.dropped);
    // Another entity that has made something at the path since has saved a base of its own.
    for path in dropped.iter().map(|path| location.full(path)) {
        if !owners.has(&path)? {
            location.store.bases.remove(&path)?;
        }
    }
    Ok(())
}

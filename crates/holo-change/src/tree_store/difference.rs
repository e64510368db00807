//! Differences between a tree and its manifest.

use super::owned_tree::OwnedTree;
use crate::error::Result;
use crate::image::Stamp;
use crate::manifest::ManifestEntry;
use crate::path_handle::PathHandle;
use std::path::PathBuf;

/// A path that was changed or removed since its installation.
#[derive(Clone, Debug)]
pub struct ChangedEntry {
    /// The canonical path.
    pub path: PathBuf,
    /// The installed entry.
    pub made: ManifestEntry,
    /// The current entry; `None` if the path does not exist, or is a special file.
    pub found: Option<ManifestEntry>,
    /// The path of the current file, if its directory exists: that of the overlay's base if there is an overlay on the
    /// path.
    pub location: Option<PathHandle>,
}

impl OwnedTree {
    /// Returns the paths that a user has changed or removed since their installation. Empty for a partly installed
    /// version, because it is unknown which of its paths were installed.
    ///
    /// # Errors
    /// If a path cannot be read.
    pub fn changed(&self) -> Result<Vec<ChangedEntry>> {
        let mut changed = Vec::new();
        let Some(manifest) = self.manifest.as_ref().filter(|manifest| !manifest.unfinished) else { return Ok(changed) };
        let own = &self.location;
        for (path, states) in &manifest.entries {
            let Some(made) = states.last().filter(|_| !manifest.waiting.contains(path)) else { continue };
            let location = own.directory.as_ref().map(|directory| own.at(directory, path));
            if let Some(location) = &location
                && let Some(stamp) = Stamp::of(location)?
                && own.is_ours(path, (location, &stamp), states, false)?
            {
                continue;
            }
            let found = location.as_ref().map(|location| own.store.entry(location)).transpose()?.flatten();
            changed.push(ChangedEntry { path: own.full(path), made: made.clone(), found, location });
        }
        Ok(changed)
    }
}

//! Differences: the paths of a tree that are not as they were made.

use super::owned_tree::OwnedTree;
use crate::error::Result;
use crate::image::Stamp;
use crate::manifest::ManifestEntry;
use crate::path_handle::PathHandle;
use std::path::PathBuf;

/// A path that is not as it was made.
#[derive(Clone, Debug)]
pub struct ChangedEntry {
    /// The canonical path.
    pub path: PathBuf,
    /// The entry that was made there.
    pub made: ManifestEntry,
    /// The entry that is there; none if nothing is, or something that is no file, directory or symlink.
    pub found: Option<ManifestEntry>,
    /// The location of that, if the directory is there: the base of an overlay, if one lies over the path.
    pub location: Option<PathHandle>,
}

impl OwnedTree {
    /// Returns the paths that a user has changed or removed since they were made. A version that is partly in place has none, as it is not
    /// known which of its paths were made.
    ///
    /// # Errors
    /// If a path cannot be read.
    pub fn changed(&self) -> Result<Vec<ChangedEntry>> {
        let mut changed = Vec::new();
        let Some(manifest) = self.manifest.as_ref().filter(|manifest| !manifest.unfinished) else { return Ok(changed) };
        let own = &self.location;
        for row in manifest.entries.iter() {
            let (path, states) = row?;
            let Some(made) = states.last().filter(|_| !manifest.waiting.contains(&path)) else { continue };
            let location = own.directory.as_ref().map(|directory| own.at(directory, &path));
            if let Some(location) = &location
                && let Some(stamp) = Stamp::of(location)?
                && own.is_ours(&path, (location, &stamp), &states, false)?
            {
                continue;
            }
            let found = location.as_ref().map(|location| own.store.entry(location)).transpose()?.flatten();
            changed.push(ChangedEntry { path: own.full(&path), made: made.clone(), found, location });
        }
        Ok(changed)
    }
}

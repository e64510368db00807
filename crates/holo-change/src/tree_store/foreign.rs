//! Files that belong to the user: changed files, and original files.

use super::owned_tree::{Drift, OwnedTree};
use super::owners::PathOwners;
use crate::error::Result;
use crate::path_handle::Kind;
use std::path::{Path, PathBuf};

impl OwnedTree {
    /// Removes changed files from the manifest and from the drift. They belong to the user from now on, and their bases
    /// are no longer needed.
    ///
    /// # Errors
    /// If data outside of memory cannot be read or written.
    pub fn leave_changed(&mut self, drift: &mut Drift, is_left: impl Fn(&Path) -> bool) -> Result<()> {
        let Some(manifest) = &mut self.manifest else { return Ok(()) };
        let (left, changed): (Vec<PathBuf>, _) = drift.changed.drain(..).partition(|path| is_left(path));
        drift.changed = changed;
        if !left.is_empty() {
            manifest.retain(|path| !left.iter().any(|left| left == path))?;
            manifest.dropped.extend(left);
        }
        Ok(())
    }

    /// Returns true if a path is a file or symlink that neither this entity nor one that it could take over from has
    /// created.
    ///
    /// # Errors
    /// If the path, or data outside of memory, cannot be read.
    pub fn is_foreign(&self, path: &Path, owners: &PathOwners) -> Result<bool> {
        let location = &self.location;
        let Some(directory) = &location.directory else { return Ok(false) };
        let stat = location.at(directory, path).stat()?;
        if !stat.is_some_and(|stat| matches!(stat.kind, Kind::File | Kind::Symlink)) {
            return Ok(false);
        }
        if self.manifest.as_ref().map_or(Ok(false), |manifest| manifest.entries.contains(path))? {
            return Ok(false);
        }
        let (store, full) = (&location.store, location.full(path));
        let is_held = store.held()?.find_for_tree(&full, &store.plugin.plugin, &location.id, false).is_some();
        Ok(!is_held && owners.orphaned_at(&full)?.is_empty())
    }
}

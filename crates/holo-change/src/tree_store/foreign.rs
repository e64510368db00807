//! Files that belong to the user: changed files, and original files.

use super::owned_tree::{Drift, OwnedTree};
use super::owners::PathOwners;
use crate::error::Result;
use crate::path_handle::Kind;
use std::path::{Path, PathBuf};

impl OwnedTree {
    /// Removes changed files from the manifest and from the drift. They belong to the user from now on, and their bases
    /// are no longer needed.
    pub fn leave_changed(&mut self, drift: &mut Drift, is_left: impl Fn(&Path) -> bool) {
        let Some(manifest) = &mut self.manifest else { return };
        let (left, changed): (Vec<PathBuf>, _) = drift.changed.drain(..).partition(|path| is_left(path));
        drift.changed = changed;
        for path in left {
            manifest.entries.remove(&path);
            manifest.dropped.push(path);
        }
    }

    /// Returns true if a path is a file or symlink that neither this entity nor one that it could take over from has
    /// created.
    ///
    /// # Errors
    /// If the path or the records cannot be read.
    pub fn is_foreign(&self, path: &Path, owners: &PathOwners) -> Result<bool> {
        let location = &self.location;
        let Some(directory) = &location.directory else { return Ok(false) };
        let stat = location.at(directory, path).stat()?;
        if !stat.is_some_and(|stat| matches!(stat.kind, Kind::File | Kind::Symlink)) {
            return Ok(false);
        }
        if self.manifest.as_ref().is_some_and(|manifest| manifest.entries.contains_key(path)) {
            return Ok(false);
        }
        let (store, full) = (&location.store, location.full(path));
        let is_held = store.held()?.find_for_tree(&full, &store.plugin.plugin, &location.id, false).is_some();
        Ok(!is_held && owners.orphaned_at(&full)?.is_empty())
    }
}

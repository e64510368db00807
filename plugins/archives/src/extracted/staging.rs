//! The staging directory, which a new version is extracted into.

use super::ExtractedTree;
use crate::entry::ManifestEntry;
use holo_change::error::PathError;
use holo_change::{FileStat, PathHandle, Tree};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A version in its staging directory.
pub(crate) struct StagedTree {
    pub(crate) tree: Arc<Tree>,
    path: PathHandle,
    pub(crate) entries: BTreeMap<PathBuf, ManifestEntry>,
}

impl StagedTree {
    pub(super) fn remove(&self) -> Result<(), PathError> {
        self.path.remove_all()
    }
}

impl ExtractedTree<'_> {
    /// Makes an empty directory on the file system of the one that is extracted to. The one that an earlier run has left is removed.
    pub(crate) fn staging(&self) -> Result<StagedTree, PathError> {
        let path = self.staging_path()?;
        path.remove_all()?;
        path.create_directory(0o700)?;
        Ok(StagedTree { tree: path.as_tree()?, path, entries: BTreeMap::new() })
    }

    /// Returns a path beside the directory or, if that is on another file system, in it.
    fn staging_path(&self) -> Result<PathHandle, PathError> {
        let inside = self.store.root.place(&self.path.path().join(&self.staging_name));
        let beside = self.path.sibling(self.staging_name.as_ref());
        if self.path.path().file_name().is_none() {
            return Ok(inside);
        }
        let device = |path: &PathHandle| Ok::<_, PathError>(path.stat()?.map(|stat: FileStat| stat.device));
        let above = self.store.root.place(self.path.path().parent().unwrap_or(Path::new("")));
        match device(&self.path)? {
            // The root itself has no name to look at.
            Some(device_here) if above.path().file_name().is_some() && device(&above)? != Some(device_here) => {
                Ok(inside)
            }
            Some(_) if above.path().file_name().is_none() && self.is_mount_point() => Ok(inside),
            _ => Ok(beside),
        }
    }

    /// Returns true if a directory directly below the root is on another file system.
    fn is_mount_point(&self) -> bool {
        let here = self.path.stat().ok().flatten().map(|stat| stat.device);
        let root = std::fs::metadata(self.store.root.place(Path::new("")).shown());
        root.map(|root| std::os::unix::fs::MetadataExt::dev(&root)).ok() != here
    }

    /// Removes the staging directory that an earlier run may have left.
    pub(crate) fn clear_staging(&self) -> Result<(), PathError> {
        if self.manifest.is_some() {
            self.overlay_base_on_its_way().remove()?;
        }
        self.staging_path()?.remove_all()
    }

    /// Returns the location of a new overlay's base before it is moved into place.
    pub(super) fn overlay_base_on_its_way(&self) -> PathHandle {
        self.manifest_path.with_suffix(".file")
    }
}

//! The staging directory, in which a new version is created.

use super::owned_tree::OwnedTree;
use crate::error::Result;
use crate::manifest::ManifestEntry;
use crate::path_handle::{FileStat, PathHandle, Tree};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A version in its staging directory.
pub struct StagedTree {
    tree: Arc<Tree>,
    path: PathHandle,
    /// The entries of the version, by path.
    pub entries: BTreeMap<PathBuf, ManifestEntry>,
}

impl StagedTree {
    /// Returns the directory.
    #[must_use]
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// Returns true if files in the directory inherit their group or an ACL from it.
    pub(super) fn inherits(&self) -> bool {
        self.tree.place(Path::new("x")).inherits()
    }

    pub(super) fn remove(&self) -> Result<()> {
        self.path.remove_all()
    }
}

impl OwnedTree {
    /// Creates an empty staging directory on the file system of the target directory. That of an earlier run is
    /// removed.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn staging(&self) -> Result<StagedTree> {
        let path = self.staging_path()?;
        path.remove_all()?;
        path.create_directory(0o700)?;
        Ok(StagedTree { tree: path.as_tree()?, path, entries: BTreeMap::new() })
    }

    /// Removes the staging directory of an earlier run.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn clear_staging(&self) -> Result<()> {
        if self.manifest().is_some() {
            self.location.overlay_base_on_its_way().remove()?;
        }
        self.staging_path()?.remove_all()
    }

    /// Returns a path next to the directory or, if its parent is on another file system, in the directory.
    fn staging_path(&self) -> Result<PathHandle> {
        let (root, path) = (self.location.store.root(), &self.location.path);
        let name = self.location.staging_name();
        let inside = root.place(&path.path().join(&name));
        let beside = path.sibling(name.as_ref());
        if path.path().file_name().is_none() {
            return Ok(inside);
        }
        let device = |path: &PathHandle| Ok(path.stat()?.map(|stat: FileStat| stat.device));
        let above = root.place(path.path().parent().unwrap_or(Path::new("")));
        match device(path)? {
            // The root itself has no name for a stat call.
            Some(device_here) if above.path().file_name().is_some() && device(&above)? != Some(device_here) => {
                Ok(inside)
            }
            Some(_) if above.path().file_name().is_none() && self.is_mount_point() => Ok(inside),
            _ => Ok(beside),
        }
    }

    /// Returns true if a directory directly below the root is on another file system.
    fn is_mount_point(&self) -> bool {
        let here = self.location.path.stat().ok().flatten().map(|stat| stat.device);
        let root = std::fs::metadata(self.location.store.root().place(Path::new("")).shown());
        root.map(|root| std::os::unix::fs::MetadataExt::dev(&root)).ok() != here
    }
}

//! The paths of a tree and of its manifest.

use super::TreeStore;
use crate::error::Result;
use crate::hex::hex;
use crate::image::Stamp;
use crate::image::Unmanageable;
use crate::manifest::{ManifestEntry, ManifestRecord};
use crate::path_handle::{Kind, PathHandle, Tree};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory of an entity, and its manifest.
#[derive(Clone)]
pub(super) struct TreeLocation {
    pub(super) store: TreeStore,
    pub(super) id: String,
    pub(super) path: PathHandle,
    /// The directory, if it exists.
    pub(super) directory: Option<Arc<Tree>>,
    pub(super) manifest: ManifestRecord,
}

impl TreeLocation {
    /// Opens the directory if it exists.
    pub(super) fn enter(&mut self) -> Result<()> {
        let is_root = self.path.path().as_os_str().is_empty();
        let exists = || Ok(self.path.stat()?.is_some_and(|stat| stat.kind == Kind::Directory));
        if self.directory.is_none() && (is_root || exists()?) {
            self.directory = Some(self.path.as_tree()?);
        }
        Ok(())
    }

    /// Returns true if a file has one of its installed states or, while a version is partly installed, is equal to its
    /// base.
    pub(super) fn is_ours(
        &self,
        path: &Path,
        (file, stamp): (&PathHandle, &Stamp),
        states: &[ManifestEntry],
        is_unfinished: bool,
    ) -> Result<bool> {
        for entry in states {
            if entry.matches(file, stamp, &*self.store.digests)? {
                return Ok(true);
            }
        }
        Ok(is_unfinished && self.is_base(path, file)?)
    }

    /// Returns the canonical path of a path in the directory.
    pub(super) fn full(&self, path: &Path) -> PathBuf {
        Path::new("/").join(self.path.path()).join(path)
    }

    /// Returns the handle for an installed file, or for the overlay's base if there is an overlay on the path.
    pub(super) fn at(&self, directory: &Arc<Tree>, path: &Path) -> PathHandle {
        self.store.overlays.base(&self.full(path)).unwrap_or_else(|| directory.place(path))
    }

    pub(super) fn is_overlaid(&self, path: &Path) -> bool {
        self.store.overlays.lie_over(&self.full(path))
    }

    pub(super) fn has_base(&self, path: &Path) -> Result<bool> {
        self.store.bases.has(&self.full(path))
    }

    pub(super) fn is_base(&self, path: &Path, file: &PathHandle) -> Result<bool> {
        self.store.bases.is_base(&self.full(path), file)
    }

    pub(super) fn restore_base(&self, path: &Path, file: &PathHandle) -> std::result::Result<(), Unmanageable> {
        self.store.bases.restore(&self.full(path), file)
    }

    /// Returns the temporary path of a new overlay's base.
    pub(super) fn overlay_base_on_its_way(&self) -> PathHandle {
        self.store.state(Path::new(&self.staging_name()))
    }

    /// Returns the unique name of the staging directory.
    pub(super) fn staging_name(&self) -> String {
        // Eight bytes, as digits.
        format!(".holo-{:.16}", hex(&Sha256::digest(self.id.as_bytes())))
    }
}

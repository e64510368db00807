//! The paths of a tree and of its manifest, and the errors that occur there.

use super::TreeStore;
use crate::error::{PathError, Result};
use crate::image::{Stamp, Unmanageable};
use crate::manifest::{ManifestEntry, ManifestRecord};
use crate::path_handle::{Kind, PathHandle, Tree};
use crate::paths::hex;
use crate::tracked::Unmanaged;
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

/// A version of a tree could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// Manual changes of these paths would be lost.
    #[error("changes of a user would be lost")]
    LosesChanges(Vec<PathBuf>),
    /// A path cannot be read or changed.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file could not be copied.
    #[error(transparent)]
    Unmanageable(#[from] Unmanageable),
    /// The state of a path cannot be managed.
    #[error(transparent)]
    Unmanaged(#[from] Unmanaged),
    /// Two entities create the same path.
    #[error("{path} is brought by both {first} and {second}{}", and_more(*.more))]
    BroughtByBoth {
        /// The first such path.
        path: PathBuf,
        /// The entity that owns the path.
        first: String,
        /// The entity that is refused.
        second: String,
        /// The number of other paths with the same conflict.
        more: usize,
    },
    /// An entity brings a path that another one edits.
    #[error("{path} is edited by {edit} and brought by {by}{}", and_more(*.more))]
    Edited {
        /// The first such path.
        path: PathBuf,
        /// The edit.
        edit: String,
        /// The entity that is refused.
        by: String,
        /// The number of other paths with conflicts.
        more: usize,
    },
    /// The path is a directory that does not belong to the entity.
    #[error("{0} is a directory")]
    IsDirectory(PathBuf),
    /// The path is a directory of the entity that is not empty.
    #[error("{0} is a directory that is not empty")]
    DirectoryNotEmpty(PathBuf),
    /// The path is a device, a FIFO or a socket.
    #[error("{0} is not a manageable file")]
    NotManageable(PathBuf),
    /// A base cannot be restored because of another file.
    #[error("{path} is {obstacle}: what was there before cannot be put back")]
    BaseNotRestored {
        /// The path.
        path: PathBuf,
        /// The type of that file.
        obstacle: &'static str,
    },
    /// There is an overlay on the path.
    #[error("{0} has resource files, and would not be a file any more")]
    HasOverlay(PathBuf),
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(", and so are {more} more paths") }
}

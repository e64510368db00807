//! A directory that an archive is extracted to: the paths in it that are ours, and the steps from one version to another.
//!
//! The order of the steps makes a kill at any moment harmless; each is on disk before the next one begins:
//!
//! 1. The new version is extracted into a staging directory. Nothing else has been touched yet.
//! 2. The manifest lists the files that are about to be replaced, then their bases are saved.
//! 3. The manifest lists what may be there from now on: the old version and the new one. A file that is either, or is equal to its base, is
//!    not a user's work. Directories that are going to be made are listed, and paths that are taken over from an orphan are taken off the
//!    orphan's manifest.
//! 4. Files are moved into place one by one, each in one step; then those are removed that the new version does not have.
//! 5. The manifest lists the new version alone, and the paths whose bases are not needed any more; then those bases are removed.
//!
//! Several archives may be extracted to one directory, or one to a directory in another's: each path is on the manifest of one of them, but
//! for directories, which are removed with the last that has them.
//!
//! If a file of the plugin `files` is laid over a path, the file that an archive brings is the base of the overlay, and is not removed
//! before the overlay is gone.

mod install;
mod plan;
mod removal;
mod staging;

use crate::entry::ManifestEntry;
use crate::error::InstallError;
use crate::manifest::Manifest;
use crate::owners::PathOwners;
use crate::store::Store;
use holo_change::error::PathError;
use holo_change::{Kind, PathHandle, Tree, Unmanageable};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use removal::{RemovedTree, explain, remove_tree, warn_of_changes, warn_of_waiting, would_remove_tree};
pub(crate) use staging::StagedTree;

/// A directory that is, or will be, extracted to.
pub(crate) struct ExtractedTree<'a> {
    store: &'a Store,
    /// The directory, if it exists.
    directory: Option<Arc<Tree>>,
    path: PathHandle,
    id: String,
    manifest_path: PathHandle,
    pub(crate) manifest: Option<Manifest>,
    staging_name: String,
}

/// Differences between the manifest and the directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Drift {
    /// The paths that a user has changed.
    pub(crate) changed: Vec<PathBuf>,
    /// True if something is missing, or can be removed by now.
    pub(crate) is_missing: bool,
}

impl<'a> ExtractedTree<'a> {
    /// Opens the directory with this canonical path.
    pub(crate) fn open(store: &'a Store, id: &str, directory: &Path) -> Result<ExtractedTree<'a>, PathError> {
        let manifest_path = store.manifest(id, directory);
        let manifest = Manifest::load(&manifest_path)?;
        let digits: String = crate::checksum::sha256(id.as_bytes()).chars().take(16).collect();
        let mut extracted = ExtractedTree {
            store,
            directory: None,
            path: store.root.place(directory),
            id: id.to_owned(),
            manifest_path,
            manifest,
            staging_name: format!(".holo-{digits}"),
        };
        extracted.enter()?;
        Ok(extracted)
    }

    /// Opens the directory again, which others may have removed and made since.
    pub(crate) fn reopen(&mut self) -> Result<(), PathError> {
        self.directory = None;
        self.enter()
    }

    /// Opens the directory if it exists by now.
    fn enter(&mut self) -> Result<(), PathError> {
        let is_root = self.path.path().as_os_str().is_empty();
        let exists = || self.path.stat().map(|stat| stat.is_some_and(|stat| stat.kind == Kind::Directory));
        if self.directory.is_none() && (is_root || exists()?) {
            self.directory = Some(self.path.as_tree()?);
        }
        Ok(())
    }

    /// Returns true if a version is, or may be, partly installed.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.unfinished)
    }

    /// Compares the directory with the manifest.
    pub(crate) fn drift(&self) -> Result<Drift, PathError> {
        let mut drift = Drift::default();
        let Some(manifest) = &self.manifest else { return Ok(drift) };
        for (path, states) in &manifest.entries {
            if !manifest.unfinished && manifest.waiting.contains(path) {
                // The overlay that has kept it from being removed may be gone.
                drift.is_missing |= !self.is_overlaid(path);
                continue;
            }
            match &self.directory {
                None => drift.is_missing = true,
                Some(directory) => {
                    let file = self.at(directory, path);
                    if file.stat()?.is_none() {
                        drift.is_missing = true;
                    } else if !self.is_ours(path, &file, states)? {
                        drift.changed.push(path.clone());
                    }
                }
            }
        }
        Ok(drift)
    }

    /// Returns true if a file is what we installed or, while a version is partly installed, is equal to its base.
    fn is_ours(&self, path: &Path, file: &PathHandle, states: &[ManifestEntry]) -> Result<bool, PathError> {
        for entry in states {
            if entry.is_at(file, &self.store.checksums)? {
                return Ok(true);
            }
        }
        Ok(self.is_unfinished() && self.is_base(path, file)?)
    }

    /// Returns the canonical path of something in the directory.
    fn full(&self, path: &Path) -> PathBuf {
        Path::new("/").join(self.path.path()).join(path)
    }

    /// Returns the location of a file of ours: its path or, if an overlay lies over that, the overlay's base.
    fn at(&self, directory: &Arc<Tree>, path: &Path) -> PathHandle {
        self.store.overlays.base(&self.full(path)).unwrap_or_else(|| directory.place(path))
    }

    fn is_overlaid(&self, path: &Path) -> bool {
        self.store.overlays.lie_over(&self.full(path))
    }

    /// Returns the files that are to be removed as soon as no overlay lies over them.
    pub(crate) fn waiting(&self) -> Vec<PathBuf> {
        let Some(manifest) = &self.manifest else { return Vec::new() };
        // Another archive may have brought it by now.
        let is_left = |path: &&PathBuf| manifest.entries.contains_key(*path) && self.is_overlaid(path);
        manifest.waiting.iter().filter(is_left).map(|path| self.full(path)).collect()
    }

    /// Returns true if all that is left of what was extracted lies under overlays.
    pub(crate) fn has_nothing_but_waiting(&self) -> bool {
        let waits = |manifest: &Manifest| {
            let is_left = |path: &PathBuf| manifest.waiting.contains(path);
            !manifest.unfinished && !manifest.entries.is_empty() && manifest.entries.keys().all(is_left)
        };
        self.manifest.as_ref().is_some_and(waits) && !self.waiting().is_empty()
    }

    fn has_base(&self, path: &Path) -> Result<bool, PathError> {
        self.store.bases.has(&self.full(path))
    }

    fn is_base(&self, path: &Path, file: &PathHandle) -> Result<bool, PathError> {
        self.store.bases.is_base(&self.full(path), file)
    }

    fn restore_base(&self, path: &Path, file: &PathHandle) -> Result<(), Unmanageable> {
        self.store.bases.restore(&self.full(path), file)
    }

    /// Returns what other archives have brought to the directory.
    fn owners(&self) -> Result<PathOwners, InstallError> {
        Ok(PathOwners::in_tree(self.store, &self.id, &self.full(Path::new("")))?)
    }
}

//! Trees of files that entities create in directories. Each tree is listed in a manifest, and the original files have
//! bases.
//!
//! This is for entities with many files that are installed as a whole, such as extracted archives. Manifests replace
//! records with a track per path. Several entities may share a directory, or one may have a directory within another's.
//! Each path is in the manifest of one entity, except for directories, which are removed with the last entity that
//! contains them.
//!
//! The steps of a change are those of all stores:
//!
//! 1. *Staged*: the new version is in a staging directory. The manifest lists the files that are about to be replaced,
//!    and their bases are saved. A base that was saved by a killed run is removed by the next one.
//! 2. *Kept*: the manifest lists the possible states from now on: those of the old and of the new version. A file in
//!    one of these states, or equal to its base, has no manual changes. Directories that are about to be created are
//!    recorded, and paths that are taken over from an orphan are removed from the orphan's manifest.
//! 3. *Prepared*: the new files are on disk.
//! 4. *Replaced*: files are moved into place, each atomically, and missing directories with all of their contents; then
//!    the files that the new version does not contain are removed.
//! 5. *Recorded*: the manifest lists only the new version, and the paths whose bases are no longer needed.
//! 6. *Confirmed*: those bases and the staging directory are removed.
//!
//! If there is an overlay on a path, the file of the entity is the base of the overlay, and is not removed before the
//! overlay.

mod change;
mod location;
mod owners;
mod plan;
mod shared;

pub use change::{NewVersion, StagedTree, TreeChange};
pub use location::TreeError;
pub use owners::{Adoption, PathOwners, TreeOwner};
pub use plan::PendingEntry;
pub use shared::SharedTrees;

use crate::bases::Bases;
use crate::claims::Claims;
use crate::error::Result;
use crate::image::Stamp;
use crate::locations::Locations;
use crate::manifest::{EntryKind, FileDigests, Manifest, ManifestEntry, ManifestRecord, Ownership};
use crate::path_handle::{Kind, PathHandle, Tree};
use crate::tracked::{EditedFiles, MadeDirectories, Overlays, PluginStore, Unmanaged};
use location::TreeLocation;
use plan::Plan;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The trees of a plugin's entities.
#[derive(Clone)]
pub struct TreeStore {
    root: Arc<Tree>,
    state: Arc<Tree>,
    bases: Bases,
    overlays: Overlays,
    edited: EditedFiles,
    digests: Rc<dyn FileDigests>,
    /// The plugin's state directory.
    plugin: PluginStore,
    locations: Locations,
    shared: Arc<SharedTrees>,
    /// Held while directories that several entities may need are created or removed.
    directories: Arc<Mutex<()>>,
}

impl TreeStore {
    /// Opens the store in a plugin's state directory. Stores that are used concurrently share the lock for directories,
    /// and those of a set what they know about others.
    ///
    /// # Errors
    /// If the root or the state directory cannot be opened.
    pub fn open(
        locations: &Locations,
        digests: Rc<dyn FileDigests>,
        directories: &Arc<Mutex<()>>,
        shared: &Arc<SharedTrees>,
    ) -> Result<TreeStore> {
        let state = Tree::open(locations.state_dir())?;
        Ok(TreeStore {
            plugin: PluginStore::own(locations)?,
            locations: locations.clone(),
            shared: Arc::clone(shared),
            root: Tree::open(locations.root())?,
            bases: Bases::new(&state),
            state,
            overlays: Overlays::of(locations),
            edited: EditedFiles::of(locations),
            digests,
            directories: Arc::clone(directories),
        })
    }

    /// Makes a store for a check of an entity that is applied or scrubbed. It knows the overlays that the same run adds and
    /// removes before.
    #[must_use]
    pub fn foreseeing(self, is_scrubbed: bool) -> TreeStore {
        TreeStore { overlays: self.overlays.foreseen(&self.locations, is_scrubbed), ..self }
    }

    /// Returns the root of all paths.
    #[must_use]
    pub fn root(&self) -> &Arc<Tree> {
        &self.root
    }

    /// Returns a path in the state directory.
    #[must_use]
    pub fn state(&self, path: &Path) -> PathHandle {
        self.state.place(path)
    }

    /// Returns the file, directory or symlink at a path as a manifest entry.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn entry(&self, path: &PathHandle) -> Result<Option<ManifestEntry>> {
        match path.stat()? {
            Some(stat) if stat.kind == Kind::Directory => Ok(Some(ManifestEntry {
                kind: EntryKind::Directory { mode: stat.mode },
                owner: Ownership { uid: Some(stat.uid), gid: Some(stat.gid) },
            })),
            Some(_) => ManifestEntry::of(path, &*self.digests),
            None => Ok(None),
        }
    }

    /// Returns the bases. A path has a single base, regardless of the entities that use it.
    #[must_use]
    pub fn bases(&self) -> &Bases {
        &self.bases
    }

    /// Returns an error if the file at a path, which is about to become a base, contains edits.
    ///
    /// # Errors
    /// The error names one of the edits.
    pub fn reject_edited(&self, path: &Path) -> std::result::Result<(), Unmanaged> {
        self.edited.reject(path)
    }

    /// Drops cached directories, which other processes may have changed.
    pub fn forget_directories(&self) {
        self.root.forget();
        self.state.forget();
    }

    /// Returns the record of the manifest for an entity and a directory.
    #[must_use]
    pub fn manifest(&self, id: &str, directory: &Path) -> ManifestRecord {
        self.plugin.manifest(id, directory)
    }

    /// Locks the creation and removal of directories that several entities may need.
    pub fn lock_directories(&self) -> MutexGuard<'_, ()> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the directories that were created by any entity.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn made_directories(&self) -> Result<MadeDirectories> {
        MadeDirectories::read(&self.plugin)
    }

    /// Records directories that are about to be created because they do not exist, and those that were created by our
    /// plugins. The directories must be locked.
    ///
    /// # Errors
    /// If a directory cannot be examined, or the database cannot be written.
    pub fn claim_directories(&self, directories: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        let (mut own, mut made) = (Vec::new(), self.made_directories()?);
        for directory in directories {
            let is_directory =
                || Ok(self.root.place(&directory).stat()?.is_some_and(|stat| stat.kind == Kind::Directory));
            if directory != Path::new("/") && (made.contains(&directory) || !is_directory()?) {
                own.push(directory);
            }
        }
        made.add(own)
    }

    /// Removes incomplete files of killed processes. No other process may use the store.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn tidy(&self) -> Result<()> {
        self.bases.tidy()
    }
}

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

/// A directory in which an entity creates files.
pub struct OwnedTree {
    location: TreeLocation,
    manifest: Option<Manifest>,
}

/// The differences between a manifest and its directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// The paths that a user has changed.
    pub changed: Vec<PathBuf>,
    /// True if a path is missing, or can be removed now.
    pub is_missing: bool,
}

impl OwnedTree {
    /// Opens the directory with this canonical path.
    ///
    /// # Errors
    /// If the directory or the manifest cannot be read.
    pub fn open(store: &TreeStore, id: &str, directory: &Path) -> Result<OwnedTree> {
        let record = store.manifest(id, directory);
        let manifest = record.load()?;
        let mut location = TreeLocation {
            store: store.clone(),
            id: id.to_owned(),
            path: store.root().place(directory),
            directory: None,
            manifest: record,
        };
        location.enter()?;
        Ok(OwnedTree { location, manifest })
    }

    /// Returns the manifest, if there is one.
    #[must_use]
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// Sets the manifest of an entity from which the tree is being taken over.
    pub fn set_manifest(&mut self, manifest: Option<Manifest>) {
        self.manifest = manifest;
    }

    /// Opens the directory again, which other processes may have removed and created in the meantime.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn reopen(&mut self) -> Result<()> {
        self.location.directory = None;
        self.location.enter()
    }

    /// Returns true if a version may be partly installed.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.unfinished)
    }

    /// Compares the directory with the manifest.
    ///
    /// # Errors
    /// If a path cannot be read.
    pub fn drift(&self) -> Result<Drift> {
        let mut drift = Drift::default();
        let Some(manifest) = &self.manifest else { return Ok(drift) };
        for (path, states) in &manifest.entries {
            if !manifest.unfinished && manifest.waiting.contains(path) {
                // The overlay that has prevented its removal may be gone.
                let mut waiting = manifest.waiting.iter().filter(|waits| waits.starts_with(path));
                drift.is_missing |= !waiting.any(|waits| self.location.is_overlaid(waits));
                continue;
            }
            match &self.location.directory {
                None => drift.is_missing = true,
                Some(directory) => {
                    let file = self.location.at(directory, path);
                    match Stamp::of(&file)? {
                        None => drift.is_missing = true,
                        Some(stamp) if self.location.is_ours(path, (&file, &stamp), states, manifest.unfinished)? => {}
                        Some(_) => drift.changed.push(path.clone()),
                    }
                }
            }
        }
        Ok(drift)
    }

    /// Returns the files that are kept while there is an overlay on them.
    #[must_use]
    pub fn waiting(&self) -> Vec<PathBuf> {
        let Some(manifest) = &self.manifest else { return Vec::new() };
        // Another entity may have created it in the meantime.
        let waits = |path: &&PathBuf| manifest.entries.contains_key(*path) && self.location.is_overlaid(path);
        manifest.waiting.iter().filter(waits).map(|path| self.location.full(path)).collect()
    }

    /// Returns true if only files with overlays are left.
    #[must_use]
    pub fn has_nothing_but_waiting(&self) -> bool {
        let Some(manifest) = self.manifest.as_ref().filter(|manifest| !manifest.unfinished) else { return false };
        manifest.entries.keys().all(|path| manifest.waiting.contains(path)) && !self.waiting().is_empty()
    }

    /// Returns the canonical paths that a version does not contain any more, except for those with overlays, which wait.
    #[must_use]
    pub fn given_up(&self, wanted: &BTreeMap<PathBuf, ManifestEntry>) -> Vec<PathBuf> {
        let listed = self.manifest.iter().flat_map(|manifest| manifest.entries.keys());
        let gone = listed.filter(|path| !wanted.contains_key(*path) && !self.location.is_overlaid(path));
        gone.map(|path| self.location.full(path)).collect()
    }

    /// Returns the paths with manual changes that a change of the tree to these entries would lose.
    ///
    /// # Errors
    /// If a path cannot be read, or a base could not be restored.
    pub fn losses(
        &self,
        wanted: &BTreeMap<PathBuf, ManifestEntry>,
        owners: &PathOwners,
        claims: &Claims,
    ) -> std::result::Result<Vec<PathBuf>, TreeError> {
        let plan = Plan::new(&self.location, self.manifest.as_ref(), wanted, owners, claims)?;
        Ok(plan.losses.iter().map(|path| self.location.full(path)).collect())
    }
}

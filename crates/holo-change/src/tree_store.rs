//! Trees of files that entities make in directories: each is listed in a manifest, and what was there before us has a base.
//!
//! This is for entities of many files that are put into place as a whole, such as extracted archives. Manifests take the place of records
//! with a track for each path. Several entities may share a directory, or one may have a directory in another's: each path is on the manifest
//! of one of them, but for directories, which are removed with the last that has them.
//!
//! The steps of a change are those of all stores:
//!
//! 1. *Staged*: the new version is in a staging directory. The manifest lists the files that are about to be replaced, and their bases are
//!    saved. A base that was saved by a killed run is removed by the next one.
//! 2. *Kept*: the manifest lists what may be there from now on: the old version and the new one. A file that is either, or is equal to its
//!    base, is not a user's work. Directories that are going to be made are listed, and paths that are taken over from an orphan are taken
//!    off the orphan's manifest.
//! 3. *Prepared*: the new files are on disk.
//! 4. *Replaced*: files are moved into place one by one, each in one step, and directories that were missing with everything in them; then
//!    those files are removed that the new version does not have.
//! 5. *Recorded*: the manifest lists the new version alone, and the paths whose bases are not needed any more.
//! 6. *Confirmed*: those bases are gone, and so is the staging directory.
//!
//! If an overlay lies over a path, the file that an entity brings is the base of the overlay, and is not removed before the overlay is gone.

mod adoption;
mod change;
mod difference;
mod error;
mod foreign;
mod location;
mod owned_tree;
mod owners;
mod plan;
mod preview;
mod staging;

pub use adoption::Adoption;
pub use change::{NewVersion, TreeChange};
pub use difference::ChangedEntry;
pub use error::TreeError;
pub use owned_tree::{Drift, OwnedTree};
pub use owners::{PathOwners, TreeOwner};
pub use preview::PendingEntry;
pub use staging::StagedTree;

use crate::base_store::BaseStore;
use crate::bases::Bases;
use crate::canonical::CanonicalPaths;
use crate::error::Result;
use crate::locations::Locations;
use crate::manifest::{self, EntryKind, FileDigests, Manifest, ManifestEntry, Ownership};
use crate::path_handle::{Kind, PathHandle, Tree};
use crate::tracked::{Held, MadeDirectories, Overlays, PluginStore, Taken};
use std::cell::RefCell;
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
    digests: Rc<dyn FileDigests>,
    /// The plugin's state directory, beside those of the others.
    plugin: PluginStore,
    locations: Locations,
    /// The paths that entities of other plugins hold, as soon as that is asked for.
    held: Rc<RefCell<Option<Rc<Held>>>>,
    /// Held while directories are made or removed that more than one entity may need.
    directories: Arc<Mutex<()>>,
}

impl TreeStore {
    /// Opens the store in a plugin's state directory. Stores that are used at the same time share the lock of directories.
    ///
    /// # Errors
    /// If the root or the state directory cannot be opened.
    pub fn open(
        locations: &Locations,
        digests: Rc<dyn FileDigests>,
        directories: &Arc<Mutex<()>>,
    ) -> Result<TreeStore> {
        let state = Tree::open(locations.state_dir())?;
        Ok(TreeStore {
            plugin: PluginStore::own(locations, &BaseStore::open(locations)?),
            locations: locations.clone(),
            held: Rc::default(),
            root: Tree::open(locations.root())?,
            bases: Bases::new(&state),
            state,
            overlays: Overlays::of(locations),
            digests,
            directories: Arc::clone(directories),
        })
    }

    /// Returns the root that all paths are below.
    #[must_use]
    pub fn root(&self) -> &Arc<Tree> {
        &self.root
    }

    /// Returns a location in the state directory.
    #[must_use]
    pub fn state(&self, path: &Path) -> PathHandle {
        self.state.place(path)
    }

    /// Returns the file, directory or symlink at a path, in the form of an entry of a manifest.
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

    /// Returns the bases. A path has one, whichever entities have made something there.
    #[must_use]
    pub fn bases(&self) -> &Bases {
        &self.bases
    }

    /// Returns the paths of an entity that others have taken over, and could not tell before they were killed.
    ///
    /// # Errors
    /// If that cannot be read.
    pub fn taken_from(&self, id: &str) -> Result<Vec<PathBuf>> {
        Ok(Taken::read(&self.plugin)?.from(id).to_vec())
    }

    fn held(&self) -> Rc<Held> {
        let read = || Rc::new(Held::read(&self.locations, &self.plugin, &CanonicalPaths::new(&self.root), None));
        Rc::clone(self.held.borrow_mut().get_or_insert_with(read))
    }

    /// Forgets what others may have changed: the directories that were used last, and the paths that entities hold.
    pub fn forget_directories(&self) {
        self.held.take();
        self.root.forget();
        self.state.forget();
    }

    /// Returns the location of the manifest of what an entity has made in a directory.
    #[must_use]
    pub fn manifest(&self, id: &str, directory: &Path) -> PathHandle {
        Manifest::location(&self.state, id, directory)
    }

    /// Keeps other threads from making or removing directories that more than one entity may need.
    pub fn lock_directories(&self) -> MutexGuard<'_, ()> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the directories that entities have made, whichever of them was the first to need one.
    ///
    /// # Errors
    /// If a list cannot be read.
    pub fn made_directories(&self) -> Result<MadeDirectories> {
        MadeDirectories::read(&self.plugin)
    }

    /// Records those directories that do not exist, and are going to be made, or that a plugin of ours has made. The directories are locked.
    ///
    /// # Errors
    /// If one cannot be looked at, or the list cannot be written.
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

    /// Removes what a killed process may have left beside the list of directories.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn tidy_directories(&self) -> Result<()> {
        self.plugin.directories()?.tidy()
    }

    /// Removes what killed processes have not completed. No other one may be at work.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn tidy(&self) -> Result<()> {
        self.bases.tidy()?;
        self.tidy_directories()?;
        self.state.place(&Path::new(manifest::FOLDER).join("x")).remove_replacements()
    }
}

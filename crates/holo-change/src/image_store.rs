//! Images of targets in the layout of version 3: the original ones in `base/`, and the last provisioned ones in
//! `provisioned/`.
//!
//! An image has the mode, owner and extended attributes of its target, so that no separate record is needed.

mod change;

pub use change::ImageChange;

use crate::error::Result;
use crate::image::Image;
use crate::locations::Locations;
use crate::overwriting::are_open_for_writing;
use crate::path_handle::{Durability, PathHandle, TEMPORARY, Tree};
use crate::paths::hex;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use walkdir::WalkDir;

/// The directory of the original images, in the state directory.
pub const BASE: &str = "base";
/// The directory of the last provisioned images.
pub const PROVISIONED: &str = "provisioned";
/// The directory of temporary files, which is removed at the end of an apply.
pub const STAGED: &str = ".staged";

/// The targets below a root directory, and their images in a state directory.
#[derive(Clone, Debug)]
pub struct ImageStore {
    root: Arc<Tree>,
    state: Arc<Tree>,
    /// True once a base could not be moved to its target.
    bases_are_elsewhere: Arc<AtomicBool>,
    /// True once the staging directory, which requests recovery by the next apply, is on disk.
    staging_is_on_disk: Arc<AtomicBool>,
    /// The maximum number of threads.
    threads: usize,
}

impl ImageStore {
    /// Opens the root and the state directory.
    ///
    /// # Errors
    /// If a directory cannot be opened.
    pub fn open(locations: &Locations) -> Result<ImageStore> {
        let (root, state) = (Tree::open(locations.root())?, Tree::open(locations.state_dir())?);
        let (bases_are_elsewhere, staging_is_on_disk) = Default::default();
        Ok(ImageStore { root, state, bases_are_elsewhere, staging_is_on_disk, threads: 1 })
    }

    /// Sets the number of threads for changes of different targets.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> ImageStore {
        ImageStore { threads, ..self }
    }

    /// Returns true if bases are known to be on another mount than targets.
    fn bases_are_elsewhere(&self) -> bool {
        self.bases_are_elsewhere.load(Ordering::Relaxed)
    }

    fn note_bases_are_elsewhere(&self) {
        self.bases_are_elsewhere.store(true, Ordering::Relaxed);
    }

    /// Locks the state directory against other applies until the returned descriptor is closed.
    ///
    /// # Errors
    /// If it cannot be locked.
    pub fn hold(&self) -> Result<OwnedFd> {
        self.state.hold()
    }

    /// Returns the managed file.
    #[must_use]
    pub fn target(&self, path: &Path) -> PathHandle {
        self.root.place(path)
    }

    /// Returns its original image.
    #[must_use]
    pub fn base(&self, path: &Path) -> PathHandle {
        self.state.place(&below(BASE, path))
    }

    /// Returns its last provisioned image.
    #[must_use]
    pub fn provisioned(&self, path: &Path) -> PathHandle {
        self.state.place(&below(PROVISIONED, path))
    }

    /// Returns the future image of the target, which exists from before the target is changed until after the change.
    /// After a crash, it distinguishes unfinished work from manual changes.
    #[must_use]
    pub fn intent(&self, path: &Path) -> PathHandle {
        self.staged(intent_name(path))
    }

    /// Returns the path at which a new base is written before it is moved to its final path.
    fn staged_base(&self, path: &Path) -> PathHandle {
        self.staged(format!("base-{}", path_digest(path)))
    }

    /// Returns a path in the staging directory.
    #[must_use]
    pub fn staged(&self, name: impl AsRef<OsStr>) -> PathHandle {
        self.state.place(&Path::new(STAGED).join(name.as_ref()))
    }

    /// Returns true if an apply was killed, as far as can be detected, or is running.
    #[must_use]
    pub fn is_untidy(&self) -> bool {
        self.staging_folder().exists().unwrap_or(true)
    }

    fn staging_folder(&self) -> PathHandle {
        self.state.place(Path::new(STAGED))
    }

    /// Returns the names of all staged files; `None` if the staging directory does not exist.
    fn all_staged(&self) -> Result<Option<Vec<OsString>>> {
        if self.staging_folder().exists()? { self.staged("x").siblings().map(Some) } else { Ok(None) }
    }

    /// Returns the paths to be synced before the first base is moved away. As long as the staging directory exists, the
    /// next apply performs a recovery.
    fn unsynced_staging(&self) -> Vec<PathHandle> {
        if self.staging_is_on_disk.swap(true, Ordering::Relaxed) {
            return Vec::new();
        }
        vec![self.staging_folder(), self.staged("x")]
    }

    /// Creates the staging directory unless it exists.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create_staging_folder(&self) -> Result<()> {
        self.staged("x").create_folder().map(drop)
    }

    /// Removes the staging directory, unless it contains files of a killed apply that are still needed.
    pub fn remove_staging_folder(&self) {
        self.staged("x").remove_empty_folders(Path::new(""));
    }

    /// Returns another path in the state directory.
    #[must_use]
    pub fn state(&self, path: &Path) -> PathHandle {
        self.state.place(path)
    }

    /// Replaces a base with a copy of itself.
    fn copy_base(&self, path: &Path) -> Result<()> {
        let (base, staged) = (self.base(path), self.staged_base(path));
        let Ok(Some(image)) = Image::load(&base) else { return Ok(()) };
        self.create_staging_folder()?;
        image.write_to(&staged)?;
        Durability::Each.sync([&staged], [])?;
        staged.rename_to(&base)?;
        Durability::Each.sync([], [&base])
    }

    /// Replaces bases that were targets until now with copies if a process may have the target open for writing.
    /// Returns true if all were copied.
    #[must_use]
    pub fn separate_open_bases(&self, paths: &[PathBuf]) -> bool {
        let bases: Vec<PathHandle> = paths.iter().map(|path| self.base(path)).collect();
        let are_open = are_open_for_writing(&bases).unwrap_or_else(|_| vec![true; bases.len()]);
        let open = paths.iter().zip(are_open).filter(|(_, is_open)| *is_open);
        open.fold(true, |all, (path, _)| self.copy_base(path).is_ok() && all)
    }
}

/// Returns the name of an intent. Names are flat, because a nested path might be too long.
fn intent_name(path: &Path) -> String {
    format!("intent-{}", path_digest(path))
}

/// Returns a unique name for a path, short enough for any directory.
#[must_use]
pub fn path_digest(path: &Path) -> String {
    hex(&Sha256::digest(path.as_os_str().as_bytes()))
}

/// Returns the path of a target's file below the state directory. The path of the target begins with a slash.
#[must_use]
pub fn below(folder: &str, path: &Path) -> PathBuf {
    let below = [folder.as_bytes(), path.as_os_str().as_bytes()].concat();
    OsString::from_vec(below).into()
}

/// The intents of a killed apply; nearly always empty.
#[derive(Debug, Default)]
pub struct Recovery {
    intents: HashSet<OsString>,
    was_needed: bool,
}

impl Recovery {
    /// Finds the files of a killed apply, and removes those that no entity needs. `targets` returns the target paths of
    /// all entities; it is only called if there are files.
    ///
    /// # Errors
    /// If a file cannot be examined or removed.
    pub fn begin(
        store: &ImageStore,
        locations: &Locations,
        targets: impl FnOnce() -> Vec<PathBuf>,
    ) -> Result<Recovery> {
        let Some(names) = store.all_staged()? else { return Ok(Recovery::default()) };
        let useful: HashSet<OsString> = targets().iter().map(|path| intent_name(path).into()).collect();
        let mut intents = HashSet::new();
        for name in names {
            if useful.contains(&name) {
                intents.insert(name);
            } else {
                store.staged(&name).remove()?;
            }
        }
        // Some may be the files of former targets, for which open descriptors were not checked yet.
        let _ = store.separate_open_bases(&files_below(&locations.state_dir().join(BASE)));
        for folder in [BASE, PROVISIONED] {
            remove_empty_folders(&locations.state_dir().join(folder), folder, store);
        }
        Ok(Recovery { intents, was_needed: true })
    }

    /// Checks whether files of a killed apply exist, without modifying them.
    ///
    /// # Errors
    /// If this cannot be determined.
    pub fn look(store: &ImageStore) -> Result<Recovery> {
        Ok(Recovery { intents: HashSet::new(), was_needed: store.all_staged()?.is_some() })
    }

    /// Returns true if the staging directory existed, even if it was empty.
    #[must_use]
    pub fn was_needed(&self) -> bool {
        self.was_needed
    }

    /// Recovers the target of a killed apply: if it already has its intended state, that state is recorded. If the base
    /// of the target was moved back, its record is removed; this is unambiguous because an apply saves the base before
    /// it records an image.
    ///
    /// # Errors
    /// If the state cannot be determined or recorded.
    pub fn recover(&self, path: &Path, store: &ImageStore) -> Result<()> {
        if self.was_needed && !store.base(path).exists()? {
            store.provisioned(path).remove()?;
        }
        if !self.intents.contains(&OsString::from(intent_name(path))) {
            return Ok(());
        }
        let (intent, target) = (store.intent(path), store.target(path));
        target.temporary(TEMPORARY).remove()?;
        let (Ok(Some(intended)), Ok(Some(current))) = (Image::load(&intent), Image::load(&target)) else {
            return intent.remove();
        };
        if !current.equals(&intended)? {
            return intent.remove();
        }
        let provisioned = store.provisioned(path);
        provisioned.create_folder()?;
        intent.rename_to(&provisioned)
    }
}

impl ImageStore {
    /// Returns true if a killed apply has moved a base back to its target, but has not removed the record.
    #[must_use]
    pub fn has_records_without_base(&self, locations: &Locations) -> bool {
        let recorded = files_below(&locations.state_dir().join(PROVISIONED));
        recorded.iter().any(|path| !self.base(path).exists().unwrap_or(true))
    }
}

/// Returns the files and symlinks below a directory, as absolute paths relative to it.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let files = WalkDir::new(folder).into_iter().flatten().filter(|entry| !entry.file_type().is_dir());
    let below = files.filter_map(|entry| entry.path().strip_prefix(folder).map(|path| Path::new("/").join(path)).ok());
    below.collect()
}

fn remove_empty_folders(folder: &Path, keep: &str, store: &ImageStore) {
    let below = |path: PathBuf| path.strip_prefix(folder).map(Path::to_owned).ok();
    for entry in WalkDir::new(folder).min_depth(1).contents_first(true).into_iter().flatten() {
        if entry.file_type().is_dir()
            && let Some(below) = below(entry.into_path())
        {
            // Only empty directories can be removed.
            store.state(&Path::new(keep).join(below).join("x")).remove_empty_folders(Path::new(keep));
        }
    }
}

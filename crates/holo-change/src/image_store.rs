//! Images of targets in version 3's layout: as they were found first in `base/`, and as they were written last in `provisioned/`.
//!
//! An image has the mode, the owner and the extended attributes of what it is the image of, so that no other record is needed.

mod change;
mod recovery;

pub use change::ImageChange;
pub use recovery::Recovery;

use crate::error::Result;
use crate::hex::hex;
use crate::image::Image;
use crate::locations::Locations;
use crate::open_files::are_open_for_writing;
use crate::path_handle::{Durability, PathHandle, Tree};
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The folder of the images of targets as they were found first, in the state directory.
pub const BASE: &str = "base";
/// The folder of the images of targets as we wrote them last.
pub const PROVISIONED: &str = "provisioned";
/// The folder of files that are being written; nothing of it is left when an apply has ended.
const STAGED: &str = ".staged";

/// The targets below a root, and their images in a state directory.
#[derive(Clone, Debug)]
pub struct ImageStore {
    root: Arc<Tree>,
    state: Arc<Tree>,
    /// True once it is seen that a base cannot be moved to its target.
    bases_are_elsewhere: Arc<AtomicBool>,
    /// True once it is on disk that something may have to be put in order.
    staging_is_on_disk: Arc<AtomicBool>,
    /// The number of threads that may work at the same time.
    threads: usize,
}

impl ImageStore {
    /// Opens the root and the state directory.
    ///
    /// # Errors
    /// If one of them cannot be opened.
    pub fn open(locations: &Locations) -> Result<ImageStore> {
        let (root, state) = (Tree::open(locations.root())?, Tree::open(locations.state_dir())?);
        let (bases_are_elsewhere, staging_is_on_disk) = Default::default();
        Ok(ImageStore { root, state, bases_are_elsewhere, staging_is_on_disk, threads: 1 })
    }

    /// Has changes of different targets made by so many threads.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> ImageStore {
        ImageStore { threads, ..self }
    }

    /// Returns true if bases are on another mount than targets, as far as is known.
    fn bases_are_elsewhere(&self) -> bool {
        self.bases_are_elsewhere.load(Ordering::Relaxed)
    }

    fn note_bases_are_elsewhere(&self) {
        self.bases_are_elsewhere.store(true, Ordering::Relaxed);
    }

    /// Waits until no other apply works in the state directory, and keeps others waiting until the result is dropped.
    ///
    /// # Errors
    /// If it cannot be locked.
    pub fn hold(&self) -> Result<OwnedFd> {
        self.state.hold()
    }

    /// Returns the file that is managed.
    #[must_use]
    pub fn target(&self, path: &Path) -> PathHandle {
        self.root.place(path)
    }

    /// Returns its image as it was found first.
    #[must_use]
    pub fn base(&self, path: &Path) -> PathHandle {
        self.state.place(&below(BASE, path))
    }

    /// Returns its image as we wrote it last.
    #[must_use]
    pub fn provisioned(&self, path: &Path) -> PathHandle {
        self.state.place(&below(PROVISIONED, path))
    }

    /// Returns the image that the target is going to be, which is there from before the target is changed until after: after a crash, it
    /// tells our unfinished work from a person's.
    #[must_use]
    pub fn intent(&self, path: &Path) -> PathHandle {
        self.staged(intent_name(path))
    }

    /// Returns where a new base is written before it is moved into its place.
    fn staged_base(&self, path: &Path) -> PathHandle {
        self.staged(format!("base-{}", path_digest(path)))
    }

    /// Returns something in the staging folder.
    #[must_use]
    pub fn staged(&self, name: impl AsRef<OsStr>) -> PathHandle {
        self.state.place(&Path::new(STAGED).join(name.as_ref()))
    }

    /// Returns true if an apply was killed, as far as can be seen, or is at work.
    #[must_use]
    pub fn is_untidy(&self) -> bool {
        self.staging_folder().exists().unwrap_or(true)
    }

    fn staging_folder(&self) -> PathHandle {
        self.state.place(Path::new(STAGED))
    }

    /// Returns the names of everything that is staged; none at all if not even the folder exists.
    fn all_staged(&self) -> Result<Option<Vec<OsString>>> {
        if self.staging_folder().exists()? { self.staged("x").siblings().map(Some) } else { Ok(None) }
    }

    /// Returns the places that are synced before the first base is moved away: as long as the staging folder is there, the next apply looks
    /// for what a killed one has left.
    fn unsynced_staging(&self) -> Vec<PathHandle> {
        if self.staging_is_on_disk.swap(true, Ordering::Relaxed) {
            return Vec::new();
        }
        vec![self.staging_folder(), self.staged("x")]
    }

    /// Makes the staging folder, if it is not there.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create_staging_folder(&self) -> Result<()> {
        self.staged("x").create_folder().map(drop)
    }

    /// Removes the staging folder, unless a crash has left something in it that is still needed.
    pub fn remove_staging_folder(&self) {
        self.staged("x").remove_empty_folders(Path::new(""));
    }

    /// Returns something else in the state directory.
    #[must_use]
    pub fn state(&self, path: &Path) -> PathHandle {
        self.state.place(path)
    }

    /// Replaces a base by a copy of it.
    fn copy_base(&self, path: &Path) -> Result<()> {
        let (base, staged) = (self.base(path), self.staged_base(path));
        let Ok(Some(image)) = Image::load(&base) else { return Ok(()) };
        self.create_staging_folder()?;
        image.write_to(&staged)?;
        Durability::Each.sync([&staged], [])?;
        staged.rename_to(&base)?;
        Durability::Each.sync([], [&base])
    }

    /// Replaces bases that were targets until now by copies of them, where some process may have the target open for writing; returns
    /// whether that is done with all of them.
    #[must_use]
    pub fn separate_open_bases(&self, paths: &[PathBuf]) -> bool {
        let bases: Vec<PathHandle> = paths.iter().map(|path| self.base(path)).collect();
        let are_open = are_open_for_writing(&bases).unwrap_or_else(|_| vec![true; bases.len()]);
        let open = paths.iter().zip(are_open).filter(|(_, is_open)| *is_open);
        open.fold(true, |all, (path, _)| self.copy_base(path).is_ok() && all)
    }
}

/// Returns the name of an intent. Staged files have flat names: a path below another folder might be too long.
fn intent_name(path: &Path) -> String {
    format!("intent-{}", path_digest(path))
}

/// Returns a name that no other path gives, and that is short enough for any folder.
#[must_use]
pub fn path_digest(path: &Path) -> String {
    hex(&Sha256::digest(path.as_os_str().as_bytes()))
}

/// Returns the path below the state directory of something that belongs to a target, whose path begins with a slash.
#[must_use]
pub fn below(folder: &str, path: &Path) -> PathBuf {
    let below = [folder.as_bytes(), path.as_os_str().as_bytes()].concat();
    OsString::from_vec(below).into()
}

//! The places of targets, of their images, and of files on their way between them.

use holo_change::error::Result;
use holo_change::{PathHandle, Tree};
use holo_plugin::Host;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fmt::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The images of targets as they were found first, below the state directory.
pub(crate) const BASE: &str = "base";
/// The images of targets as we wrote them last.
pub(crate) const PROVISIONED: &str = "provisioned";
/// The file of the known-unchanged record.
const RECORD: &str = ".unchanged";
/// The folder of files that are being written; nothing of it is left when an apply has ended.
const STAGED: &str = ".staged";

/// The directories that the plugin works in, opened.
#[derive(Debug)]
pub(crate) struct Layout {
    root: Arc<Tree>,
    state: Arc<Tree>,
    resources: Arc<Tree>,
    cache: Arc<Tree>,
}

impl Layout {
    pub(crate) fn open(host: &Host) -> Result<Layout> {
        Ok(Layout {
            root: Tree::open(host.root())?,
            state: Tree::open(host.state_dir())?,
            resources: Tree::open(host.resource_dir())?,
            cache: Tree::open(host.cache_dir())?,
        })
    }

    /// Waits until no other apply works in the state directory, and keeps others waiting until the result is dropped.
    pub(crate) fn hold(&self) -> Result<OwnedFd> {
        self.state.hold()
    }

    /// The file that is managed.
    pub(crate) fn target(&self, path: &Path) -> PathHandle {
        self.root.place(path)
    }

    /// Its image as it was found first.
    pub(crate) fn base(&self, path: &Path) -> PathHandle {
        self.state.place(&below(BASE, path))
    }

    /// Its image as we wrote it last.
    pub(crate) fn provisioned(&self, path: &Path) -> PathHandle {
        self.state.place(&below(PROVISIONED, path))
    }

    /// Returns the place where a new base is written before it is moved into its place.
    pub(crate) fn staged_base(&self, path: &Path) -> PathHandle {
        self.staged(format!("base-{}", hash(path)))
    }

    /// Returns the place of the image that the target is going to be, from before it is changed until after: after a crash, it tells our
    /// unfinished work from a person's.
    pub(crate) fn intent(&self, path: &Path) -> PathHandle {
        self.staged(intent_name(path))
    }

    /// Anything in the staging folder.
    pub(crate) fn staged(&self, name: impl AsRef<Path>) -> PathHandle {
        self.state.place(&Path::new(STAGED).join(name))
    }

    /// The names of everything that is staged; none at all if not even the folder exists.
    pub(crate) fn all_staged(&self) -> Result<Option<Vec<OsString>>> {
        let folder = self.state.place(Path::new(STAGED));
        if folder.exists()? { self.staged("x").siblings().map(Some) } else { Ok(None) }
    }

    pub(crate) fn create_staging_folder(&self) -> Result<()> {
        self.staged("x").create_folder().map(drop)
    }

    /// Removes the folder, unless a crash has left something in it that is still needed.
    pub(crate) fn remove_staging_folder(&self) {
        self.staged("x").remove_empty_folders(Path::new(""));
    }

    /// Returns the place of the record of what earlier applies have found to be unchanged.
    pub(crate) fn record(&self) -> PathHandle {
        self.state.place(Path::new(RECORD))
    }

    /// Any place in the state directory.
    pub(crate) fn state(&self, path: &Path) -> PathHandle {
        self.state.place(path)
    }

    /// A resource file, by its path below the resource directory.
    pub(crate) fn resource(&self, path: &Path) -> PathHandle {
        self.resources.place(path)
    }

    /// Returns the place where the result of a holoscript is written.
    pub(crate) fn script_result(&self, path: &Path, index: usize) -> PathHandle {
        self.cache.place(Path::new(&format!("result-{index}-{}", hash(path))))
    }

    /// Forgets the directories that were used last; others may have moved them since.
    pub(crate) fn forget(&self) {
        for tree in [&self.root, &self.state, &self.resources, &self.cache] {
            tree.forget();
        }
    }
}

/// Returns the name of an intent. Staged files have flat names: a path below another folder might be too long.
pub(crate) fn intent_name(path: &Path) -> String {
    format!("intent-{}", hash(path))
}

fn hash(path: &Path) -> String {
    Sha256::digest(path.as_os_str().as_bytes()).iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The path below the state directory of something that belongs to an entity.
pub(crate) fn below(folder: &str, path: &Path) -> PathBuf {
    // An entity's path begins with a slash.
    let below = [folder.as_bytes(), path.as_os_str().as_bytes()].concat();
    OsString::from_vec(below).into()
}

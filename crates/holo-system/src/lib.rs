//! The machine below a root: its distribution, its package manager, its init system.
//!
//! Everything is read below the root only. A symlink, absolute or not, never leads out of it.
//!
//! ```
//! use holo_system::System;
//!
//! let root = tempfile::tempdir().unwrap();
//! std::fs::create_dir_all(root.path().join("usr/lib")).unwrap();
//! std::fs::write(root.path().join("usr/lib/os-release"), "ID=fedora\n").unwrap();
//! let system = System::new(root.path());
//! assert_eq!(system.os_release().ids(), ["fedora"]);
//! assert_eq!(system.package_manager().unwrap().name, "dnf");
//! ```

mod init;
mod os_release;
mod package_files;
pub mod package_manager;
mod root;

pub use init::{init_system, installed_init_system, is_run_by_openrc, is_run_by_systemd};
pub use os_release::OsRelease;
pub use package_files::{Digest, PackagedFile};
pub use package_manager::PackageManager;
pub use root::{Root, content};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A system, each part of which is read when it is first asked for.
#[derive(Clone, Debug)]
pub struct System {
    root: PathBuf,
    os_release: OnceLock<OsRelease>,
    package_manager: OnceLock<Option<&'static PackageManager>>,
}

impl System {
    /// The system below a root. Nothing is read yet.
    #[must_use]
    pub fn new(root: &Path) -> System {
        System { root: root.to_owned(), os_release: OnceLock::new(), package_manager: OnceLock::new() }
    }

    /// The distribution.
    pub fn os_release(&self) -> &OsRelease {
        self.os_release.get_or_init(|| OsRelease::read(&Root::new(&self.root)))
    }

    /// Returns how much speaks for a package manager; 0 if nothing does.
    pub fn rank(&self, manager: &PackageManager) -> u8 {
        manager.rank(&Root::new(&self.root), self.os_release())
    }

    /// Returns which of these files packages own, by their paths, which are absolute below the root. All of them are looked up at once. What
    /// cannot be found out is nobody's.
    #[must_use]
    pub fn packaged_files(&self, paths: &[PathBuf]) -> BTreeMap<PathBuf, PackagedFile> {
        let root = Root::new(&self.root);
        self.package_manager().map(|manager| package_files::find(manager, &root, paths)).unwrap_or_default()
    }

    /// The package manager, if there is one that is known.
    pub fn package_manager(&self) -> Option<&'static PackageManager> {
        *self.package_manager.get_or_init(|| package_manager::of_system(&Root::new(&self.root), self.os_release()))
    }
}

//! The machine below a root: its distribution, package manager and init system.
//!
//! All files are read below the root. No symlink, absolute or not, leads out of it.
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

/// A system whose properties are read on first use.
#[derive(Clone, Debug)]
pub struct System {
    root: PathBuf,
    os_release: OnceLock<OsRelease>,
    package_manager: OnceLock<Option<&'static PackageManager>>,
}

impl System {
    /// Returns the system below a root. Nothing is read yet.
    #[must_use]
    pub fn new(root: &Path) -> System {
        System { root: root.to_owned(), os_release: OnceLock::new(), package_manager: OnceLock::new() }
    }

    /// Returns the content of os-release.
    pub fn os_release(&self) -> &OsRelease {
        self.os_release.get_or_init(|| OsRelease::read(&Root::new(&self.root)))
    }

    /// Returns how likely a package manager is that of this system; 0 if there is no evidence for it.
    pub fn rank(&self, manager: &PackageManager) -> u8 {
        manager.rank(&Root::new(&self.root), self.os_release())
    }

    /// Returns those of these files that packages own, by path. Paths are absolute below the root. All of them are
    /// looked up at once; files whose owner cannot be determined are left out.
    #[must_use]
    pub fn packaged_files(&self, paths: &[PathBuf]) -> BTreeMap<PathBuf, PackagedFile> {
        let root = Root::new(&self.root);
        self.package_manager().map(|manager| package_files::find(manager, &root, paths)).unwrap_or_default()
    }

    /// Returns the package manager; `None` if it is unknown.
    pub fn package_manager(&self) -> Option<&'static PackageManager> {
        *self.package_manager.get_or_init(|| package_manager::of_system(&Root::new(&self.root), self.os_release()))
    }
}

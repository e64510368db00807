//! The directories that a plugin works in.

use std::path::{Path, PathBuf};

/// The root of the system that is managed, and the directories that the plugin has for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locations {
    root: PathBuf,
    state_dir: PathBuf,
    cache_dir: PathBuf,
}

impl Locations {
    /// Creates the locations from a root and two directories, whose parents have those of the other plugins.
    #[must_use]
    pub fn new(root: PathBuf, state_dir: PathBuf, cache_dir: PathBuf) -> Locations {
        Locations { root, state_dir, cache_dir }
    }

    /// Returns the root of the system that is managed.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory of what later runs need.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Returns the directory of what only this run needs.
    #[must_use]
    pub fn cache_dir(&self) -> &Path {
        &self.cache_dir
    }
}

//! The directories of a plugin.

use std::path::{Path, PathBuf};

/// The root directory of the managed system, and the plugin's own directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locations {
    root: PathBuf,
    state_dir: PathBuf,
    cache_dir: PathBuf,
}

impl Locations {
    /// Creates the locations. The parents of the state and cache directories contain those of the other plugins.
    #[must_use]
    pub fn new(root: PathBuf, state_dir: PathBuf, cache_dir: PathBuf) -> Locations {
        Locations { root, state_dir, cache_dir }
    }

    /// Returns the root directory of the managed system.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory for persistent state.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Returns the directory for temporary files of this run.
    #[must_use]
    pub fn cache_dir(&self) -> &Path {
        &self.cache_dir
    }
}

//! Canonical paths.

use holo_change::{CanonicalPaths, Tree};
use holo_plugin::Host;
use std::path::{Path, PathBuf};

/// Determines canonical paths, with a cache.
pub(crate) struct Paths {
    canonical: Option<CanonicalPaths>,
}

impl Paths {
    pub(crate) fn new(host: &Host) -> Paths {
        Paths { canonical: Tree::open(host.root()).ok().map(|root| CanonicalPaths::new(&root)) }
    }

    /// Returns the canonical form of a path, or the path itself if that cannot be determined.
    pub(crate) fn canonical(&self, path: &Path) -> PathBuf {
        self.canonical.as_ref().and_then(|canonical| canonical.of(path).ok()).unwrap_or_else(|| path.to_owned())
    }

    /// Returns the symlinks in a path, as far as they can be determined.
    pub(crate) fn symlinks(&self, path: &Path) -> Vec<PathBuf> {
        self.canonical.as_ref().and_then(|canonical| canonical.symlinks(path).ok()).unwrap_or_default()
    }
}

//! What paths lead to.

use holo_change::{CanonicalPaths, Tree};
use holo_plugin::Host;
use std::path::{Path, PathBuf};

/// Finds the canonical paths of many.
pub(crate) struct Paths {
    canonical: Option<CanonicalPaths>,
}

impl Paths {
    pub(crate) fn new(host: &Host) -> Paths {
        Paths { canonical: Tree::open(host.root()).ok().map(|root| CanonicalPaths::new(&root)) }
    }

    /// Returns the path itself if it cannot be looked at.
    pub(crate) fn canonical(&self, path: &Path) -> PathBuf {
        self.canonical.as_ref().and_then(|canonical| canonical.of(path).ok()).unwrap_or_else(|| path.to_owned())
    }

    /// Returns the symlinks that a path leads through, as far as that can be looked at.
    pub(crate) fn symlinks(&self, path: &Path) -> Vec<PathBuf> {
        self.canonical.as_ref().and_then(|canonical| canonical.symlinks(path).ok()).unwrap_or_default()
    }
}

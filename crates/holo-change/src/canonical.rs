//! Canonical paths, whose parents contain no symlinks: each file has one, however its path is spelled.

use crate::error::Result;
use crate::path_handle::Tree;
use crate::resolution::{Links, Resolved};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Determines canonical paths, and caches the results for directories.
///
/// A symlink that is not [trusted](Links) is not resolved: paths below it remain as given, and an operation on such a
/// path reports why it is refused.
#[derive(Clone, Debug)]
pub struct CanonicalPaths {
    root: Arc<Tree>,
    /// The results, by directory as spelled.
    found: Arc<Mutex<HashMap<PathBuf, Resolved>>>,
}

impl CanonicalPaths {
    /// Creates an empty cache for paths below a root.
    #[must_use]
    pub fn new(root: &Arc<Tree>) -> CanonicalPaths {
        CanonicalPaths { root: Arc::clone(root), found: Arc::default() }
    }

    /// Returns a path with the symlinks in its parents resolved, as far as they exist and may be followed.
    ///
    /// # Errors
    /// If a component cannot be examined.
    pub fn of(&self, path: &Path) -> Result<PathBuf> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(path.to_owned()) };
        Ok(self.directory(parent)?.path.join(name))
    }

    /// Returns the current canonical path, bypassing the cache.
    pub(crate) fn afresh(&self, path: &Path) -> Result<PathBuf> {
        Ok(self.root.resolve(path, false, Links::TrustedElseKept)?.path)
    }

    /// Returns the canonical paths of the symlinks in the parents of a path.
    ///
    /// # Errors
    /// If a component cannot be examined.
    pub fn symlinks(&self, path: &Path) -> Result<Vec<PathBuf>> {
        path.parent().map_or(Ok(Vec::new()), |parent| Ok(self.directory(parent)?.symlinks))
    }

    fn directory(&self, path: &Path) -> Result<Resolved> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        if let Some(found) = found {
            return Ok(found);
        }
        let resolved = self.root.resolve(path, true, Links::TrustedElseKept)?;
        self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), resolved.clone());
        Ok(resolved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_last_part_is_what_a_path_is_about() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        symlink("a", folder.path().join("relative")).unwrap();
        let canonical = CanonicalPaths::new(&Tree::open(folder.path()).unwrap());
        for (path, expected) in [("/relative/b/x", "/a/b/x"), ("/relative", "/relative"), ("/missing/x", "/missing/x")]
        {
            assert_eq!(canonical.of(Path::new(path)).unwrap(), Path::new(expected), "{path}");
            assert_eq!(canonical.afresh(Path::new(path)).unwrap(), Path::new(expected), "{path}");
        }
        assert_eq!(canonical.symlinks(Path::new("/relative/x")).unwrap(), [Path::new("/relative")]);
    }

    #[test]
    fn what_was_found_holds_until_it_is_asked_for_afresh() {
        let folder = tempfile::tempdir().unwrap();
        symlink("a", folder.path().join("link")).unwrap();
        let canonical = CanonicalPaths::new(&Tree::open(folder.path()).unwrap());
        let path = Path::new("/link/x");
        assert_eq!(canonical.of(path).unwrap(), Path::new("/a/x"));
        fs::remove_file(folder.path().join("link")).unwrap();
        symlink("b", folder.path().join("link")).unwrap();
        assert_eq!(canonical.of(path).unwrap(), Path::new("/a/x"));
        assert_eq!(canonical.afresh(path).unwrap(), Path::new("/b/x"));
    }
}

//! Paths without symlinks in their parents: the same file has one of them, however it is spelled.

use crate::error::Result;
use crate::path_handle::Tree;
use crate::resolution::{Links, Resolved};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Finds canonical paths; what it has found of a directory holds as long as it lives.
///
/// A symlink that is not [trusted](Links) leads nowhere: what is below it has the path that it was given, and an operation there says why
/// it is refused.
#[derive(Clone, Debug)]
pub struct CanonicalPaths {
    root: Arc<Tree>,
    /// By the directory as it is spelled.
    found: Arc<Mutex<HashMap<PathBuf, Resolved>>>,
}

impl CanonicalPaths {
    /// Creates a finder of canonical paths below a root.
    #[must_use]
    pub fn new(root: &Arc<Tree>) -> CanonicalPaths {
        CanonicalPaths { root: Arc::clone(root), found: Arc::default() }
    }

    /// Returns the path with the symlinks in its parents resolved, as far as they are there and may be followed.
    ///
    /// # Errors
    /// If a part of it cannot be looked at.
    pub fn of(&self, path: &Path) -> Result<PathBuf> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(path.to_owned()) };
        Ok(self.directory(parent)?.path.join(name))
    }

    /// Returns the canonical path as it is now, whatever was found before.
    pub(crate) fn afresh(&self, path: &Path) -> Result<PathBuf> {
        Ok(self.root.resolve(path, false, Links::TrustedElseKept)?.path)
    }

    /// Returns the symlinks in a path's parents, each by its canonical path.
    ///
    /// # Errors
    /// If a part of it cannot be looked at.
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

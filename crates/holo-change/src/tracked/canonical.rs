//! Paths without symlinks in their parents: the same file has one of them, however it is spelled.

use crate::error::{PathError, Result};
use crate::path_handle::{Kind, Tree};
use crate::{directory, paths};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Finds canonical paths; what it has found of a directory holds as long as it lives.
#[derive(Clone, Debug)]
pub struct Canonical {
    root: Arc<Tree>,
    known: Arc<Mutex<HashMap<PathBuf, Way>>>,
}

/// The directory that a path leads to.
#[derive(Clone, Debug)]
struct Way {
    directory: PathBuf,
    /// The symlinks that it leads through, each by its canonical path.
    symlinks: Vec<PathBuf>,
}

impl Canonical {
    /// Canonical paths below this root.
    #[must_use]
    pub fn new(root: &Arc<Tree>) -> Canonical {
        Canonical { root: Arc::clone(root), known: Arc::default() }
    }

    /// The path with the symlinks in its parents resolved, as far as they are there and may be followed.
    ///
    /// # Errors
    /// If a part of it cannot be looked at.
    pub fn of(&self, path: &Path) -> Result<PathBuf> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(path.to_owned()) };
        Ok(self.way(parent)?.directory.join(name))
    }

    /// The canonical path as it is now, whatever was found before.
    pub(super) fn afresh(&self, path: &Path) -> Result<PathBuf> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(path.to_owned()) };
        Ok(self.resolve(parent)?.directory.join(name))
    }

    /// The symlinks in a path's parents, each by its canonical path.
    ///
    /// # Errors
    /// If a part of it cannot be looked at.
    pub fn symlinks(&self, path: &Path) -> Result<Vec<PathBuf>> {
        path.parent().map_or(Ok(Vec::new()), |parent| Ok(self.way(parent)?.symlinks))
    }

    fn way(&self, path: &Path) -> Result<Way> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = self.resolve(path)?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), found.clone());
        Ok(found)
    }

    fn resolve(&self, path: &Path) -> Result<Way> {
        let mut parts: VecDeque<OsString> = parts(path).collect();
        let mut way = PathBuf::from("/");
        let mut symlinks = Vec::new();
        while let Some(part) = parts.pop_front() {
            if part == ".." {
                way.pop();
                continue;
            }
            let next = way.join(&part);
            let place = self.root.place(&next);
            match place.stat()? {
                // One that is not followed is no way to anywhere: an operation below it says so.
                Some(stat) if stat.kind == Kind::Symlink && directory::is_trusted(stat.uid) => {
                    symlinks.push(next);
                    if symlinks.len() > directory::MAX_SYMLINKS as usize {
                        return Err(PathError::new("follow", place.shown(), Errno::LOOP));
                    }
                    let target = PathBuf::from(OsString::from_vec(place.read_link()?));
                    if target.is_absolute() {
                        way = PathBuf::from("/");
                    }
                    self::parts(paths::without_root(&target)).rev().for_each(|part| parts.push_front(part));
                }
                Some(_) => way = next,
                None => {
                    way = next;
                    way.extend(parts);
                    break;
                }
            }
        }
        Ok(Way { directory: way, symlinks })
    }
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn one_file_has_one_canonical_path() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        symlink("a", folder.path().join("relative")).unwrap();
        symlink("/a/b", folder.path().join("absolute")).unwrap();
        symlink("../../a", folder.path().join("a/up")).unwrap();
        symlink("circle", folder.path().join("circle")).unwrap();
        symlink("nowhere/at/all", folder.path().join("dangling")).unwrap();
        let canonical = Canonical::new(&Tree::open(folder.path()).unwrap());
        for (path, expected) in [
            ("/a/b/x", "/a/b/x"),
            ("/relative/b/x", "/a/b/x"),
            ("/absolute/x", "/a/b/x"),
            ("/a/up/b/x", "/a/b/x"),
            // The last part is what it is about.
            ("/relative", "/relative"),
            ("/missing/deep/x", "/missing/deep/x"),
            ("/absolute/missing/x", "/a/b/missing/x"),
            ("/dangling/x", "/nowhere/at/all/x"),
        ] {
            assert_eq!(canonical.of(Path::new(path)).unwrap(), Path::new(expected), "{path}");
        }
        assert!(canonical.of(Path::new("/circle/x")).is_err());
        let symlinks = canonical.symlinks(Path::new("/relative/up/x")).unwrap();
        assert_eq!(symlinks, [Path::new("/relative"), Path::new("/a/up")]);
    }
}

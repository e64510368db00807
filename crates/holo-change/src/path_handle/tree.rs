//! Directories whose content is found without following others' symlinks.

use super::{FileStat, PathHandle};
use crate::directory;
use crate::error::{PathError, Result, at};
use crate::paths::{join, without_root};
use crate::resolution::{Links, Resolved, resolve_below};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The number of directories that a tree keeps open: those that one entity needs at a time.
const KEPT_DIRECTORIES: usize = 4;

/// A directory, and everything below it.
///
/// Paths in it are found without following the symlinks of users who could not change what they point to
/// themselves, and an absolute symlink stays below the directory.
#[derive(Debug)]
pub struct Tree {
    pub(super) root: OwnedFd,
    pub(super) shown: PathBuf,
    pub(super) links: Links,
    /// The directories that were used last: entities come in the order of their paths.
    pub(super) last: Mutex<VecDeque<(PathBuf, Arc<Directory>)>>,
}

/// An open directory, for use with the `*at` system calls only.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) opened: OwnedFd,
    /// True if new files get an ACL from it, once that was asked.
    pub(super) has_default_acl: OnceLock<bool>,
}

impl Deref for Directory {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.opened
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.opened.as_fd()
    }
}

impl Tree {
    /// Opens the directory.
    ///
    /// # Errors
    /// If it does not exist or may not be entered.
    pub fn open(path: &Path) -> Result<Arc<Tree>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(at("open", path))?;
        Ok(Arc::new(Tree { root, shown: path.to_owned(), links: Links::Trusted, last: Mutex::default() }))
    }

    /// Opens the same directory once more, for another thread: those with the same open directories would wait for one another.
    ///
    /// # Errors
    /// If it may not be entered any more.
    pub fn reopen(&self) -> Result<Arc<Tree>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(&self.root, ".", flags, Mode::empty()).map_err(at("open", &self.shown))?;
        Ok(Arc::new(Tree { root, shown: self.shown.clone(), links: self.links, last: Mutex::default() }))
    }

    /// The place of a path below the directory, whether or not it begins with a slash.
    #[must_use]
    pub fn place(self: &Arc<Tree>, path: &Path) -> PathHandle {
        PathHandle { tree: Arc::clone(self), path: without_root(path).to_owned() }
    }

    /// Opens a directory in it as a tree of its own, in which no symlink is followed.
    ///
    /// # Errors
    /// If it does not exist, may not be entered, or is behind a symlink that is not followed.
    pub fn subtree(&self, path: &Path) -> Result<Arc<Tree>> {
        let shown = join(&self.shown, path);
        let root = directory::open_below(&self.root, without_root(path), self.links).map_err(at("open", &shown))?;
        Ok(Arc::new(Tree { root, shown, links: Links::None, last: Mutex::default() }))
    }

    /// Returns the properties of the directory itself.
    ///
    /// # Errors
    /// If they cannot be told.
    pub fn stat(&self) -> Result<FileStat> {
        rustix::fs::fstat(&self.root).map(FileStat::from).map_err(at("stat", &self.shown))
    }

    /// Resolves a path in the directory: the result begins with a slash and has no symlinks in its parents; the last part is
    /// followed too if `last` is set. Parts that do not exist are normalised lexically. It identifies things that have several names.
    ///
    /// # Errors
    /// If that cannot be told, or a symlink on the way is not followed.
    pub fn resolve(&self, path: &Path, last: bool, links: Links) -> Result<Resolved> {
        resolve_below(&self.root, path, last, links).map_err(at("follow", &join(&self.shown, path)))
    }

    /// Returns the path that a path [resolves](Tree::resolve) to; another user's symlink on the way is an error.
    ///
    /// # Errors
    /// If that cannot be told, or a symlink on the way is not followed.
    pub fn canonical(&self, path: &Path, last: bool) -> Result<PathBuf> {
        Ok(self.resolve(path, last, Links::Trusted)?.path)
    }

    /// Waits until no other process holds the directory, and holds it until the result is dropped.
    ///
    /// Of two dispatchers, one may have been killed while its plugin still works.
    ///
    /// # Errors
    /// If the directory cannot be read or its file system has no locks.
    pub fn hold(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&self.root, ".", flags, Mode::empty()).map_err(at("open", &self.shown))?;
        rustix::fs::flock(&directory, FlockOperation::LockExclusive).map_err(at("lock", &self.shown))?;
        Ok(directory)
    }

    /// Holds the directory as [`Tree::hold`] does, unless another process does.
    ///
    /// # Errors
    /// If the directory cannot be read or its file system has no locks.
    pub(crate) fn try_hold(&self) -> Result<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&self.root, ".", flags, Mode::empty()).map_err(at("open", &self.shown))?;
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(directory)),
            Err(Errno::AGAIN) => Ok(None),
            Err(errno) => Err(PathError::new("lock", self.shown.clone(), errno)),
        }
    }

    /// Forgets the directories that were used last: others may have moved them since.
    pub fn forget(&self) {
        self.last().clear();
    }

    fn last(&self) -> std::sync::MutexGuard<'_, VecDeque<(PathBuf, Arc<Directory>)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a directory is among those that were used last, and has not been removed since.
    pub(super) fn has(&self, path: &Path) -> bool {
        let mut last = self.last();
        let mut numbered = last.iter().enumerate();
        let Some((number, (_, directory))) = numbered.find(|(_, (kept, _))| kept == path) else { return false };
        let is_there = rustix::fs::fstat(&**directory).is_ok_and(|stat| stat.st_nlink > 0);
        if !is_there {
            last.remove(number);
        }
        is_there
    }

    pub(super) fn directory(&self, path: &Path) -> io::Result<Arc<Directory>> {
        let mut last = self.last();
        if let Some((_, directory)) = last.iter().find(|(kept, _)| kept == path) {
            return Ok(Arc::clone(directory));
        }
        let opened = directory::open_below(&self.root, path, self.links)?;
        let directory = Arc::new(Directory { opened, has_default_acl: OnceLock::new() });
        last.push_front((path.to_owned(), Arc::clone(&directory)));
        last.truncate(KEPT_DIRECTORIES);
        Ok(directory)
    }
}

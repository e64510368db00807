//! Directory trees, opened and accessed without following untrusted symlinks.

use super::{FileStat, PathHandle};
use crate::error::{PathError, Result, at};
use crate::paths::{join, without_root};
use crate::resolution::{Links, Resolved, Way, open_plain, resolve_below};
use rustix::fs::{FlockOperation, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The number of directories that are kept open, as many as one entity needs at a time.
const KEPT_DIRECTORIES: usize = 4;

/// A directory with its contents.
///
/// Paths are resolved without following symlinks of users who could not change their targets themselves. Absolute
/// symlinks stay below the directory.
#[derive(Debug)]
pub struct Tree {
    pub(super) root: OwnedFd,
    pub(super) shown: PathBuf,
    pub(super) links: Links,
    /// The most recently used directories; entities are processed in the order of their paths.
    pub(super) last: Mutex<VecDeque<(PathBuf, Arc<Directory>)>>,
}

/// An open directory, only for use with the `*at` system calls.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) opened: OwnedFd,
    /// Whether new files inherit an ACL, determined on first use.
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
    /// Opens a directory.
    ///
    /// # Errors
    /// If it does not exist, or cannot be entered.
    pub fn open(path: &Path) -> Result<Arc<Tree>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(at("open", path))?;
        Ok(Arc::new(Tree { root, shown: path.to_owned(), links: Links::Trusted, last: Mutex::default() }))
    }

    /// Opens the directory again, for another thread. Threads that share open directories would contend for them.
    ///
    /// # Errors
    /// If it cannot be entered any more.
    pub fn reopen(&self) -> Result<Arc<Tree>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(&self.root, ".", flags, Mode::empty()).map_err(at("open", &self.shown))?;
        Ok(Arc::new(Tree { root, shown: self.shown.clone(), links: self.links, last: Mutex::default() }))
    }

    /// Returns the handle for a path below the directory, with or without leading slash.
    #[must_use]
    pub fn place(self: &Arc<Tree>, path: &Path) -> PathHandle {
        PathHandle { tree: Arc::clone(self), path: without_root(path).to_owned() }
    }

    /// Opens a directory below this one as a separate tree, in which no symlinks are followed.
    ///
    /// # Errors
    /// If it does not exist, cannot be entered, or is behind a symlink that is not followed.
    pub fn subtree(&self, path: &Path) -> Result<Arc<Tree>> {
        let shown = join(&self.shown, path);
        let root = open_below(&self.root, without_root(path), self.links).map_err(at("open", &shown))?;
        Ok(Arc::new(Tree { root, shown, links: Links::None, last: Mutex::default() }))
    }

    /// Returns the properties of the directory itself.
    ///
    /// # Errors
    /// If they cannot be determined.
    pub fn stat(&self) -> Result<FileStat> {
        rustix::fs::fstat(&self.root).map(FileStat::from).map_err(at("stat", &self.shown))
    }

    /// Resolves a path in the tree. The result begins with a slash, and has no symlinks in its parents; the last
    /// component is followed too if `last` is set. Components that do not exist are normalised lexically. The result
    /// identifies files with several paths.
    ///
    /// # Errors
    /// If it cannot be determined, or a symlink is not followed.
    pub fn resolve(&self, path: &Path, last: bool, links: Links) -> Result<Resolved> {
        resolve_below(&self.root, path, last, links).map_err(at("follow", &join(&self.shown, path)))
    }

    /// Returns the path that a path [resolves](Tree::resolve) to. Symlinks of other users are an error.
    ///
    /// # Errors
    /// If it cannot be determined, or a symlink is not followed.
    pub fn canonical(&self, path: &Path, last: bool) -> Result<PathBuf> {
        Ok(self.resolve(path, last, Links::Trusted)?.path)
    }

    /// Locks the directory against other processes until the result is dropped. Waits if it is locked.
    ///
    /// A dispatcher may have been killed while its plugin is still running.
    ///
    /// # Errors
    /// If the directory cannot be read, or its file system does not support locks.
    pub fn hold(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&self.root, ".", flags, Mode::empty()).map_err(at("open", &self.shown))?;
        rustix::fs::flock(&directory, FlockOperation::LockExclusive).map_err(at("lock", &self.shown))?;
        Ok(directory)
    }

    /// Like [`Tree::hold`], but returns `None` if another process holds the lock.
    ///
    /// # Errors
    /// If the directory cannot be read, or its file system does not support locks.
    pub(crate) fn try_hold(&self) -> Result<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&self.root, ".", flags, Mode::empty()).map_err(at("open", &self.shown))?;
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(directory)),
            Err(Errno::AGAIN) => Ok(None),
            Err(errno) => Err(PathError::new("lock", self.shown.clone(), errno)),
        }
    }

    /// Drops cached directories, which other processes may have moved.
    pub fn forget(&self) {
        self.last().clear();
    }

    fn last(&self) -> std::sync::MutexGuard<'_, VecDeque<(PathBuf, Arc<Directory>)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a directory is cached and has not been removed.
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
        let opened = open_below(&self.root, path, self.links)?;
        let directory = Arc::new(Directory { opened, has_default_acl: OnceLock::new() });
        last.push_front((path.to_owned(), Arc::clone(&directory)));
        last.truncate(KEPT_DIRECTORIES);
        Ok(directory)
    }
}

/// Opens a directory below `root`, for use with the `*at` system calls.
///
/// If no component of the path is a symlink, which is nearly always the case, this takes a single system call. Absolute
/// symlinks are relative to `root`.
///
/// # Errors
/// Those of the system, and a specific one for symlinks of other users.
fn open_below(root: impl AsFd, path: &Path, links: Links) -> io::Result<OwnedFd> {
    match open_plain(root.as_fd(), path) {
        // ENOSYS: an old kernel; EPERM: a sandbox that does not support the call; EXDEV: a path with `..`; EAGAIN: a
        // concurrent rename anywhere during the lookup of such a path.
        Err(Errno::LOOP | Errno::NOSYS | Errno::PERM | Errno::XDEV | Errno::AGAIN) => {
            Way::follow(root.as_fd(), path, links)?.into_directory(root.as_fd())
        }
        opened => Ok(opened?),
    }
}

/// Creates a directory and its missing parents, with mode 0755. Returns those that were created, topmost first.
///
/// Below the home of a user, they belong to that user, who could not use them otherwise: to the owner of the directory in which they are
/// created, unless that is a system account.
pub(crate) fn create_below(root: impl AsFd, path: &Path, links: Links) -> io::Result<Vec<PathBuf>> {
    let mut missing = Vec::new();
    for ancestor in path.ancestors() {
        match open_below(&root, ancestor, links) {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(ancestor.to_owned()),
            Err(error) => return Err(error),
        }
    }
    missing.reverse();
    for directory in &missing {
        let parent = open_below(&root, directory.parent().unwrap_or(Path::new("")), links)?;
        let name = directory.file_name().ok_or(Errno::INVAL)?;
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => leave_to_user(&parent, name)?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(missing)
}

/// The lowest UID of people, as in the configuration that distributions ship with `useradd`.
const FIRST_USER: u32 = 1000;

/// Gives a new directory to the owner of the one that contains it if that is a user. The user may replace it meanwhile, but only by another
/// directory in its own one.
fn leave_to_user(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let owner = rustix::fs::fstat(parent)?;
    if owner.st_uid < FIRST_USER || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    Ok(rustix::fs::fchown(made, Some(Uid::from_raw(owner.st_uid)), Some(Gid::from_raw(owner.st_gid)))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt, symlink};

    fn inode(fd: &OwnedFd) -> u64 {
        rustix::fs::fstat(fd).unwrap().st_ino
    }

    #[test]
    fn finds_what_the_system_finds_below_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir_all(path.join("a/b")).unwrap();
        symlink("a", path.join("relative")).unwrap();
        symlink("/a/b", path.join("absolute")).unwrap();
        symlink("../../../../a", path.join("a/up")).unwrap();
        symlink("circle", path.join("circle")).unwrap();
        fs::write(path.join("file"), "").unwrap();
        let root = File::open(path).unwrap();
        let b = fs::metadata(path.join("a/b")).unwrap().ino();
        for way in ["a/b", "relative/b", "absolute", "a/up/b", "a/up/up/../relative/b", "./a//b/", "../a/b"] {
            assert_eq!(inode(&open_below(&root, Path::new(way), Links::Trusted).unwrap()), b, "{way}");
        }
        assert_eq!(
            inode(&open_below(&root, Path::new(""), Links::Trusted).unwrap()),
            fs::metadata(path).unwrap().ino()
        );
        for (way, errno) in
            [("c", Errno::NOENT), ("file", Errno::NOTDIR), ("file/x", Errno::NOTDIR), ("circle/x", Errno::LOOP)]
        {
            let error = open_below(&root, Path::new(way), Links::Trusted).unwrap_err();
            assert_eq!(Errno::from_io_error(&error), Some(errno), "{way}");
        }
        assert_eq!(inode(&open_below(&root, Path::new("a/b"), Links::None).unwrap()), b);
        for way in ["relative/b", "absolute", "a/up"] {
            let error = open_below(&root, Path::new(way), Links::None).unwrap_err();
            assert!(error.to_string().contains("on the way is a symlink"), "{error}");
        }
    }

    #[test]
    fn does_not_follow_the_symlinks_of_others() {
        if !rustix::process::geteuid().is_root() {
            // Only root can create files of other users.
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for directory in ["home", "secret"] {
            fs::create_dir(path.join(directory)).unwrap();
        }
        symlink("../secret", path.join("home/link")).unwrap();
        let root = File::open(path).unwrap();
        let open = || open_below(&root, Path::new("home/link"), Links::Trusted);
        assert!(open().is_ok());
        std::os::unix::fs::lchown(path.join("home/link"), Some(1234), None).unwrap();
        assert!(open().unwrap_err().to_string().contains("link on the way is a symlink of another user"));
        std::os::unix::fs::lchown(path.join("home/link"), Some(0), None).unwrap();
        std::os::unix::fs::lchown(path.join("home"), Some(1234), None).unwrap();
        assert!(open().unwrap_err().to_string().contains("link on the way is a symlink of another user"));
    }

    #[test]
    fn makes_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let root = File::open(folder.path()).unwrap();
        let made = create_below(&root, Path::new("a/b/c"), Links::Trusted).unwrap();
        assert_eq!(made, [Path::new("a"), Path::new("a/b"), Path::new("a/b/c")]);
        assert_eq!(create_below(&root, Path::new("a/b/c"), Links::Trusted).unwrap(), [] as [&Path; 0]);
        assert_eq!(create_below(&root, Path::new("a/b/d"), Links::Trusted).unwrap(), [Path::new("a/b/d")]);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(folder.path().join("a/b/d"), Some(1234), Some(1235)).unwrap();
            std::os::unix::fs::chown(folder.path().join("a/b/c"), Some(123), None).unwrap();
            for (way, owners) in [("a/b/d/home/of", (1234, 1235)), ("a/b/c/system", (0, 0))] {
                create_below(&root, Path::new(way), Links::Trusted).unwrap();
                let made = fs::metadata(folder.path().join(way)).unwrap();
                assert_eq!((made.uid(), made.gid()), owners, "{way}");
            }
        }
        fs::write(folder.path().join("file"), "").unwrap();
        assert_eq!(
            create_below(&root, Path::new("file/x"), Links::Trusted).unwrap_err().kind(),
            io::ErrorKind::NotADirectory
        );
    }
}

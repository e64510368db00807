//! Places for files: a name in a directory below a root, and what can be done there safely.

mod directories;
mod durability;
mod extended_attributes;
mod file_stat;
mod removal;
mod replacement;
mod tree;

pub use directories::{set_ownership, set_ownership_of_new};
pub use durability::Durability;
pub(crate) use durability::Touched;
pub(crate) use extended_attributes::{ACCESS_ACL, DEFAULT_ACL, SELINUX, remove as remove_attribute};
pub use extended_attributes::{ExtendedAttributes, is_without_acls};
pub use file_stat::{FileStat, Kind};
pub(crate) use removal::remove_all;
pub use replacement::OnDisk;
pub(crate) use replacement::replace_all;
use tree::Directory;
pub use tree::Tree;

use crate::directory;
use crate::error::{PathError, Result};
use crate::paths::{fingerprint, join};
use crate::resolution::Links;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest name that a file system has.
const NAME_MAX: usize = 255;

/// The suffix of a new file beside the one whose place it is going to take.
pub(crate) const TEMPORARY: &str = ".holonew";

/// The greatest number of bytes that a file is believed to have before it is read.
const MAX_EXPECTED: usize = 1 << 30;

/// The number of attempts to make something in a folder that others remove.
const MAX_ATTEMPTS: u32 = 100;

/// The place where a file is, or may be.
#[derive(Clone, Debug)]
pub struct PathHandle {
    tree: Arc<Tree>,
    path: PathBuf,
}

impl PathHandle {
    /// The path as the user knows it.
    #[must_use]
    pub fn shown(&self) -> PathBuf {
        join(&self.tree.shown, &self.path)
    }

    /// The path below the root of its tree.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if this is the same place.
    pub(crate) fn is(&self, other: &PathHandle) -> bool {
        Arc::ptr_eq(&self.tree, &other.tree) && self.path == other.path
    }

    /// The place beside this one whose name has this suffix.
    #[must_use]
    pub fn with_suffix(&self, suffix: &str) -> PathHandle {
        let path = [self.path.as_os_str().as_bytes(), suffix.as_bytes()].concat();
        PathHandle { tree: Arc::clone(&self.tree), path: OsString::from_vec(path).into() }
    }

    /// A place beside this one for what will replace it: its name with `suffix`, or a shorter one where that would be too long.
    #[must_use]
    pub fn temporary(&self, suffix: &str) -> PathHandle {
        let name = self.name().as_bytes();
        if name.len() + suffix.len() <= NAME_MAX {
            return self.with_suffix(suffix);
        }
        let short = format!("{:016x}{suffix}", fingerprint(name));
        PathHandle { tree: Arc::clone(&self.tree), path: self.path.with_file_name(short) }
    }

    fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Returns what tells whether another place is in the same directory, without looking there.
    fn directory_key(&self) -> (*const Tree, &Path) {
        (Arc::as_ptr(&self.tree), self.folder())
    }

    fn directory(&self) -> io::Result<Arc<Directory>> {
        self.tree.directory(self.folder())
    }

    /// Does something with the directory and the name, and adds to the error what was tried.
    pub(crate) fn with<T>(
        &self,
        operation: &'static str,
        act: impl FnOnce(&OwnedFd, &OsStr) -> rustix::io::Result<T>,
    ) -> Result<T> {
        let result = self.directory().and_then(|directory| Ok(act(&directory, self.name())?));
        result.map_err(|error| PathError::new(operation, self.shown(), error))
    }

    pub(crate) fn raw_stat(&self) -> Result<Option<Stat>> {
        use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
        let looked = self
            .directory()
            .and_then(|directory| Ok(rustix::fs::statat(&directory, self.name(), AtFlags::SYMLINK_NOFOLLOW)?));
        match looked {
            Ok(stat) => Ok(Some(stat)),
            // A name that is longer than names can be is not any file's.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidFilename) => Ok(None),
            Err(error) => Err(PathError::new("lstat", self.shown(), error)),
        }
    }

    /// Returns true if a file or a symlink is here.
    ///
    /// # Errors
    /// If that cannot be told.
    pub fn is_file_or_symlink(&self) -> Result<bool> {
        let stat = self.raw_stat()?;
        Ok(stat.is_some_and(|stat| {
            matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Symlink)
        }))
    }

    /// Returns true if the folder of this place is there.
    ///
    /// # Errors
    /// If that cannot be told.
    pub(crate) fn has_folder(&self) -> Result<bool> {
        match self.directory() {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound) => Ok(false),
            Err(error) => Err(PathError::new("open", self.shown(), error)),
        }
    }

    /// Returns true if anything is here.
    ///
    /// # Errors
    /// If that cannot be told.
    pub fn exists(&self) -> Result<bool> {
        self.raw_stat().map(|stat| stat.is_some())
    }

    /// Returns true if what is made here gets its group or an ACL from its folder, or that cannot be told.
    pub(crate) fn inherits(&self) -> bool {
        let gives_group = |directory: Arc<Directory>| {
            rustix::fs::fstat(&*directory).map_or(true, |stat| Mode::from_raw_mode(stat.st_mode).contains(Mode::SGID))
        };
        self.directory().map_or(true, gives_group) || self.inherits_acl()
    }

    /// Returns true if a file that is made here gets an ACL from its folder.
    fn inherits_acl(&self) -> bool {
        // Without the folder nothing can be made.
        self.directory().is_ok_and(|directory| {
            *directory.has_default_acl.get_or_init(|| extended_attributes::has_default_acl(&directory.opened))
        })
    }

    /// Makes an empty file here that only we can read, in place of whatever has the name now.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(&self) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let private = Mode::RUSR | Mode::WUSR;
        let create = |directory: &OwnedFd, name: &OsStr| rustix::fs::openat(directory, name, flags, private);
        self.instead("open", create).map(File::from)
    }

    /// Makes something here; what has the name already is removed.
    fn instead<T>(
        &self,
        operation: &'static str,
        make: impl Fn(&OwnedFd, &OsStr) -> rustix::io::Result<T>,
    ) -> Result<T> {
        match self.with(operation, &make) {
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                self.remove()?;
                self.with(operation, make)
            }
            made => made,
        }
    }

    /// Opens a regular file for reading; anything else is refused without waiting for it.
    ///
    /// # Errors
    /// If there is none, or it may not be read.
    pub fn open(&self) -> Result<File> {
        // A FIFO that has taken the place of the file since must not make us wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        self.with("open", |directory, name| rustix::fs::openat(directory, name, flags, Mode::empty())).map(File::from)
    }

    /// Reads all of a regular file that had so many bytes when it was looked at: one call, if it still has.
    ///
    /// # Errors
    /// If there is none, or it may not be read.
    pub fn read_of_size(&self, size: u64) -> Result<Vec<u8>> {
        let file = self.open()?;
        let size = usize::try_from(size).unwrap_or_default().min(MAX_EXPECTED);
        // There is room to see that it has grown.
        let mut bytes = Vec::with_capacity(size + 1);
        loop {
            match rustix::io::read(&file, rustix::buffer::spare_capacity(&mut bytes)) {
                Ok(0) => return Ok(bytes),
                Ok(_) if bytes.len() == size => return Ok(bytes),
                Ok(_) if bytes.len() == bytes.capacity() => bytes.reserve(bytes.len()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(PathError::new("read", self.shown(), errno)),
            }
        }
    }

    /// Reads a file if there is a regular file.
    ///
    /// # Errors
    /// If that cannot be told, or it may not be read.
    pub fn read_if_file(&self) -> Result<Option<Vec<u8>>> {
        let Some(stat) = self.stat()?.filter(|stat| stat.kind == Kind::File) else { return Ok(None) };
        match self.read_of_size(stat.size) {
            // Another process has removed it in between.
            Err(error) if error.is_missing() => Ok(None),
            read => read.map(Some),
        }
    }

    /// Opens a file for reading if there is a regular file.
    ///
    /// # Errors
    /// If that cannot be told, or it may not be read.
    pub fn open_if_file(&self) -> Result<Option<File>> {
        let is_file = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !self.raw_stat()?.is_some_and(is_file) {
            return Ok(None);
        }
        match self.open() {
            // Another process has removed it in between.
            Err(error) if error.is_missing() => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Returns the target of the symlink here.
    ///
    /// # Errors
    /// If there is none.
    pub fn read_link(&self) -> Result<Vec<u8>> {
        let target = self.with("readlink", |directory, name| rustix::fs::readlinkat(directory, name, Vec::new()))?;
        Ok(target.into_bytes())
    }

    /// Makes the folder and what is missing above it, each 0755; returns the places of those that were made.
    ///
    /// # Errors
    /// If one cannot be made.
    pub fn create_folder(&self) -> Result<Vec<PathHandle>> {
        if self.tree.has(self.folder()) {
            return Ok(Vec::new());
        }
        let made = directory::create_below(&self.tree.root, self.folder(), self.tree.links);
        let made = made.map_err(|errno| PathError::new("mkdir", self.shown(), errno))?;
        Ok(made.iter().map(|path| self.tree.place(path)).collect())
    }

    /// Makes something in the folder, and the folder if it is missing. One that is removed in between, because it is empty, is made again.
    /// Returns the result, and the folders that were made.
    ///
    /// # Errors
    /// If the folder cannot be made, or the error of what was to be made in it.
    pub fn in_folder<T>(&self, make: impl Fn() -> Result<T>) -> Result<(T, Vec<PathHandle>)> {
        let mut folders = Vec::new();
        let mut attempts = 0;
        loop {
            attempts += 1;
            match make() {
                Err(error) if error.is_missing() && attempts < MAX_ATTEMPTS => {
                    self.tree.forget();
                    folders.extend(self.create_folder()?);
                }
                made => return Ok((made?, folders)),
            }
        }
    }

    /// Removes the folder, and those above it that are empty then, up to `keep`, which stays. What is in use stays too.
    pub fn remove_empty_folders(&self, keep: &Path) {
        for folder in self.folder().ancestors().take_while(|folder| *folder != keep && folder.starts_with(keep)) {
            self.tree.forget();
            let removed = self
                .tree
                .place(folder)
                .with("rmdir", |directory, name| rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR));
            if removed.is_err() {
                break;
            }
        }
        self.tree.forget();
    }

    /// Makes a symlink here, in place of whatever has the name now.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create_symlink(&self, target: &[u8]) -> Result<()> {
        let target = OsStr::from_bytes(target);
        self.instead("symlink", |directory, name| rustix::fs::symlinkat(target, directory, name))
    }

    /// Changes the owner of what is here, itself if it is a symlink.
    pub(crate) fn change_owner(&self, uid: Option<Uid>, gid: Option<Gid>) -> Result<()> {
        self.with("chown", |directory, name| rustix::fs::chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// Moves what is here to another place, in one step; what was there is gone.
    ///
    /// # Errors
    /// If it cannot be moved; then it is still here.
    pub fn rename_to(&self, to: &PathHandle) -> Result<()> {
        let from = self.directory().map_err(|errno| PathError::new("open", self.shown(), errno))?;
        to.with("rename", |directory, name| rustix::fs::renameat(&from, self.name(), directory, name))
    }

    /// Moves what is here to another place, in one step. The file that was there is freed when that is done: as long as a rename lasts, nobody
    /// else on the file system can rename anything from one directory to another.
    ///
    /// # Errors
    /// If it cannot be moved; then it is still here.
    pub fn rename_over(&self, to: &PathHandle) -> Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Without a descriptor, it is freed by the rename.
        let _held = to.with("open", |directory, name| rustix::fs::openat(directory, name, flags, Mode::empty()));
        self.rename_to(to)
    }

    /// Moves what is here to another place, if nothing is there; returns whether that was done.
    ///
    /// # Errors
    /// If it cannot be moved for another reason.
    pub(crate) fn rename_to_free(&self, to: &PathHandle) -> Result<bool> {
        match self.rename_with(to, RenameFlags::NOREPLACE) {
            Err(error) => match Errno::from_io_error(&error.error) {
                Some(Errno::EXIST) => Ok(false),
                // Some network file systems cannot do this.
                Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => self.rename_to(to).map(|()| true),
                _ => Err(error),
            },
            Ok(()) => Ok(true),
        }
    }

    /// Gives what is here the name of what is at another place, and the other way round, in one step.
    pub(crate) fn exchange_with(&self, other: &PathHandle) -> Result<()> {
        self.rename_with(other, RenameFlags::EXCHANGE)
    }

    fn rename_with(&self, to: &PathHandle, flags: RenameFlags) -> Result<()> {
        let from = self.directory().map_err(|errno| PathError::new("open", self.shown(), errno))?;
        to.with("rename", |directory, name| rustix::fs::renameat_with(&from, self.name(), directory, name, flags))
    }

    /// Gives what is here a second name at another place, where nothing may be.
    ///
    /// # Errors
    /// If the file system has no hard links, or something is there.
    pub fn link_to(&self, to: &PathHandle) -> Result<()> {
        let from = self.directory().map_err(|errno| PathError::new("open", self.shown(), errno))?;
        to.with("link", |directory, name| rustix::fs::linkat(&from, self.name(), directory, name, AtFlags::empty()))
    }

    /// Removes the file or symlink, if there is one.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self) -> Result<()> {
        self.remove_if_there().map(drop)
    }

    /// Removes the file or symlink; returns whether there was one.
    fn remove_if_there(&self) -> Result<bool> {
        match self.with("remove", |directory, name| rustix::fs::unlinkat(directory, name, AtFlags::empty())) {
            Err(error) if error.is_missing() => Ok(false),
            removed => removed.map(|()| true),
        }
    }

    /// The directory of this place, opened so that it can be made durable.
    pub(crate) fn open_directory(&self) -> Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = self
            .directory()
            .and_then(|directory| Ok(rustix::fs::openat(directory.as_fd(), ".", flags, Mode::empty())?));
        opened.map(File::from).map_err(|errno| PathError::new("open", self.shown(), errno))
    }

    /// Returns the place that the symlinks here lead to, inside the tree; this place itself if there is none.
    ///
    /// # Errors
    /// If there are too many, or one that neither root nor we have made: its owner need not be able to read what it points to.
    pub fn followed(&self) -> Result<PathHandle> {
        let is_symlink = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        if !self.raw_stat()?.is_some_and(is_symlink) {
            return Ok(self.clone());
        }
        let found = self.tree.resolve(&self.path, true, Links::Trusted)?;
        Ok(self.tree.place(&found.path))
    }

    /// Returns true if both places have the same file, by two names.
    ///
    /// # Errors
    /// If that cannot be told.
    pub fn is_same_file(&self, other: &PathHandle) -> Result<bool> {
        let (Some(one), Some(two)) = (self.raw_stat()?, other.raw_stat()?) else { return Ok(false) };
        Ok((one.st_dev, one.st_ino) == (two.st_dev, two.st_ino))
    }

    /// The names in this place's folder, sorted; none if there is no such folder.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn siblings(&self) -> Result<Vec<OsString>> {
        Ok(self.siblings_with_kinds()?.into_iter().map(|(name, _)| name).collect())
    }

    /// The names in this place's folder, sorted, each with its type if the file system tells that beside the name.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn siblings_with_kinds(&self) -> Result<Vec<(OsString, Option<Kind>)>> {
        let folder = match self.open_directory() {
            Ok(folder) => folder,
            Err(error) if error.is_missing() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let listed = |entry: rustix::fs::DirEntry| {
            (OsString::from_vec(entry.file_name().to_bytes().to_vec()), Kind::of_entry(entry.file_type()))
        };
        let names = rustix::fs::Dir::read_from(folder)
            .and_then(|entries| entries.map(|entry| entry.map(listed)).collect::<rustix::io::Result<Vec<_>>>());
        let mut names = names.map_err(|errno| PathError::new("read", self.shown(), errno))?;
        names.retain(|(name, _)| name != "." && name != "..");
        names.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(names)
    }

    /// The place beside this one with another name.
    #[must_use]
    pub fn sibling(&self, name: &OsStr) -> PathHandle {
        PathHandle { tree: Arc::clone(&self.tree), path: self.path.with_file_name(name) }
    }
}

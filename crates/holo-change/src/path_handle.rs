//! Handles for files: a path below a root directory, and safe operations on it.

mod directories;
mod durability;
mod extended_attributes;
mod tree;

pub(crate) use directories::remove_all;
pub use directories::{OnDisk, set_ownership, set_ownership_of_new};
pub use durability::Durability;
pub(crate) use durability::Touched;
pub(crate) use extended_attributes::{ACCESS_ACL, DEFAULT_ACL, SELINUX, remove as remove_attribute};
pub use extended_attributes::{ExtendedAttributes, is_without_acls};
pub use tree::Tree;

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
use tree::Directory;

/// The maximum length of a file name.
const NAME_MAX: usize = 255;

/// The suffix of a new file next to the one that it is going to replace.
pub(crate) const TEMPORARY: &str = ".holonew";

/// The maximum buffer size that is reserved for a file before it is read.
const MAX_EXPECTED: usize = 1 << 30;

/// The maximum number of attempts to create a file in a directory that other processes remove.
const MAX_ATTEMPTS: u32 = 100;

/// The path of a file, which need not exist.
#[derive(Clone, Debug)]
pub struct PathHandle {
    tree: Arc<Tree>,
    path: PathBuf,
}

impl PathHandle {
    /// Returns the path as displayed to the user.
    #[must_use]
    pub fn shown(&self) -> PathBuf {
        join(&self.tree.shown, &self.path)
    }

    /// Returns the path below the root of its tree.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if both handles have the same path.
    pub(crate) fn is(&self, other: &PathHandle) -> bool {
        Arc::ptr_eq(&self.tree, &other.tree) && self.path == other.path
    }

    /// Returns the handle for this path with a suffix.
    #[must_use]
    pub fn with_suffix(&self, suffix: &str) -> PathHandle {
        let path = [self.path.as_os_str().as_bytes(), suffix.as_bytes()].concat();
        PathHandle { tree: Arc::clone(&self.tree), path: OsString::from_vec(path).into() }
    }

    /// Returns a path next to this one for its replacement: the name with `suffix`, or a shorter name if that would be
    /// too long.
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

    /// Returns a key that identifies the directory, without accessing it.
    fn directory_key(&self) -> (*const Tree, &Path) {
        (Arc::as_ptr(&self.tree), self.folder())
    }

    fn directory(&self) -> io::Result<Arc<Directory>> {
        self.tree.directory(self.folder())
    }

    /// Calls a function with the directory and the file name, and adds the operation and the path to its error.
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
            // A name that exceeds the maximum length cannot exist.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidFilename) => Ok(None),
            Err(error) => Err(PathError::new("lstat", self.shown(), error)),
        }
    }

    /// Returns true for a regular file or a symlink.
    ///
    /// # Errors
    /// If this cannot be determined.
    pub fn is_file_or_symlink(&self) -> Result<bool> {
        let stat = self.raw_stat()?;
        Ok(stat.is_some_and(|stat| {
            matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Symlink)
        }))
    }

    /// Returns true if the directory of this path exists.
    ///
    /// # Errors
    /// If this cannot be determined.
    pub(crate) fn has_folder(&self) -> Result<bool> {
        match self.directory() {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound) => Ok(false),
            Err(error) => Err(PathError::new("open", self.shown(), error)),
        }
    }

    /// Returns true if the path exists.
    ///
    /// # Errors
    /// If this cannot be determined.
    pub fn exists(&self) -> Result<bool> {
        self.raw_stat().map(|stat| stat.is_some())
    }

    /// Returns true if a file created here inherits its group or an ACL from its directory, or if this is unknown.
    pub(crate) fn inherits(&self) -> bool {
        let gives_group = |directory: Arc<Directory>| {
            rustix::fs::fstat(&*directory).map_or(true, |stat| Mode::from_raw_mode(stat.st_mode).contains(Mode::SGID))
        };
        self.directory().map_or(true, gives_group) || self.inherits_acl()
    }

    /// Returns true if a file created here inherits an ACL from its directory.
    fn inherits_acl(&self) -> bool {
        // No file can be created without the directory.
        self.directory().is_ok_and(|directory| {
            *directory.has_default_acl.get_or_init(|| extended_attributes::has_default_acl(&directory.opened))
        })
    }

    /// Creates an empty file with mode 0600, replacing an existing file.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(&self) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let private = Mode::RUSR | Mode::WUSR;
        let create = |directory: &OwnedFd, name: &OsStr| rustix::fs::openat(directory, name, flags, private);
        self.instead("open", create).map(File::from)
    }

    /// Creates an object, removing an existing file of the same name.
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

    /// Opens a regular file for reading. Opening other types does not block.
    ///
    /// # Errors
    /// If the file does not exist, or cannot be read.
    pub fn open(&self) -> Result<File> {
        // The file may have been replaced by a FIFO, which must not block us.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        self.with("open", |directory, name| rustix::fs::openat(directory, name, flags, Mode::empty())).map(File::from)
    }

    /// Reads a regular file that had this size when it was examined. A single call is sufficient if the size is
    /// unchanged.
    ///
    /// # Errors
    /// If the file does not exist, or cannot be read.
    pub fn read_of_size(&self, size: u64) -> Result<Vec<u8>> {
        let file = self.open()?;
        let size = usize::try_from(size).unwrap_or_default().min(MAX_EXPECTED);
        // One additional byte detects that the file has grown.
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

    /// Reads the file if it is a regular file.
    ///
    /// # Errors
    /// If this cannot be determined, or the file cannot be read.
    pub fn read_if_file(&self) -> Result<Option<Vec<u8>>> {
        let Some(stat) = self.stat()?.filter(|stat| stat.kind == Kind::File) else { return Ok(None) };
        match self.read_of_size(stat.size) {
            // Another process has removed it in the meantime.
            Err(error) if error.is_missing() => Ok(None),
            read => read.map(Some),
        }
    }

    /// Opens the file for reading if it is a regular file.
    ///
    /// # Errors
    /// If this cannot be determined, or the file cannot be read.
    pub fn open_if_file(&self) -> Result<Option<File>> {
        let is_file = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !self.raw_stat()?.is_some_and(is_file) {
            return Ok(None);
        }
        match self.open() {
            // Another process has removed it in the meantime.
            Err(error) if error.is_missing() => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Returns the target of the symlink.
    ///
    /// # Errors
    /// If it is not a symlink.
    pub fn read_link(&self) -> Result<Vec<u8>> {
        let target = self.with("readlink", |directory, name| rustix::fs::readlinkat(directory, name, Vec::new()))?;
        Ok(target.into_bytes())
    }

    /// Creates the directory and its missing parents, with mode 0755. Returns those that were created.
    ///
    /// # Errors
    /// If a directory cannot be created.
    pub fn create_folder(&self) -> Result<Vec<PathHandle>> {
        if self.tree.has(self.folder()) {
            return Ok(Vec::new());
        }
        let made = tree::create_below(&self.tree.root, self.folder(), self.tree.links);
        let made = made.map_err(|errno| PathError::new("mkdir", self.shown(), errno))?;
        Ok(made.iter().map(|path| self.tree.place(path)).collect())
    }

    /// Creates an object in the directory, and the directory if it is missing. If the directory is removed concurrently
    /// because it is empty, it is created again. Returns the result, and the directories that were created.
    ///
    /// # Errors
    /// If the directory cannot be created, and the errors of `make`.
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

    /// Removes the directory if it is empty, then its empty parents up to, but not including, `keep`.
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

    /// Creates a symlink, replacing an existing file.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create_symlink(&self, target: &[u8]) -> Result<()> {
        let target = OsStr::from_bytes(target);
        self.instead("symlink", |directory, name| rustix::fs::symlinkat(target, directory, name))
    }

    /// Changes the owner of the file, without following symlinks.
    pub(crate) fn change_owner(&self, uid: Option<Uid>, gid: Option<Gid>) -> Result<()> {
        self.with("chown", |directory, name| rustix::fs::chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// Atomically renames the file, replacing an existing one.
    ///
    /// # Errors
    /// If it cannot be renamed. The file remains here then.
    pub fn rename_to(&self, to: &PathHandle) -> Result<()> {
        let from = self.directory().map_err(|errno| PathError::new("open", self.shown(), errno))?;
        to.with("rename", |directory, name| rustix::fs::renameat(&from, self.name(), directory, name))
    }

    /// Like [`rename_to`](Self::rename_to), but frees the blocks of the replaced file only after the rename. During a
    /// rename, no other process can rename files between directories of the file system.
    ///
    /// # Errors
    /// If it cannot be renamed. The file remains here then.
    pub fn rename_over(&self, to: &PathHandle) -> Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Without a descriptor, the blocks are freed by the rename.
        let _held = to.with("open", |directory, name| rustix::fs::openat(directory, name, flags, Mode::empty()));
        self.rename_to(to)
    }

    /// Renames the file unless the target exists. Returns whether it was renamed.
    ///
    /// # Errors
    /// If it cannot be renamed for another reason.
    pub(crate) fn rename_to_free(&self, to: &PathHandle) -> Result<bool> {
        match self.rename_with(to, RenameFlags::NOREPLACE) {
            Err(error) => match Errno::from_io_error(&error.error) {
                Some(Errno::EXIST) => Ok(false),
                // Some network file systems do not support this.
                Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => self.rename_to(to).map(|()| true),
                _ => Err(error),
            },
            Ok(()) => Ok(true),
        }
    }

    /// Atomically exchanges two files.
    pub(crate) fn exchange_with(&self, other: &PathHandle) -> Result<()> {
        self.rename_with(other, RenameFlags::EXCHANGE)
    }

    fn rename_with(&self, to: &PathHandle, flags: RenameFlags) -> Result<()> {
        let from = self.directory().map_err(|errno| PathError::new("open", self.shown(), errno))?;
        to.with("rename", |directory, name| rustix::fs::renameat_with(&from, self.name(), directory, name, flags))
    }

    /// Creates a hard link to the file at another path, which must not exist.
    ///
    /// # Errors
    /// If the file system does not support hard links, or the other path exists.
    pub fn link_to(&self, to: &PathHandle) -> Result<()> {
        let from = self.directory().map_err(|errno| PathError::new("open", self.shown(), errno))?;
        to.with("link", |directory, name| rustix::fs::linkat(&from, self.name(), directory, name, AtFlags::empty()))
    }

    /// Removes the file or symlink, if it exists.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self) -> Result<()> {
        self.remove_if_there().map(drop)
    }

    /// Removes the file or symlink. Returns whether it existed.
    fn remove_if_there(&self) -> Result<bool> {
        match self.with("remove", |directory, name| rustix::fs::unlinkat(directory, name, AtFlags::empty())) {
            Err(error) if error.is_missing() => Ok(false),
            removed => removed.map(|()| true),
        }
    }

    /// Opens the directory for syncing.
    pub(crate) fn open_directory(&self) -> Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = self
            .directory()
            .and_then(|directory| Ok(rustix::fs::openat(directory.as_fd(), ".", flags, Mode::empty())?));
        opened.map(File::from).map_err(|errno| PathError::new("open", self.shown(), errno))
    }

    /// Resolves the symlink at this path, within the tree. Returns the same path if it is not a symlink.
    ///
    /// # Errors
    /// If there are too many symlinks, or a symlink belongs neither to root nor to the current user: its owner may not
    /// be able to read its target.
    pub fn followed(&self) -> Result<PathHandle> {
        let is_symlink = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        if !self.raw_stat()?.is_some_and(is_symlink) {
            return Ok(self.clone());
        }
        let found = self.tree.resolve(&self.path, true, Links::Trusted)?;
        Ok(self.tree.place(&found.path))
    }

    /// Returns true if both paths are links to the same file.
    ///
    /// # Errors
    /// If this cannot be determined.
    pub fn is_same_file(&self, other: &PathHandle) -> Result<bool> {
        let (Some(one), Some(two)) = (self.raw_stat()?, other.raw_stat()?) else { return Ok(false) };
        Ok((one.st_dev, one.st_ino) == (two.st_dev, two.st_ino))
    }

    /// Returns the sorted names in the directory; empty if the directory does not exist.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn siblings(&self) -> Result<Vec<OsString>> {
        Ok(self.siblings_with_kinds()?.into_iter().map(|(name, _)| name).collect())
    }

    /// Returns the sorted names in the directory, with their types if the file system provides them with the names.
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

    /// Returns the path with another file name.
    #[must_use]
    pub fn sibling(&self, name: &OsStr) -> PathHandle {
        PathHandle { tree: Arc::clone(&self.tree), path: self.path.with_file_name(name) }
    }
}

/// The properties of a file, from a stat call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// The type.
    pub kind: Kind,
    /// All twelve mode bits.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The length.
    pub size: u64,
    /// The number of links.
    pub names: u64,
    /// The device of the file system.
    pub device: u64,
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink.
    Symlink,
    /// A device, a FIFO or a socket.
    Other,
}

impl Kind {
    /// Returns the type from a mode of the kernel.
    pub(crate) fn of_mode(mode: u32) -> Kind {
        Kind::of(FileType::from_raw_mode(mode))
    }

    fn of(file_type: FileType) -> Kind {
        match file_type {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Symlink,
            _ => Kind::Other,
        }
    }

    /// Returns the type in a directory listing, if available.
    fn of_entry(file_type: FileType) -> Option<Kind> {
        (file_type != FileType::Unknown).then(|| Kind::of(file_type))
    }
}

impl From<Stat> for FileStat {
    fn from(stat: Stat) -> FileStat {
        FileStat {
            kind: Kind::of_mode(stat.st_mode),
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            names: stat.st_nlink,
            device: stat.st_dev,
        }
    }
}

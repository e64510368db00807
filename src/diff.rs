//! Renders differences between files and symlinks in the format of `git diff`. Their sides are loaded without following symlinks or
//! blocking.

mod format;
pub mod preview;

pub use format::{render, render_prefixed, render_texts};

use crate::entities::resources::Resources;
use crate::host::root::Root;
use bstr::BString;
use holo_change::tracked::Digest;
use holo_protocol::words::reason;
use holo_protocol::{FilePair, Label};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The content of one side of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// No file exists.
    Missing,
    /// A regular file.
    File {
        /// Its bytes.
        content: Vec<u8>,
        /// The mode that is shown, without the file type.
        mode: u32,
    },
    /// A symlink, which is not followed.
    Symlink {
        /// The path that it points to.
        target: Vec<u8>,
    },
    /// A directory. Only its mode is compared.
    Directory {
        /// Its mode, without the file type.
        mode: u32,
    },
}

/// The modes that a difference shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modes {
    /// Like git's: whether the owner of a file may execute it.
    Git,
    /// All bits, also of directories.
    Exact,
}

impl Modes {
    /// Returns the modes that a difference of two files shows.
    #[must_use]
    pub fn of(pair: &FilePair) -> Modes {
        if pair.has_modes { Modes::Exact } else { Modes::Git }
    }

    /// Returns the permissions of a file as they are shown.
    #[must_use]
    pub fn shown(self, mode: u32) -> u32 {
        match self {
            Modes::Exact => mode & 0o7777,
            Modes::Git if mode & 0o100 != 0 => 0o755,
            Modes::Git => 0o644,
        }
    }
}

/// One side of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// The path as the user knows it.
    pub name: BString,
    /// The content.
    pub content: Content,
}

/// Files as users know them.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The root of the system, which no path can leave.
    pub root: &'a Root,
    /// Maps paths to those that users know.
    pub resources: &'a Resources,
}

impl View<'_> {
    /// Returns the difference between two files, under the names that users know.
    ///
    /// # Errors
    /// If one cannot be read, or is neither a file nor a symlink.
    pub fn difference(self, pair: &FilePair) -> Result<Vec<u8>, LoadError> {
        let root = self.root.join("");
        let side = |path: &Path, label: &Option<Label>| -> Result<Side, LoadError> {
            let name = match label {
                Some(label) => label.as_bstr().to_owned(),
                None => self.resources.show(path.as_os_str().as_bytes().into()).into_owned(),
            };
            Ok(Side { name, content: load(path, &root, Modes::of(pair))? })
        };
        Ok(render(&side(&pair.from, &pair.from_label)?, &side(&pair.to, &pair.to_label)?))
    }
}

/// A side of a difference cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The path is neither a regular file nor a symlink.
    #[error("file {} has wrong file type", .path.display())]
    WrongFileType {
        /// The path of the file.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{operation} {}: {}", .path.display(), reason(.error))]
    Io {
        /// The name of the system call.
        operation: &'static str,
        /// Its path.
        path: PathBuf,
        /// The cause, which the message of this error includes.
        error: io::Error,
    },
}

/// Loads a file or, with exact modes, the mode of a directory, without following a final symlink, and without ever blocking on a FIFO or device.
///
/// `/dev/null` and missing paths are [`Content::Missing`]. If `root` is not `/`, symlinks in the path cannot lead out
/// of it.
///
/// # Errors
///
/// [`LoadError::WrongFileType`] for anything else, and [`LoadError::Io`] if it cannot
/// be examined or read.
pub fn load(path: &Path, root: &Path, modes: Modes) -> Result<Content, LoadError> {
    if path == Path::new("/dev/null") {
        return Ok(Content::Missing);
    }
    match try_load(path, root, modes) {
        Ok(content) => Ok(content),
        Err(PathlessError::Errno(_, Errno::NOENT | Errno::NOTDIR)) => Ok(Content::Missing),
        Err(error) => Err(error.at(path)),
    }
}

fn try_load(path: &Path, root: &Path, modes: Modes) -> Result<Content, PathlessError> {
    let below = path.strip_prefix(root).ok().filter(|_| root != Path::new("/"));
    let folder = below.map(|below| open_folder(root, below)).transpose()?;
    match (&folder, path.file_name()) {
        (Some(folder), Some(name)) => load_at(folder.as_fd(), Path::new(name), modes),
        _ => load_at(CWD, path, modes),
    }
}

/// The maximum number of lookups of a path while other processes keep renaming files.
const MAX_ATTEMPTS: u32 = 1000;

/// Opens the directory that contains a path below a root, as if the root were `/`.
fn open_folder(root: &Path, below: &Path) -> Result<OwnedFd, PathlessError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(root, flags, Mode::empty()).and_then(|root| {
        let folder = below.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        for _ in 0..MAX_ATTEMPTS {
            match rustix::fs::openat2(&root, folder, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
                // A file was renamed somewhere while `..` was resolved; the kernel requests a retry.
                Err(Errno::AGAIN) => {}
                // A kernel or a sandbox without this system call.
                Err(Errno::NOSYS | Errno::PERM) => return rustix::fs::openat(&root, folder, flags, Mode::empty()),
                opened => return opened,
            }
        }
        Err(Errno::AGAIN)
    });
    opened.map_err(|errno| PathlessError::Errno("open", errno))
}

fn load_at(folder: BorrowedFd<'_>, path: &Path, modes: Modes) -> Result<Content, PathlessError> {
    let stat = rustix::fs::statat(folder, path, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| PathlessError::Errno("lstat", errno))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => load_file(folder, path, modes),
        FileType::Directory if modes == Modes::Exact => Ok(Content::Directory { mode: modes.shown(stat.st_mode) }),
        FileType::Symlink => load_symlink(folder, path),
        _ => Err(PathlessError::WrongFileType),
    }
}

/// A [`LoadError`] without its path.
enum PathlessError {
    WrongFileType,
    Errno(&'static str, Errno),
    Read(io::Error),
}

impl PathlessError {
    fn at(self, path: &Path) -> LoadError {
        let path = path.to_owned();
        let (operation, error) = match self {
            Self::WrongFileType => return LoadError::WrongFileType { path },
            Self::Errno(operation, errno) => (operation, errno.into()),
            Self::Read(error) => ("read", error),
        };
        LoadError::Io { operation, path, error }
    }
}

fn load_file(folder: BorrowedFd<'_>, path: &Path, modes: Modes) -> Result<Content, PathlessError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, path, flags | OFlags::NOCTTY, Mode::empty())
        .map_err(|errno| PathlessError::Errno("open", errno))?;
    let stat = rustix::fs::fstat(&file).map_err(|errno| PathlessError::Errno("fstat", errno))?;
    // The file may have been replaced since it was examined.
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(PathlessError::WrongFileType);
    }
    let mut content = Vec::new();
    let mut file = std::fs::File::from(file);
    file.by_ref().take(MAX_SIZE + 1).read_to_end(&mut content).map_err(PathlessError::Read)?;
    if content.len() as u64 > MAX_SIZE {
        content = stand_in(content, file).map_err(PathlessError::Read)?;
    }
    Ok(Content::File { content, mode: modes.shown(stat.st_mode) })
}

/// The maximum size of a file that is compared line by line, in bytes.
const MAX_SIZE: u64 = 16 << 20;

/// Returns a short binary content that differs whenever the file does, given its beginning and the rest. As git does with
/// large files, a difference is only stated.
fn stand_in(beginning: Vec<u8>, rest: std::fs::File) -> io::Result<Vec<u8>> {
    let digest = Digest::of(&mut io::Cursor::new(beginning).chain(rest))?;
    Ok(format!("\0{}", digest.as_str()).into_bytes())
}

fn load_symlink(folder: BorrowedFd<'_>, path: &Path) -> Result<Content, PathlessError> {
    let target =
        rustix::fs::readlinkat(folder, path, Vec::new()).map_err(|errno| PathlessError::Errno("readlink", errno))?;
    let target = target.into_bytes();
    Ok(Content::Symlink { target })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, PermissionsExt, symlink};

    #[test]
    fn large_files_are_only_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let large = |name: &str, last: &[u8]| {
            let path = folder.path().join(name);
            let file = std::fs::File::create(&path).unwrap();
            file.write_all_at(last, 1 << 30).unwrap();
            load(&path, Path::new("/")).unwrap()
        };
        let (one, same, other) = (large("a", b"x"), large("b", b"x"), large("c", b"y"));
        let Content::File { content, .. } = &one else { panic!() };
        assert!(content.len() < 100 && holo_diff::is_binary(content));
        assert!(one == same && one != other);
    }

    fn file(content: &str, mode: u32) -> Content {
        Content::File { content: content.into(), mode }
    }

    fn load(path: &Path, root: &Path) -> Result<Content, LoadError> {
        super::load(path, root, Modes::Git)
    }

    #[test]
    fn files_and_symlinks_are_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "x\n").unwrap();
        assert_eq!(load(&path, Path::new("/")).unwrap(), file("x\n", 0o644));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o701)).unwrap();
        assert_eq!(load(&path, Path::new("/")).unwrap(), file("x\n", 0o755));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o611)).unwrap();
        assert_eq!(load(&path, Path::new("/")).unwrap(), file("x\n", 0o644));
        assert_eq!(super::load(&path, Path::new("/"), Modes::Exact).unwrap(), file("x\n", 0o611));
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1770)).unwrap();
        let folder = super::load(dir.path(), Path::new("/"), Modes::Exact).unwrap();
        assert_eq!(folder, Content::Directory { mode: 0o1770 });
        symlink("file", dir.path().join("link")).unwrap();
        assert_eq!(load(&dir.path().join("link"), Path::new("/")).unwrap(), Content::Symlink { target: "file".into() });
    }

    #[test]
    fn missing_path_is_missing_content() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let missing = [Path::new("/dev/null"), &dir.path().join("nothing"), &dir.path().join("file/below")];
        for path in missing {
            assert_eq!(load(path, Path::new("/")).unwrap(), Content::Missing);
        }
    }

    #[test]
    fn other_types_are_refused_without_blocking() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mkfifoat(CWD, &fifo, Mode::RUSR).unwrap();
        for path in [Path::new("/dev/zero"), dir.path(), &fifo] {
            let message = load(path, Path::new("/")).unwrap_err().to_string();
            assert_eq!(message, format!("file {} has wrong file type", path.display()));
        }
    }

    #[test]
    fn other_errors_contain_operation_path_and_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("loop");
        symlink("loop", &path).unwrap();
        let path = path.join("x");
        let message = load(&path, Path::new("/")).unwrap_err().to_string();
        assert!(message.starts_with(&format!("lstat {}: too many ", path.display())), "{message}");
        assert!(!message.contains("os error"), "{message}");
    }
}

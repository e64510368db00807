//! Files below a root, read without blocking and without symlinks leading out.

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The maximum size of a file; a larger one is an error.
const MAX_SIZE: u64 = 16 << 20;
/// The maximum number of lookups of a path during concurrent renames.
const ATTEMPTS: u32 = 16;

/// The directory below which all paths are resolved.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    directory: Option<OwnedFd>,
}

impl Root {
    /// Opens the root at this path. If the directory does not exist, the root has no files.
    #[must_use]
    pub fn new(path: &Path) -> Root {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Root { path: path.to_owned(), directory: rustix::fs::open(path, flags, Mode::empty()).ok() }
    }

    /// Returns true if this is the running system.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.path == Path::new("/")
    }

    /// Returns the path of a file below the root, for messages and for opening it.
    #[must_use]
    pub fn shown(&self, path: impl AsRef<Path>) -> PathBuf {
        if self.path == Path::new(".") { path.as_ref().to_owned() } else { self.path.join(path) }
    }

    /// Returns true if the path exists.
    #[must_use]
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.open(path.as_ref(), OFlags::PATH).is_ok()
    }

    /// Returns the content of a file; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read, is not a regular file, or is too large.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<Option<Vec<u8>>> {
        match self.open(path.as_ref(), OFlags::RDONLY).and_then(content) {
            Ok(content) => Ok(Some(content)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the content of a file as text; `None` if it does not exist or cannot be read.
    #[must_use]
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let content = self.read(path).ok()??;
        Some(String::from_utf8_lossy(&content).into_owned())
    }

    /// Returns the type and mode of a file.
    ///
    /// # Errors
    /// If it does not exist, or its metadata cannot be read.
    pub fn stat(&self, path: impl AsRef<Path>) -> io::Result<(FileType, Mode)> {
        let stat = rustix::fs::fstat(self.open(path.as_ref(), OFlags::PATH)?)?;
        Ok((FileType::from_raw_mode(stat.st_mode), Mode::from_raw_mode(stat.st_mode)))
    }

    /// Returns the ID of the group of a file.
    ///
    /// # Errors
    /// If it does not exist, or its metadata cannot be read.
    pub fn group_id(&self, path: impl AsRef<Path>) -> io::Result<u32> {
        Ok(rustix::fs::fstat(self.open(path.as_ref(), OFlags::PATH)?)?.st_gid)
    }

    /// Returns the target of a symlink; `None` for any other file.
    ///
    /// # Errors
    /// If it does not exist, or cannot be read.
    pub fn link(&self, path: impl AsRef<Path>) -> io::Result<Option<PathBuf>> {
        let opened = self.open(path.as_ref(), OFlags::PATH | OFlags::NOFOLLOW)?;
        match rustix::fs::readlinkat(opened, "", Vec::new()) {
            Ok(target) => Ok(Some(PathBuf::from(OsStr::from_bytes(target.as_bytes())))),
            // The kernel's errors for a file that is not a symlink.
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns the names in a folder in byte order; empty if it does not exist.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn names(&self, path: impl AsRef<Path>) -> io::Result<Vec<OsString>> {
        let folder = match self.open(path.as_ref(), OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in Dir::new(folder)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Opens a file without blocking: a FIFO is opened immediately, and then refused.
    fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        // O_PATH never blocks, and openat2 refuses flags without effect.
        let waits_not = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK | OFlags::NOCTTY };
        let flags = flags | OFlags::CLOEXEC | waits_not;
        let directory = self.directory.as_ref().ok_or(Errno::NOENT)?;
        for _ in 0..ATTEMPTS {
            let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                // The kernel is too old, or a sandbox blocks the call: symlinks are then relative to the system's root.
                Err(Errno::NOSYS | Errno::PERM) => break,
                opened => return Ok(opened?),
            }
        }
        Ok(rustix::fs::open(self.shown(path), flags, Mode::empty())?)
    }
}

/// Returns the content of a file with definitions, data or settings.
///
/// # Errors
/// If it cannot be read, is not a regular file, or is larger than 16 MiB.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a FIFO must not block.
    content(rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// Returns the content of an open file with definitions, data or settings.
///
/// # Errors
/// If it cannot be read, is not a regular file, or is larger than 16 MiB.
pub fn content(opened: OwnedFd) -> io::Result<Vec<u8>> {
    let stat = rustix::fs::fstat(&opened)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("this is not a regular file"));
    }
    // With enough capacity, a file takes two reads. Otherwise they start with 32 bytes.
    let size = u64::try_from(stat.st_size).unwrap_or_default().min(MAX_SIZE) + 1;
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    File::from(opened).take(MAX_SIZE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_SIZE {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    Ok(content)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Creates a root with these files, all of them empty.
    pub(crate) fn root(paths: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for path in paths {
            fs::create_dir_all(folder.path().join(Path::new(path).parent().unwrap())).unwrap();
            fs::write(folder.path().join(path), "").unwrap();
        }
        folder
    }

    #[test]
    fn symlinks_stay_below_the_root_and_fifos_do_not_hang() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir_all(path.join("etc/nested")).unwrap();
        fs::write(path.join("etc/file"), "inside").unwrap();
        symlink("/etc/file", path.join("etc/absolute")).unwrap();
        symlink("../../../../etc/file", path.join("etc/nested/up")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path.join("etc/fifo"), Mode::from_raw_mode(0o644)).unwrap();
        let root = Root::new(path);
        for way in ["etc/file", "etc/absolute", "etc/nested/up"] {
            assert_eq!(root.read(way).unwrap().unwrap(), b"inside", "{way}");
        }
        assert_eq!(root.read("etc/none").unwrap(), None);
        assert_eq!(root.read("etc/file/none").unwrap(), None);
        assert_eq!(root.link("etc/absolute").unwrap().unwrap(), Path::new("/etc/file"));
        assert_eq!(root.link("etc/file").unwrap(), None);
        assert!(root.link("etc/none").is_err());
        assert_eq!(root.read("etc/fifo").unwrap_err().to_string(), "this is not a regular file");
        assert_eq!(root.names("etc").unwrap(), ["absolute", "fifo", "file", "nested"]);
        assert_eq!(root.names("usr").unwrap(), [] as [&str; 0]);
        assert!(root.has("etc/fifo") && !root.has("usr"));
    }

    #[test]
    fn below_nothing_is_nothing() {
        let root = Root::new(Path::new("/nowhere/at/all"));
        assert_eq!(root.read("etc/file").unwrap(), None);
        assert!(root.names("etc").unwrap().is_empty());
    }
}

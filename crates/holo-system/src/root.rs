//! Files below a root, read so that nothing hangs and no symlink leads out.

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The size above which a file is taken for a mistake.
const MAX_SIZE: u64 = 16 << 20;
/// The number of times that a path is looked up anew while something is renamed.
const ATTEMPTS: u32 = 16;

/// The folder below which everything is looked for.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    directory: Option<OwnedFd>,
}

impl Root {
    /// The root at this path. If there is no such directory, it has no files.
    #[must_use]
    pub fn new(path: &Path) -> Root {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Root { path: path.to_owned(), directory: rustix::fs::open(path, flags, Mode::empty()).ok() }
    }

    /// Returns true if this is the system that runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.path == Path::new("/")
    }

    /// A path below the root, as the user knows it and the system opens it.
    #[must_use]
    pub fn shown(&self, path: impl AsRef<Path>) -> PathBuf {
        if self.path == Path::new(".") { path.as_ref().to_owned() } else { self.path.join(path) }
    }

    /// Returns true if there is anything.
    #[must_use]
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.open(path.as_ref(), OFlags::PATH).is_ok()
    }

    /// The content of a file; none if there is no such file.
    ///
    /// # Errors
    /// If there is something that cannot be read, or is not a regular file of sensible size.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<Option<Vec<u8>>> {
        match self.open(path.as_ref(), OFlags::RDONLY).and_then(content) {
            Ok(content) => Ok(Some(content)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The content of a file as text; none if there is no such file or it cannot be read.
    #[must_use]
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let content = self.read(path).ok()??;
        Some(String::from_utf8_lossy(&content).into_owned())
    }

    /// The type of a file, and its mode.
    ///
    /// # Errors
    /// If it cannot be looked at, or is not there.
    pub fn stat(&self, path: impl AsRef<Path>) -> io::Result<(FileType, Mode)> {
        let stat = rustix::fs::fstat(self.open(path.as_ref(), OFlags::PATH)?)?;
        Ok((FileType::from_raw_mode(stat.st_mode), Mode::from_raw_mode(stat.st_mode)))
    }

    /// The text of a symlink; none if there is something else.
    ///
    /// # Errors
    /// If it cannot be looked at, or is not there.
    pub fn link(&self, path: impl AsRef<Path>) -> io::Result<Option<PathBuf>> {
        let opened = self.open(path.as_ref(), OFlags::PATH | OFlags::NOFOLLOW)?;
        match rustix::fs::readlinkat(opened, "", Vec::new()) {
            Ok(target) => Ok(Some(PathBuf::from(OsStr::from_bytes(target.as_bytes())))),
            // The kernel says so of what is not a symlink.
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The names in a folder, sorted as bytes; none if there is no such folder.
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

    /// Opens without waiting for anybody: a FIFO is open at once, and then is no file.
    fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        // A path alone is never waited for, and openat2 takes no flags that would say nothing.
        let waits_not = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK | OFlags::NOCTTY };
        let flags = flags | OFlags::CLOEXEC | waits_not;
        let directory = self.directory.as_ref().ok_or(Errno::NOENT)?;
        for _ in 0..ATTEMPTS {
            let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                // An old kernel, or a sandbox that does not know the call: then the system's root is that of symlinks.
                Err(Errno::NOSYS | Errno::PERM) => break,
                opened => return Ok(opened?),
            }
        }
        Ok(rustix::fs::open(self.shown(path), flags, Mode::empty())?)
    }
}

/// The content of what has been opened.
///
/// # Errors
/// If it cannot be read, or is not a regular file of sensible size.
pub fn content(opened: OwnedFd) -> io::Result<Vec<u8>> {
    if FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("this is not a regular file"));
    }
    let mut content = Vec::new();
    File::from(opened).take(MAX_SIZE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_SIZE {
        return Err(io::Error::other("this is too large"));
    }
    Ok(content)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A root with these files, all of them empty.
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

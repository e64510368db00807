//! Opening directories below a root, without following symlinks of other users.

use crate::resolution::{Links, Way, open_plain};
use rustix::fs::Mode;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Opens a directory below `root`, for use with the `*at` system calls.
///
/// If no component of the path is a symlink, which is nearly always the case, this takes a single system call. Absolute
/// symlinks are relative to `root`.
///
/// # Errors
/// Those of the system, and a specific one for symlinks of other users.
pub(crate) fn open_below(root: impl AsFd, path: &Path, links: Links) -> io::Result<OwnedFd> {
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
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(missing)
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
        fs::write(folder.path().join("file"), "").unwrap();
        assert_eq!(
            create_below(&root, Path::new("file/x"), Links::Trusted).unwrap_err().kind(),
            io::ErrorKind::NotADirectory
        );
    }
}

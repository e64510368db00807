//! Directories below a root, found without following anybody else's symlinks.

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// The maximal number of symlinks that a path may lead through, as in the kernel.
pub(crate) const MAX_SYMLINKS: u32 = 40;

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The symlinks in a path that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// Those that root or we have made.
    Trusted,
    /// None at all.
    None,
}

/// Opens a directory below `root`, for use with the `*at` system calls.
///
/// Where no part of the path is a symlink, which is nearly always, that is one system call. Symlinks are followed only if they and the
/// directory they stand in belong to root or to us, as systemd-tmpfiles does: the owner of any other could point it at what is not
/// theirs. An absolute symlink is read as below `root`.
///
/// # Errors
/// Those of the system, and one with words of its own for a symlink of somebody else.
pub(crate) fn open_below(root: impl AsFd, path: &Path, links: Links) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(&root, path, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty(), resolve) {
        // ENOSYS: an old kernel; EPERM: a sandbox that does not know the call; EXDEV: a path with `..`, and EAGAIN: one that was
        // looked at while something anywhere was renamed.
        Err(Errno::LOOP | Errno::NOSYS | Errno::PERM | Errno::XDEV | Errno::AGAIN) => walk(root.as_fd(), path, links),
        opened => Ok(opened?),
    }
}

/// Goes down the path part by part, looking at each symlink.
fn walk(root: BorrowedFd<'_>, path: &Path, links: Links) -> io::Result<OwnedFd> {
    let open = |directory: BorrowedFd<'_>, name: &OsStr| rustix::fs::openat(directory, name, DIRECTORY, Mode::empty());
    let mut parts: VecDeque<OsString> = parts(path).collect();
    // The directories from the root to where we are, so that `..` leads no further than the root.
    let mut way: Vec<OwnedFd> = vec![open(root, OsStr::new("."))?];
    let mut symlinks = 0;
    while let Some(part) = parts.pop_front() {
        let here = way.last().ok_or(Errno::NOENT)?;
        if part == ".." {
            way.truncate(way.len().saturating_sub(1).max(1));
            continue;
        }
        match open(here.as_fd(), &part) {
            Ok(next) => way.push(next),
            Err(failure @ (Errno::LOOP | Errno::NOTDIR)) => {
                let stat = rustix::fs::statat(here, &part, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                    return Err(failure.into());
                }
                if links == Links::None {
                    return Err(unwanted(&part));
                }
                symlinks += 1;
                if symlinks > MAX_SYMLINKS {
                    return Err(Errno::LOOP.into());
                }
                if !is_trusted(stat.st_uid) || !is_trusted(rustix::fs::fstat(here)?.st_uid) {
                    return Err(distrusted(&part));
                }
                let target = rustix::fs::readlinkat(here, &part, Vec::new())?;
                let target = OsString::from_vec(target.into_bytes());
                if target.as_bytes().starts_with(b"/") {
                    way.truncate(1);
                }
                self::parts(Path::new(&target)).rev().for_each(|part| parts.push_front(part));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(way.pop().ok_or(Errno::NOENT)?)
}

/// Resolves a path to one below `root`, without symlinks: those on its way are followed as by [`open_below`], and the last part
/// too if `last` is set. Two paths with the same result are the same thing. Parts that do not exist are normalised lexically.
///
/// # Errors
/// Those of the system, a symlink of somebody else among them.
pub(crate) fn canonical_below(root: impl AsFd, path: &Path, last: bool) -> io::Result<PathBuf> {
    let mut open: VecDeque<OsString> = parts(path).collect();
    let mut way: Vec<(OsString, OwnedFd)> = Vec::new();
    let mut symlinks = 0;
    while let Some(part) = open.pop_front() {
        if part == ".." {
            way.pop();
            continue;
        }
        let here = way.last().map_or(root.as_fd(), |(_, directory)| directory.as_fd());
        let stat = match rustix::fs::statat(here, &part, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT | Errno::NOTDIR) => None,
            Err(errno) => return Err(errno.into()),
        };
        let kind = stat.map(|stat| FileType::from_raw_mode(stat.st_mode));
        if let (Some(stat), Some(FileType::Symlink)) = (stat, kind)
            && (last || !open.is_empty())
        {
            symlinks += 1;
            if symlinks > MAX_SYMLINKS {
                return Err(Errno::LOOP.into());
            }
            if !is_trusted(stat.st_uid) || !is_trusted(rustix::fs::fstat(here)?.st_uid) {
                return Err(distrusted(&part));
            }
            let target = OsString::from_vec(rustix::fs::readlinkat(here, &part, Vec::new())?.into_bytes());
            if target.as_bytes().starts_with(b"/") {
                way.clear();
            }
            parts(Path::new(&target)).rev().for_each(|part| open.push_front(part));
        } else if kind == Some(FileType::Directory) {
            let directory = rustix::fs::openat(here, &part, DIRECTORY, Mode::empty())?;
            way.push((part, directory));
        } else {
            let mut path: PathBuf = way.iter().map(|(name, _)| name).collect();
            path.push(part);
            for part in open {
                if part == ".." {
                    path.pop();
                } else {
                    path.push(part);
                }
            }
            return Ok(path);
        }
    }
    Ok(way.iter().map(|(name, _)| name).collect())
}

/// The error of a symlink on the way that is not followed.
pub(crate) fn distrusted(name: &OsStr) -> io::Error {
    let text = format!("{} on the way is a symlink of another user, which is not followed", name.display());
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

fn unwanted(name: &OsStr) -> io::Error {
    io::Error::new(io::ErrorKind::NotADirectory, format!("{} on the way is a symlink", name.display()))
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}

/// Returns true if this user is root or the one that the process runs as.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Makes a directory and what is missing above it, each 0755; returns those that were made, the topmost first.
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
    fn several_names_have_one_canonical_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir_all(path.join("a/b")).unwrap();
        symlink("a", path.join("relative")).unwrap();
        symlink("/a/b", path.join("absolute")).unwrap();
        symlink("../../../relative", path.join("a/up")).unwrap();
        symlink("circle", path.join("circle")).unwrap();
        fs::write(path.join("a/file"), "").unwrap();
        let root = File::open(path).unwrap();
        let canonical = |way: &str, last| canonical_below(&root, Path::new(way), last);
        for (way, name) in [
            ("a/b", "a/b"),
            ("relative/b/", "a/b"),
            ("absolute", "a/b"),
            ("./a/up/../a/up/b/.", "a/b"),
            ("../relative/file", "a/file"),
            ("absolute/none/below", "a/b/none/below"),
            ("absolute/none/../../x", "a/x"),
            ("a/file/below", "a/file/below"),
            ("", ""),
        ] {
            assert_eq!(canonical(way, true).unwrap(), Path::new(name), "{way}");
        }
        assert_eq!(canonical("relative/up", false).unwrap(), Path::new("a/up"));
        assert!(canonical("circle", true).is_err() && canonical("circle/x", false).is_err());
    }

    #[test]
    fn does_not_follow_the_symlinks_of_others() {
        if !rustix::process::geteuid().is_root() {
            // Only root can make what belongs to others.
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

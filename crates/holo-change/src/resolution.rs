//! Path resolution below a root: the directories and symlinks that a path leads through.

use crate::paths::parts;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The maximum number of symlinks in a path, as in the kernel.
pub(crate) const MAX_SYMLINKS: usize = 40;

pub(crate) const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The symlinks in a path that are followed.
///
/// Symlinks of root and of the current user are *trusted* if their directory belongs to root or the current user too,
/// as in systemd-tmpfiles: the owner of any other directory could let them point to files of other users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Trusted symlinks; others are an error.
    Trusted,
    /// Trusted symlinks; others are kept in the path, and the rest of the path is not examined.
    TrustedElseKept,
    /// No symlinks; each is an error.
    None,
}

/// A path below a root, with symlinks resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The path, with a leading slash.
    pub path: PathBuf,
    /// The canonical paths of the symlinks that were followed.
    pub symlinks: Vec<PathBuf>,
}

/// The part of a path that leads through directories.
#[derive(Debug, Default)]
pub(crate) struct Way {
    /// The directories below the root.
    directories: Vec<(OsString, OwnedFd)>,
    symlinks: Vec<PathBuf>,
    /// The remaining components, the first of which is not a directory, with the error.
    rest: Option<(Vec<OsString>, Errno)>,
}

impl Way {
    /// Follows a path one component at a time, examining each symlink.
    ///
    /// # Errors
    /// Those of the system, and a specific one for symlinks that are not followed.
    pub(crate) fn follow(root: BorrowedFd<'_>, path: &Path, links: Links) -> io::Result<Way> {
        let mut open: VecDeque<OsString> = parts(path).collect();
        // All directories from the root to the current one, so that `..` cannot leave the root.
        let mut way = Way::default();
        while let Some(part) = open.pop_front() {
            if part == ".." {
                way.directories.pop();
                continue;
            }
            let here = way.directories.last().map_or(root, |(_, directory)| directory.as_fd());
            let failure = match rustix::fs::openat(here, &part, DIRECTORY, Mode::empty()) {
                Ok(directory) => {
                    way.directories.push((part, directory));
                    continue;
                }
                Err(failure) => failure,
            };
            let target = match failure {
                Errno::LOOP | Errno::NOTDIR => target_of(here, &part, links)?,
                // A name that exceeds the maximum length cannot exist.
                Errno::NOENT | Errno::NAMETOOLONG => None,
                _ => return Err(failure.into()),
            };
            let Some(target) = target else {
                open.push_front(part);
                way.rest = Some((open.into(), failure));
                break;
            };
            way.symlinks.push(way.path().join(&part));
            if way.symlinks.len() > MAX_SYMLINKS {
                return Err(Errno::LOOP.into());
            }
            if target.as_bytes().starts_with(b"/") {
                way.directories.clear();
            }
            parts(Path::new(&target)).rev().for_each(|part| open.push_front(part));
        }
        Ok(way)
    }

    /// Returns the directory of the complete path. The root itself is opened again.
    pub(crate) fn into_directory(mut self, root: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        match (self.rest, self.directories.pop()) {
            (Some((_, failure)), _) => Err(failure.into()),
            (None, Some((_, directory))) => Ok(directory),
            (None, None) => Ok(rustix::fs::openat(root, ".", DIRECTORY, Mode::empty())?),
        }
    }

    /// Returns the path of the last directory.
    fn path(&self) -> PathBuf {
        let root = PathBuf::from("/");
        self.directories.iter().fold(root, |path, (name, _)| path.join(name))
    }

    /// Returns the resolved path. Components that do not exist are normalised lexically.
    fn into_resolved(self) -> Resolved {
        let mut path = self.path();
        for part in self.rest.into_iter().flat_map(|(parts, _)| parts) {
            if part == ".." {
                path.pop();
            } else {
                path.push(part);
            }
        }
        Resolved { path, symlinks: self.symlinks }
    }
}

/// Returns the target of a symlink that is followed; `None` if it is not followed, or is not a symlink.
fn target_of(here: BorrowedFd<'_>, name: &OsStr, links: Links) -> io::Result<Option<OsString>> {
    let stat = match rustix::fs::statat(here, name, AtFlags::SYMLINK_NOFOLLOW) {
        // It was removed in the meantime.
        Err(Errno::NOENT) => return Ok(None),
        stat => stat?,
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return Ok(None);
    }
    if links == Links::None {
        let text = format!("{} on the way is a symlink", name.display());
        return Err(io::Error::new(io::ErrorKind::NotADirectory, text));
    }
    if !is_trusted(stat.st_uid) || !is_trusted(rustix::fs::fstat(here)?.st_uid) {
        return if links == Links::TrustedElseKept { Ok(None) } else { Err(distrusted(name)) };
    }
    let target = rustix::fs::readlinkat(here, name, Vec::new())?;
    Ok(Some(OsString::from_vec(target.into_bytes())))
}

/// Resolves a path below `root` to one without symlinks in its parents; the last component is followed too if `last` is
/// set. Two paths with the same result refer to the same file. Components that do not exist are normalised lexically.
///
/// If all parents are directories, which is nearly always the case, this takes a single system call.
///
/// # Errors
/// Those of the system, and a specific one for symlinks that are not followed.
pub(crate) fn resolve_below(root: impl AsFd, path: &Path, last: bool, links: Links) -> io::Result<Resolved> {
    let mut names: Vec<OsString> = parts(path).collect();
    let name = if last || names.last().is_some_and(|name| name == "..") { None } else { names.pop() };
    let directory: PathBuf = names.iter().collect();
    let is_plain = !names.iter().any(|name| name == "..") && open_plain(root.as_fd(), &directory).is_ok();
    let mut resolved = if is_plain {
        Resolved { path: Path::new("/").join(directory), symlinks: Vec::new() }
    } else {
        Way::follow(root.as_fd(), &directory, links)?.into_resolved()
    };
    resolved.path.extend(name);
    Ok(resolved)
}

/// Opens a directory below `root`, for use with the `*at` system calls, if its path contains no symlinks.
pub(crate) fn open_plain(root: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty(), resolve)
}

/// Returns the error for a symlink that is not followed.
pub(crate) fn distrusted(name: &OsStr) -> io::Error {
    let text = format!("{} on the way is a symlink of another user, which is not followed", name.display());
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// Returns true for root and the user of this process.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::{lchown, symlink};

    /// A root directory with various directories and symlinks.
    fn site() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir_all(path.join("a/b")).unwrap();
        symlink("a", path.join("relative")).unwrap();
        symlink("/a/b", path.join("absolute")).unwrap();
        symlink("../../../relative", path.join("a/up")).unwrap();
        symlink("circle", path.join("circle")).unwrap();
        symlink("nowhere/at/all", path.join("dangling")).unwrap();
        fs::write(path.join("a/file"), "").unwrap();
        folder
    }

    fn resolve(root: &Path, path: &str, last: bool, links: Links) -> io::Result<Resolved> {
        resolve_below(File::open(root).unwrap(), Path::new(path), last, links)
    }

    #[test]
    fn several_names_have_one_canonical_name() {
        let site = site();
        let long = format!("/{}/x", "n".repeat(300));
        for links in [Links::Trusted, Links::TrustedElseKept] {
            for (path, expected) in [
                ("a/b", "/a/b"),
                ("relative/b/", "/a/b"),
                ("absolute", "/a/b"),
                ("./a/up/../a/up/b/.", "/a/b"),
                ("../relative/file", "/a/file"),
                ("absolute/none/below", "/a/b/none/below"),
                ("absolute/none/../../x", "/a/x"),
                ("a/file/below", "/a/file/below"),
                ("dangling/x", "/nowhere/at/all/x"),
                ("/a/b/..", "/a"),
                (&long, &long),
                ("", "/"),
            ] {
                assert_eq!(resolve(site.path(), path, true, links).unwrap().path, Path::new(expected), "{path}");
            }
            for (path, expected) in [("relative/up", "/a/up"), ("absolute", "/absolute"), ("a/b/..", "/a"), ("/", "/")]
            {
                assert_eq!(resolve(site.path(), path, false, links).unwrap().path, Path::new(expected), "{path}");
            }
            for (path, last) in [("circle", true), ("circle/x", false)] {
                let error = resolve(site.path(), path, last, links).unwrap_err();
                assert_eq!(Errno::from_io_error(&error), Some(Errno::LOOP));
            }
        }
    }

    #[test]
    fn the_symlinks_on_the_way_are_told() {
        let site = site();
        let symlinks = |path, last| resolve(site.path(), path, last, Links::TrustedElseKept).unwrap().symlinks;
        assert_eq!(
            symlinks("/relative/up/x", false),
            [Path::new("/relative"), Path::new("/a/up"), Path::new("/relative")]
        );
        assert_eq!(symlinks("/absolute", true), [Path::new("/absolute")]);
        assert_eq!(symlinks("/absolute", false), [] as [&Path; 0]);
        assert_eq!(symlinks("/a/b/x/y", true), [] as [&Path; 0]);
    }

    #[test]
    fn a_strangers_symlink_is_refused_or_kept() {
        if !rustix::process::geteuid().is_root() {
            // Only root can create files of other users.
            return;
        }
        let site = site();
        fs::create_dir(site.path().join("home")).unwrap();
        let link = site.path().join("home/link");
        symlink("../a", &link).unwrap();
        let resolve = |path, last, links| resolve(site.path(), path, last, links);
        assert_eq!(resolve("home/link/b", true, Links::Trusted).unwrap().path, Path::new("/a/b"));
        // The symlink itself, or its directory, belongs to another user.
        for stranger in [&*link, &*site.path().join("home")] {
            lchown(stranger, Some(1234), None).unwrap();
            let error = resolve("home/link/b", true, Links::Trusted).unwrap_err();
            assert!(error.to_string().contains("link on the way is a symlink of another user"), "{error}");
            // As the last component, it is not followed.
            assert_eq!(resolve("home/link", false, Links::Trusted).unwrap().path, Path::new("/home/link"));
            for path in ["home/link", "home/link/b", "home/link/b/../up"] {
                let kept = resolve(path, true, Links::TrustedElseKept).unwrap();
                let expected = Path::new("/").join(path.replace("b/../", ""));
                assert_eq!(kept, Resolved { path: expected, symlinks: Vec::new() });
            }
            lchown(stranger, Some(0), None).unwrap();
        }
        let error = resolve("home/link/b", true, Links::None).unwrap_err();
        assert!(error.to_string().contains("link on the way is a symlink"), "{error}");
    }
}

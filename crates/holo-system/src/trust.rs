//! Trust in files that decide what root does: other users must not be able to modify them.
//!
//! A file is trusted if it, every directory on its path and every symlink on the way belong to root, to the effective user or to the owner of
//! the root directory, and no other user can write to them. Everything in a trusted path can only be replaced by a trusted user, so a file that
//! is opened after the check is the one that was checked.

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// The maximum number of symlinks in a path, as in the kernel.
const MAX_LINKS: usize = 40;
const WRITABLE_BY_GROUP: u32 = 0o020;
const WRITABLE_BY_OTHERS: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// The users whose files are trusted.
#[derive(Clone, Debug)]
pub struct Trust {
    /// The root directory, resolved. The directories above it belong to the host, and are not checked.
    root: PathBuf,
    users: Vec<u32>,
    /// Groups that consist of one of these users, so that their write permission adds no other user.
    groups: Vec<u32>,
}

/// A file, directory or symlink that other users may modify.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {}", path.display(), fault)]
pub struct Violation {
    /// The path.
    pub path: PathBuf,
    /// The reason.
    pub fault: Fault,
}

/// The reason why other users may modify a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its mode gives them write permission.
    #[error("is writable for other users (mode {mode:04o})")]
    Writable {
        /// The mode.
        mode: u32,
    },
    /// One of them owns it.
    #[error("belongs to user {uid} (mode {mode:04o})")]
    Owner {
        /// The owner.
        uid: u32,
        /// The mode.
        mode: u32,
    },
}

/// A file is not trusted, or cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// Other users may modify it.
    #[error("{0}, and is not used; to fix this: {remedy}", remedy = .0.remedy())]
    Violation(#[from] Violation),
    /// It cannot be examined or opened.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Violation {
    /// Returns the command that makes the path trusted.
    #[must_use]
    pub fn remedy(&self) -> String {
        let path = self.path.to_string_lossy();
        let path = shlex::try_quote(&path).unwrap_or_else(|_| path.clone());
        match self.fault {
            Fault::Writable { .. } => format!("chmod go-w {path}"),
            Fault::Owner { .. } => format!("chown -h root: {path}"),
        }
    }
}

impl Trust {
    /// Returns the trust for files below a root directory. Below a root other than `/`, files of the user who owns it are trusted too.
    #[must_use]
    pub fn new(root: &Path) -> Trust {
        let resolved = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        let mut trust = Trust { root: resolved, users: vec![0, user], groups: Vec::new() };
        if user != 0 {
            trust.groups.push(group);
        }
        if trust.root != Path::new("/")
            && let Ok(metadata) = fs::metadata(&trust.root)
            && metadata.uid() != 0
        {
            trust.users.push(metadata.uid());
            trust.groups.push(metadata.gid());
        }
        trust
    }

    /// Checks a path, all directories above it and all symlinks on the way. Returns the resolved path.
    ///
    /// # Errors
    /// If other users may modify any of these, or the path cannot be resolved.
    pub fn examine(&self, path: &Path) -> Result<PathBuf, TrustError> {
        let is_above = |directory: &Path| self.root != directory && self.root.starts_with(directory);
        let mut pending: VecDeque<OsString> = VecDeque::new();
        prepend(&mut pending, &std::path::absolute(path)?);
        let mut current = PathBuf::from("/");
        if !is_above(&current) {
            self.judge(&current, &fs::symlink_metadata(&current)?)?;
        }
        let mut links = 0;
        while let Some(name) = pending.pop_front() {
            if name == ".." {
                current.pop();
                continue;
            }
            let next = current.join(&name);
            let metadata = fs::symlink_metadata(&next)?;
            if !is_above(&next) {
                self.judge(&next, &metadata)?;
            }
            if metadata.is_symlink() {
                links += 1;
                if links > MAX_LINKS {
                    return Err(io::Error::from(Errno::LOOP).into());
                }
                let target = fs::read_link(&next)?;
                if target.is_absolute() {
                    current = PathBuf::from("/");
                }
                prepend(&mut pending, &target);
                continue;
            }
            current = next;
        }
        Ok(current)
    }

    /// Returns the first violation that [`examine`](Self::examine) finds; `None` for a path that cannot be resolved, of
    /// which reading reports the error.
    #[must_use]
    pub fn violation(&self, path: &Path) -> Option<Violation> {
        match self.examine(path) {
            Err(TrustError::Violation(violation)) => Some(violation),
            Ok(_) | Err(TrustError::Io(_)) => None,
        }
    }

    /// Opens a regular file for reading, after checking it like [`examine`](Self::examine).
    ///
    /// # Errors
    /// If other users may modify it, or it cannot be opened, or is not a regular file.
    pub fn open(&self, path: &Path) -> Result<File, TrustError> {
        let real = self.examine(path)?;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(&real)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(not_a_file(&metadata).into());
        }
        self.judge(&real, &metadata)?;
        Ok(file)
    }

    /// Checks a program like [`examine`](Self::examine).
    ///
    /// # Errors
    /// If other users may modify it, or it is not a regular file.
    pub fn examine_program(&self, path: &Path) -> Result<(), TrustError> {
        let metadata = fs::metadata(self.examine(path)?)?;
        if metadata.is_file() { Ok(()) } else { Err(not_a_file(&metadata).into()) }
    }

    /// Checks a path by its metadata alone. Devices, sockets and FIFOs, which contain no instructions, are not judged.
    ///
    /// # Errors
    /// If other users may modify it.
    pub fn judge(&self, path: &Path, metadata: &Metadata) -> Result<(), Violation> {
        let (uid, mode) = (metadata.uid(), metadata.mode() & 0o7777);
        let violation = |fault| Err(Violation { path: path.to_owned(), fault });
        let kind = FileType::from_raw_mode(metadata.mode());
        if !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink) {
            return Ok(());
        }
        if !self.users.contains(&uid) {
            return violation(Fault::Owner { uid, mode });
        }
        // A symlink has no permissions. In a sticky directory, only the owners of entries can replace them.
        let is_protected = kind == FileType::Directory && mode & STICKY != 0 && uid == 0;
        if kind == FileType::Symlink || is_protected {
            return Ok(());
        }
        // Write permission in an ACL entry is visible in the group's bits.
        let others = if self.groups.contains(&metadata.gid()) {
            WRITABLE_BY_OTHERS
        } else {
            WRITABLE_BY_GROUP | WRITABLE_BY_OTHERS
        };
        if mode & others != 0 { violation(Fault::Writable { mode }) } else { Ok(()) }
    }
}

/// Puts the components of a path before the pending ones.
fn prepend(pending: &mut VecDeque<OsString>, path: &Path) {
    for part in path.components().rev() {
        match part {
            Component::Normal(name) => pending.push_front(name.to_owned()),
            Component::ParentDir => pending.push_front("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

fn not_a_file(metadata: &Metadata) -> io::Error {
    let errno = if metadata.is_dir() { Errno::ISDIR } else { Errno::ACCESS };
    errno.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    /// A root directory that only the owner can write to, like all files in it.
    struct Scratch(tempfile::TempDir);

    impl Scratch {
        fn new() -> Scratch {
            let scratch = Scratch(tempfile::tempdir().unwrap());
            for folder in ["a", "a/b", "other"] {
                fs::create_dir(scratch.path(folder)).unwrap();
                scratch.mode(folder, 0o755);
            }
            fs::write(scratch.path("a/b/module"), "one").unwrap();
            scratch.mode("a/b/module", 0o755);
            scratch
        }

        fn path(&self, name: &str) -> PathBuf {
            fs::canonicalize(self.0.path()).unwrap().join(name)
        }

        fn mode(&self, name: &str, mode: u32) {
            fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
        }

        fn examine(&self, name: &str) -> Result<PathBuf, TrustError> {
            Trust::new(&self.path("")).open(&self.path(name))?;
            Trust::new(&self.path("")).examine(&self.path(name))
        }

        /// Returns the path that is not trusted, and the reason.
        fn violation(&self, name: &str) -> Option<(PathBuf, Fault)> {
            match self.examine(name) {
                Ok(_) => None,
                Err(TrustError::Violation(Violation { path, fault })) => {
                    let root = fs::canonicalize(self.0.path()).unwrap();
                    Some((path.strip_prefix(root).unwrap().to_owned(), fault))
                }
                Err(TrustError::Io(error)) => panic!("{name}: {error}"),
            }
        }
    }

    #[test]
    fn write_permission_for_others_on_any_path_component_is_refused() {
        let scratch = Scratch::new();
        assert_eq!(scratch.violation("a/b/module"), None);
        for (name, mode) in [("a/b/module", 0o777), ("a/b/module", 0o775), ("a/b", 0o2775), ("a", 0o757), ("", 0o770)] {
            let before = fs::metadata(scratch.path(name)).unwrap().permissions().mode();
            scratch.mode(name, mode);
            let expected = (geteuid().is_root() || mode & 0o002 != 0).then(|| (name.into(), Fault::Writable { mode }));
            assert_eq!(scratch.violation("a/b/module"), expected);
            scratch.mode(name, before);
        }
        assert_eq!(scratch.violation("a/b/module"), None);
    }

    #[test]
    fn sticky_directory_is_trusted_but_not_what_others_put_in_it() {
        let scratch = Scratch::new();
        if !geteuid().is_root() {
            return;
        }
        scratch.mode("a", 0o1777);
        assert_eq!(scratch.violation("a/b/module"), None);
        symlink("b/module", scratch.path("a/link")).unwrap();
        assert_eq!(scratch.violation("a/link"), None);
        std::os::unix::fs::lchown(scratch.path("a/link"), Some(4711), None).unwrap();
        assert_eq!(scratch.violation("a/link"), Some(("a/link".into(), Fault::Owner { uid: 4711, mode: 0o777 })));
    }

    #[test]
    fn all_directories_of_a_symlinked_path_are_checked() {
        let scratch = Scratch::new();
        symlink("../a/b/module", scratch.path("other/link")).unwrap();
        symlink("other", scratch.path("way")).unwrap();
        assert_eq!(scratch.violation("way/link"), None);
        // The directory of the link, and those of its target.
        for name in ["other", "a", "a/b"] {
            scratch.mode(name, 0o777);
            assert_eq!(scratch.violation("way/link"), Some((name.into(), Fault::Writable { mode: 0o777 })));
            scratch.mode(name, 0o755);
        }
        // An intermediate symlink in a directory that is in neither the path nor the target.
        fs::create_dir(scratch.path("stop")).unwrap();
        symlink("stop/next", scratch.path("first")).unwrap();
        symlink("../a/b/module", scratch.path("stop/next")).unwrap();
        assert_eq!(scratch.violation("first"), None);
        scratch.mode("stop", 0o777);
        assert_eq!(scratch.violation("first"), Some(("stop".into(), Fault::Writable { mode: 0o777 })));
    }

    #[test]
    fn unresolvable_paths_are_io_errors() {
        let scratch = Scratch::new();
        symlink("loop", scratch.path("loop")).unwrap();
        for name in ["loop", "missing", "a/b"] {
            assert!(matches!(scratch.examine(name), Err(TrustError::Io(_))), "{name}");
        }
        assert_eq!(scratch.examine("a/../a/b/module").unwrap(), scratch.path("a/b/module"));
    }

    #[test]
    fn only_root_and_the_owner_of_the_root_directory_are_trusted() {
        if !geteuid().is_root() {
            return;
        }
        let scratch = Scratch::new();
        for name in ["a/b/module", "a"] {
            chown(scratch.path(name), Some(4711), Some(4711)).unwrap();
            let (path, fault) = scratch.violation("a/b/module").unwrap();
            assert_eq!(path, Path::new(name));
            assert!(matches!(fault, Fault::Owner { uid: 4711, .. }));
        }
        chown(scratch.path(""), Some(4711), Some(4711)).unwrap();
        scratch.mode("a", 0o775);
        assert_eq!(scratch.violation("a/b/module"), None);
        scratch.mode("a", 0o757);
        assert_eq!(scratch.violation("a/b/module"), Some(("a".into(), Fault::Writable { mode: 0o757 })));
    }

    #[test]
    fn directories_above_the_root_are_not_checked() {
        let scratch = Scratch::new();
        scratch.mode("a", 0o777);
        let path = scratch.path("a/b/module");
        assert!(Trust::new(&scratch.path("a/b")).examine(&path).is_ok());
        assert!(Trust::new(&scratch.path("a")).examine(&path).is_err());
    }

    #[test]
    fn remedy_is_a_command_for_a_shell() {
        let violation = |fault| Violation { path: "/etc/a b".into(), fault };
        assert_eq!(violation(Fault::Writable { mode: 0o666 }).remedy(), "chmod go-w '/etc/a b'");
        assert_eq!(violation(Fault::Owner { uid: 1, mode: 0o644 }).remedy(), "chown -h root: '/etc/a b'");
        let text = violation(Fault::Owner { uid: 1, mode: 0o644 }).to_string();
        assert_eq!(text, "/etc/a b belongs to user 1 (mode 0644)");
    }

    #[test]
    fn programs_must_be_regular_files() {
        let trust = Trust::new(Path::new("/"));
        assert!(trust.examine_program(Path::new("/bin/sh")).is_ok());
        assert!(trust.examine_program(Path::new("/nonexistent/sh")).is_err());
        assert!(trust.examine_program(Path::new("/usr")).is_err());
    }
}

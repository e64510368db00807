//! Permission checks: a module runs with holo's privileges, so other users must not be able to modify it.

use rustix::process::geteuid;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// The maximum number of symlinks in a path, as in the kernel.
const MAX_LINKS: usize = 40;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The reason why a file is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file, or a directory on its path, is writable by other users.
    #[error("{}: may be changed by others than its owner (mode {mode:04o}), and is not run", path.display())]
    Writable {
        /// The file or directory.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file, or a directory on its path, is owned by another user.
    #[error("{}: belongs to user {uid}, who is neither root nor the one who runs it, and is not run", path.display())]
    Owner {
        /// The file or directory.
        path: PathBuf,
        /// The user ID of its owner.
        uid: u32,
    },
    /// The file cannot be checked.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A file that other users cannot modify, with its state when it was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted {
    path: PathBuf,
    stamp: Stamp,
    digest: String,
}

/// The metadata that changes with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    owner: u32,
    mode: u32,
}

impl Stamp {
    fn new(metadata: &Metadata) -> Stamp {
        Stamp {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            owner: metadata.uid(),
            mode: metadata.mode(),
        }
    }
}

impl Trusted {
    /// Checks a file and all directories above it, on every symlinked path to it, but not above `root`. The file is
    /// opened once, so that the digest is that of the checked file.
    ///
    /// # Errors
    /// If other users may modify it, or it cannot be read.
    pub fn examine(path: &Path, root: &Path) -> Result<Trusted, TrustError> {
        let real = walk(path, root)?;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let mut file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(&real)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(not_a_file(&metadata).into());
        }
        trust(&real, &metadata)?;
        Ok(Trusted { path: path.to_owned(), stamp: Stamp::new(&metadata), digest: digest_of(&mut file)? })
    }

    /// Returns true if the file has been replaced or modified since the check.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        fs::metadata(&self.path).map_or(true, |metadata| Stamp::new(&metadata) != self.stamp)
    }

    /// Returns the digest of its content.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// Checks a program and all directories above it, on every symlinked path to it.
///
/// # Errors
/// If other users may modify it, or it is not a file.
pub fn examine_program(path: &Path) -> Result<(), TrustError> {
    let real = walk(path, Path::new("/"))?;
    let metadata = fs::metadata(real)?;
    if metadata.is_file() { Ok(()) } else { Err(not_a_file(&metadata).into()) }
}

fn not_a_file(metadata: &Metadata) -> io::Error {
    let errno = if metadata.is_dir() { rustix::io::Errno::ISDIR } else { rustix::io::Errno::ACCESS };
    errno.into()
}

/// Resolves a path like the kernel, checks every file on it, and returns the result.
fn walk(path: &Path, root: &Path) -> Result<PathBuf, TrustError> {
    // Directories above the root belong to the host.
    let root = fs::canonicalize(root)?;
    let is_above = |directory: &Path| root != directory && root.starts_with(directory);
    let mut pending: VecDeque<OsString> = VecDeque::new();
    prepend(&mut pending, &std::path::absolute(path)?);
    let mut current = PathBuf::from("/");
    if !is_above(&current) {
        trust(&current, &fs::symlink_metadata(&current)?)?;
    }
    let mut links = 0;
    while let Some(name) = pending.pop_front() {
        if name == ".." {
            current.pop();
            continue;
        }
        let next = current.join(&name);
        let metadata = fs::symlink_metadata(&next)?;
        if metadata.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::from(rustix::io::Errno::LOOP).into());
            }
            let target = fs::read_link(&next)?;
            if target.is_absolute() {
                current = PathBuf::from("/");
            }
            prepend(&mut pending, &target);
            continue;
        }
        if !is_above(&next) {
            trust(&next, &metadata)?;
        }
        current = next;
    }
    Ok(current)
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

fn trust(path: &Path, metadata: &Metadata) -> Result<(), TrustError> {
    let (uid, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    if uid != 0 && uid != geteuid().as_raw() {
        return Err(TrustError::Owner { path: path.to_owned(), uid });
    }
    // Write permission in an ACL entry is visible in the group's bits.
    if mode & WRITABLE_BY_OTHERS != 0 {
        return Err(TrustError::Writable { path: path.to_owned(), mode });
    }
    Ok(())
}

fn digest_of(file: &mut File) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(holo_change::hex(&hasher.finalize())),
            length => hasher.update(buffer.get(..length).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests;

//! The lock file: creates it, takes it over and reads it, even if other processes change it at the same time.

use super::{LockErrorKind, State, Survivors, is_alive, may_be_another_holo};
use crate::error::IoError;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::fs::{self, File, FileType, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The maximum number of attempts while other processes remove and create the file.
const ATTEMPTS: u32 = 100;
/// The mode of a lock file: anyone who can open it can lock it, and so block every apply.
const MODE: u32 = 0o600;
/// The maximum size of our lock files, in bytes.
const MAX_SIZE: u64 = 1 << 16;

pub(crate) fn try_acquire(path: &Path) -> Result<(File, Option<i32>), LockErrorKind> {
    for _ in 0..ATTEMPTS {
        match create(path) {
            Ok(held) => return Ok((held, None)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(LockErrorKind::System(IoError::new("open", path, error))),
        }
        if let Some((held, left_by)) = take_over(path)? {
            return Ok((held, Some(left_by)));
        }
    }
    Err(exists(path))
}

fn exists(path: &Path) -> LockErrorKind {
    LockErrorKind::Held(IoError::new("open", path, Errno::EXIST.into()))
}

/// Creates the file with its content and the system's lock atomically: a process that dies in between leaves no file.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let Ok(unnamed) = rustix::fs::open(folder, flags, Mode::from_raw_mode(MODE)) else {
        return create_in_steps(path);
    };
    let mut held = File::from(unnamed);
    sign(&mut held)?;
    let by_descriptor = format!("/proc/self/fd/{}", held.as_raw_fd());
    match rustix::fs::linkat(CWD, by_descriptor, CWD, path, AtFlags::SYMLINK_FOLLOW) {
        Ok(()) => Ok(held),
        Err(exists @ Errno::EXIST) => Err(exists.into()),
        // No /proc, or a file system without unnamed files.
        Err(_) => create_in_steps(path),
    }
}

pub(crate) fn create_in_steps(path: &Path) -> io::Result<File> {
    let mut held = OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(path)?;
    sign(&mut held)?;
    Ok(held)
}

fn sign(held: &mut File) -> io::Result<()> {
    // Another process that inspects the empty file at this moment releases its lock at once.
    flock(&*held, FlockOperation::LockExclusive)?;
    writeln!(held, "{}", std::process::id())
}

/// Takes the lock over from a dead process. Returns `None` if the file no longer exists.
fn take_over(path: &Path) -> Result<Option<(File, i32)>, LockErrorKind> {
    let Some(mut held) = open(path)? else { return Ok(None) };
    match try_lock(&held) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(survivors_in(&mut held).map_or_else(|| exists(path), LockErrorKind::AtWork));
        }
        Err(_) => return Err(exists(path)),
    }
    // It may have been released, and taken by another process, since we opened it.
    if !is_at(&held, path) {
        return Ok(None);
    }
    let content = content(&mut held).map_err(|_| exists(path))?;
    let left_by = content.lines().next().and_then(process_id).filter(|&pid| !may_be_another_holo(pid));
    let left_by = left_by.ok_or_else(|| exists(path))?;
    // Version 3 leaves files that everyone can open.
    held.set_permissions(Permissions::from_mode(MODE))
        .map_err(|error| LockErrorKind::System(IoError::new("chmod", path, error)))?;
    sign_over(&held, content.len()).map_err(|error| LockErrorKind::System(IoError::new("write", path, error)))?;
    Ok(Some((held, left_by)))
}

/// Inspects a lock without taking it.
pub(crate) fn inspect(path: &Path) -> State {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return State::Free,
        Ok(found) if !found.is_file() => return State::Unknown(format!("it is {}", kind(found.file_type()))),
        _ => {}
    }
    let mut file = match OpenOptions::new().read(true).open(path) {
        Ok(file) => file,
        // Only its owner can tell whether it is locked.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return State::Held,
        Err(error) => return State::Unknown(holo_protocol::words::reason(&error)),
    };
    if flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
        return State::Held;
    }
    let content = content(&mut file).unwrap_or_default();
    match content.lines().next().and_then(process_id) {
        Some(pid) if may_be_another_holo(pid) => State::Held,
        Some(pid) => State::Left(pid),
        None => State::Unknown("it does not contain the process ID of its owner".to_owned()),
    }
}

pub(crate) fn try_lock(file: &File) -> rustix::io::Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Replaces the content by our process ID.
fn sign_over(held: &File, length: usize) -> io::Result<()> {
    // A single write over the old content, so that the file always contains exactly one process ID.
    let line = format!("{}\n", std::process::id());
    rustix::io::pwrite(held, format!("{line:\n<length$}").as_bytes(), 0)?;
    held.set_len(line.len() as u64)
}

/// Opens a lock file without blocking. Returns `None` if there is none.
pub(crate) fn open(path: &Path) -> Result<Option<File>, LockErrorKind> {
    // Anything other than a regular file is not even opened, as devices may act on that.
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() => return Err(LockErrorKind::NotAFile(kind(found.file_type()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        _ => {}
    }
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let opened = OpenOptions::new().read(true).write(true).custom_flags(flags.bits().cast_signed()).open(path);
    match opened {
        Ok(file) if file.metadata().is_ok_and(|found| found.is_file()) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // It was replaced in the meantime, or belongs to another user.
        _ => Err(exists(path)),
    }
}

fn kind(found: FileType) -> &'static str {
    if found.is_dir() {
        "a directory"
    } else if found.is_symlink() {
        "a symbolic link"
    } else if found.is_fifo() {
        "a FIFO"
    } else if found.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

fn content(file: &mut File) -> io::Result<String> {
    let mut content = String::new();
    file.take(MAX_SIZE).read_to_string(&mut content)?;
    Ok(content)
}

fn process_id(line: &str) -> Option<i32> {
    line.trim().parse().ok().filter(|&pid| pid > 0)
}

/// Returns true if the open file is the one at the path.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(ours), Ok(there)) => identity(ours) == identity(there),
        _ => false,
    }
}

/// Returns the programs of a killed apply that are still running, given its locked file.
pub(crate) fn survivors_in(locked: &mut File) -> Option<Survivors> {
    let content = content(locked).ok()?;
    let mut lines = content.lines();
    let apply = process_id(lines.next()?)?;
    let programs: Vec<i32> = lines.filter_map(process_id).collect();
    // While the apply lives, the file contains only its process ID.
    (!programs.is_empty() || !is_alive(apply))
        .then(|| Survivors { apply, programs: programs.into_iter().filter(|&pid| is_alive(pid)).collect() })
}

//! The lock file: made, taken over and read, whatever others do with it meanwhile.

use super::State;
use super::error::{LockErrorKind, Survivors};
use super::processes::{is_alive, may_be_another_holo};
use crate::error::IoError;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::fs::{self, File, FileType, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The number of attempts at a file that others remove and make at the same time.
const ATTEMPTS: u32 = 100;
/// The mode of a lock file: whoever can open it can lock it, and so keep every apply out.
const MODE: u32 = 0o600;
/// A lock file that is longer is none of ours.
const MAX_SIZE: u64 = 1 << 16;

pub(super) fn try_acquire(path: &Path) -> Result<(File, Option<i32>), LockErrorKind> {
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

/// Makes the file with its content and the system's lock in one step: a process that dies meanwhile leaves nothing.
pub(super) fn create(path: &Path) -> io::Result<File> {
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

pub(super) fn create_in_steps(path: &Path) -> io::Result<File> {
    let mut held = OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(path)?;
    sign(&mut held)?;
    Ok(held)
}

fn sign(held: &mut File) -> io::Result<()> {
    // Another one that looks at the empty file meanwhile respects it, and lets go of it at once.
    flock(&*held, FlockOperation::LockExclusive)?;
    writeln!(held, "{}", std::process::id())
}

/// Takes the lock over from a process that has left it. Returns nothing if it is gone by now.
fn take_over(path: &Path) -> Result<Option<(File, i32)>, LockErrorKind> {
    let Some(mut held) = open(path)? else { return Ok(None) };
    match try_lock(&held) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(survivors_in(&mut held).map_or_else(|| exists(path), LockErrorKind::AtWork));
        }
        Err(_) => return Err(exists(path)),
    }
    // It may have been released, and taken by another, since we opened it.
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

/// Looks at a lock, which need not be ours to take.
pub(super) fn inspect(path: &Path) -> State {
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
        None => State::Unknown("it does not name the process that made it".to_owned()),
    }
}

pub(super) fn try_lock(file: &File) -> rustix::io::Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Replaces all that is there by our number.
fn sign_over(held: &File, length: usize) -> io::Result<()> {
    // One write over all that was there: at no moment does the file hold anything but one process's number.
    let line = format!("{}\n", std::process::id());
    rustix::io::pwrite(held, format!("{line:\n<length$}").as_bytes(), 0)?;
    held.set_len(line.len() as u64)
}

/// Opens a lock file without waiting for anything. Returns nothing if there is none.
pub(super) fn open(path: &Path) -> Result<Option<File>, LockErrorKind> {
    // Anything but a file is not even opened, as devices may act on that.
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
        // It has changed under our eyes, or is not for us to take.
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
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(ours), Ok(there)) => identity(ours) == identity(there),
        _ => false,
    }
}

/// Returns the programs that a killed apply has left at work, by the content of a file that is locked.
pub(super) fn survivors_in(locked: &mut File) -> Option<Survivors> {
    let content = content(locked).ok()?;
    let mut lines = content.lines();
    let apply = process_id(lines.next()?)?;
    let programs: Vec<i32> = lines.filter_map(process_id).collect();
    // As long as the apply lives there is nothing but its number.
    (!programs.is_empty() || !is_alive(apply))
        .then(|| Survivors { apply, programs: programs.into_iter().filter(|&pid| is_alive(pid)).collect() })
}

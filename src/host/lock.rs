//! The lock, which allows one apply at a time.
//!
//! It has two parts. The *existence of the file* is the lock that other versions of Holo know, so the file exists as
//! long as an apply runs. The *system's lock on the file* (see flock(2)) decides among our own processes: it ends with
//! the processes that hold it, however they end, so no manual cleanup is needed after a crash. Besides the apply, a
//! helper process holds it until the plugins of a killed apply have ended.

#[cfg(test)]
mod tests;

use super::interrupt::Interrupt;
use crate::error::{FatalError, IoError};
use bstr::{BString, ByteSlice};
use holo_events::{Text, Writer};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::borrow::Cow;
use std::fmt;
use std::fs::{self, File, FileType, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a new apply waits for the plugins of a killed one.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it should take at most until those plugins are known by name.
const TIME_TO_TELL: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A held lock; the file is removed on drop.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    held: File,
}

/// A lock, and the owner of the stale lock that it replaces.
#[derive(Debug)]
pub struct Acquired {
    /// The lock.
    pub lock: Lock,
    /// The process that left its lock behind, if any.
    pub taken_over_from: Option<i32>,
}

impl Lock {
    /// Takes the lock. If this process is killed, the next apply waits for the plugins that are running now or are
    /// started while the lock is held.
    ///
    /// # Errors
    /// If another process holds the lock, or the file cannot be created.
    pub fn acquire(path: &Path) -> Result<Acquired, LockError> {
        let (held, taken_over_from) =
            try_acquire(path).map_err(|reason| LockError { path: path.to_owned(), reason })?;
        // Without the helper process, the lock ends with this process.
        let _ = holo_process::hold_lock(&held);
        Ok(Acquired { lock: Lock { path: path.to_owned(), held }, taken_over_from })
    }
}

/// Takes the lock, and waits up to this duration while another process holds it.
///
/// # Errors
/// If the run must end. The inner result is that of [`Lock::acquire`].
pub fn acquire_within(
    patience: Duration,
    path: &Path,
    interrupt: &Interrupt,
) -> Result<Result<Acquired, LockError>, FatalError> {
    let begun = Instant::now();
    loop {
        match Lock::acquire(path) {
            Err(error) if error.is_held() && begun.elapsed() < patience => {
                interrupt.pause(LOOK_AGAIN)?;
            }
            acquired => return Ok(acquired),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file may have been removed, and another apply may have created a new one. If it is still ours it cannot
        // be replaced meanwhile, as it is locked.
        if is_at(&self.held, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
        holo_process::release_lock();
    }
}

/// Waits while plugins of a killed apply are still running, because anything discovered in the meantime would be
/// outdated. Calls `tell` once before the wait.
///
/// If the wait takes too long, [`Lock::acquire`] reports it.
///
/// # Errors
/// If the run must end.
pub fn wait_for_survivors(path: &Path, interrupt: &Interrupt, tell: impl FnOnce(&Survivors)) -> Result<(), FatalError> {
    let begun = Instant::now();
    let mut tell = Some(tell);
    while let Some(survivors) = survivors(path)
        && begun.elapsed() < PATIENCE
    {
        // The process that holds the lock for them writes their names, but only after a moment.
        if !survivors.programs.is_empty() || begun.elapsed() > TIME_TO_TELL {
            tell.take().into_iter().for_each(|tell| tell(&survivors));
        }
        interrupt.pause(LOOK_AGAIN)?;
    }
    Ok(())
}

/// The state of a lock, as far as it can be seen without taking it.
#[derive(Debug, PartialEq, Eq)]
pub enum State {
    /// No lock exists.
    Free,
    /// An apply holds it, or may hold it: only the owner of the file can tell.
    Held,
    /// The process with this number has left it behind; the next apply takes it over.
    Left(i32),
    /// It is not one of ours and will not be taken over; the text says why.
    Unknown(String),
}

/// Inspects a lock without taking it.
#[must_use]
pub fn inspect(path: &Path) -> State {
    inspect_file(path)
}

/// Returns the programs of a killed apply that are still running.
fn survivors(path: &Path) -> Option<Survivors> {
    // Usually there is no file at all.
    let mut found = open(path).ok()??;
    if try_lock(&found) != Err(Errno::WOULDBLOCK) {
        return None;
    }
    survivors_in(&mut found)
}

/// The lock cannot be taken.
#[derive(Debug, thiserror::Error)]
#[error("Cannot create lock file {path}: {reason}", path = path.display())]
pub struct LockError {
    pub(crate) path: PathBuf,
    pub(crate) reason: LockErrorKind,
}

/// The reason for which the lock cannot be taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockErrorKind {
    /// A system call failed.
    #[error(transparent)]
    System(IoError),
    /// Another process holds the lock; the words are version 3's.
    #[error(transparent)]
    Held(IoError),
    /// The path is not a regular file.
    #[error("there is {0}, which is not a lock file; remove it manually")]
    NotAFile(&'static str),
    /// An apply was killed, and programs that it started are still running.
    #[error("{0}")]
    AtWork(Survivors),
}

/// The programs of a killed apply that are still running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivors {
    /// The process that held the lock.
    pub(crate) apply: i32,
    /// The programs, if known.
    pub(crate) programs: Vec<i32>,
}

impl fmt::Display for Survivors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} was killed, and programs that it started are still running", self.apply)?;
        let programs: Vec<String> = self.programs.iter().map(|&pid| shown(pid)).collect();
        if programs.is_empty() { Ok(()) } else { write!(f, ": {}", programs.join(", ")) }
    }
}

impl LockError {
    /// Returns true if the lock seems to belong to a running apply.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.reason, LockErrorKind::Held(_))
    }

    /// Returns the process that holds the lock, unless it has ended meanwhile.
    #[must_use]
    pub fn holder(&self) -> Option<Writer<'static>> {
        let pid: i32 = fs::read_to_string(&self.path).ok()?.trim().parse().ok()?;
        Some(Writer { pid: u32::try_from(pid).ok()?, command: Some(Text(Cow::Owned(command_of(pid)?))) })
    }
}

/// Formats a process for people.
pub(crate) fn shown(pid: i32) -> String {
    command_of(pid).map_or_else(|| format!("process {pid}"), |command| format!("process {pid} ({command})"))
}

/// Returns the name of a process's command, unless the process has ended.
pub(crate) fn command_of(pid: i32) -> Option<BString> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_ascii().into())
}

/// Returns true if the process of an unlocked file may hold it by its mere existence, as other versions of Holo do.
///
/// Not if the process no longer exists, if it is our own, or if it is known to be another program: then the process ID
/// has been reused.
fn may_be_another_holo(pid: i32) -> bool {
    if pid.unsigned_abs() == std::process::id() || !is_alive(pid) {
        return false;
    }
    let process = PathBuf::from(format!("/proc/{pid}"));
    let Ok(line) = fs::read(process.join("cmdline")) else { return true };
    let program = fs::read_link(process.join("exe")).unwrap_or_default();
    let name = fs::read(process.join("comm")).unwrap_or_default();
    // The program itself, or the script that an interpreter runs.
    let words = line.split(|&byte| byte == 0).take(2).map(<[u8]>::to_vec);
    let names = words.chain([name, program.into_os_string().into_encoded_bytes()]);
    names.into_iter().any(|name| name.rsplit(|&byte| byte == b'/').next().is_some_and(|name| name.contains_str("holo")))
}

/// Returns true if the process exists and is not a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    let exists = Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
    exists && !fs::read(format!("/proc/{pid}/stat")).is_ok_and(|stat| has_ended(&stat))
}

/// Parses the kernel's `stat` line: the name is in parentheses, and the state follows.
fn has_ended(stat: &[u8]) -> bool {
    let state = stat.rfind_byte(b')').and_then(|end| stat.get(end + 2));
    state.is_some_and(|state| b"ZX".contains(state))
}

/// The maximum number of attempts while other processes remove and create the file.
const ATTEMPTS: u32 = 100;
/// The mode of a lock file: anyone who can open it can lock it, and so block every apply.
const MODE: u32 = 0o600;
/// The maximum size of our lock files, in bytes.
const MAX_SIZE: u64 = 1 << 16;

fn try_acquire(path: &Path) -> Result<(File, Option<i32>), LockErrorKind> {
    for _ in 0..ATTEMPTS {
        match create(path) {
            Ok(held) => return Ok((held, None)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // A test root that was just created has no run directory.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && path.parent().is_some_and(|folder| fs::create_dir(folder).is_ok()) => {}
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

fn create_in_steps(path: &Path) -> io::Result<File> {
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
fn inspect_file(path: &Path) -> State {
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

fn try_lock(file: &File) -> rustix::io::Result<()> {
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
fn survivors_in(locked: &mut File) -> Option<Survivors> {
    let content = content(locked).ok()?;
    let mut lines = content.lines();
    let apply = process_id(lines.next()?)?;
    let programs: Vec<i32> = lines.filter_map(process_id).collect();
    // While the apply lives, the file contains only its process ID.
    (!programs.is_empty() || !is_alive(apply))
        .then(|| Survivors { apply, programs: programs.into_iter().filter(|&pid| is_alive(pid)).collect() })
}

#[cfg(test)]
mod processes_tests {
    use super::*;

    #[test]
    fn zombie_counts_as_ended() {
        assert!(has_ended(b"7 (holo) Z 1 7") && has_ended(b"7 (a) S) X 1") && !has_ended(b"7 (a) Z) S 1"));
        assert!(!has_ended(b"") && !has_ended(b"7 (a)"));
        assert!(is_alive(std::process::id().cast_signed()) && !is_alive((1 << 22) + 1));
    }
}

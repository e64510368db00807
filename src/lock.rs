//! The lock: one apply at a time.
//!
//! Two things keep others out. The *file's existence* is the lock that other versions of Holo know, so the file is there as long as an apply
//! is. The *system's lock on the file* (see flock(2)) decides among ours: it ends with the processes that hold it, however they end, so
//! that no person is needed after a crash. Beside the apply, a process holds it that waits for the plugins of an apply that is killed.

use crate::error::{self, Fatal};
use crate::interrupt::Interrupt;
use bstr::ByteSlice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fmt::{self, Display};
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The number of attempts at a file that others remove and make at the same time.
const ATTEMPTS: u32 = 100;
/// The time that a new apply waits for what a killed one has left at work.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time within which it should be known what that is.
const TIME_TO_TELL: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// A lock file that is longer is none of ours.
const MAX_SIZE: u64 = 1 << 16;

/// The lock is ours; the file is removed when this is dropped.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    held: File,
}

/// A lock, and what became of an earlier one.
#[derive(Debug)]
pub struct Acquired {
    /// The lock.
    pub lock: Lock,
    /// The process that left its lock behind, if one did.
    pub taken_over_from: Option<i32>,
}

/// The reasons for which the lock cannot be taken.
#[derive(Debug, thiserror::Error)]
#[error("Cannot create lock file {path}: {reason}", path = path.display())]
pub struct LockError {
    path: PathBuf,
    reason: Reason,
}

/// The obstacles to taking the lock.
#[derive(Debug, thiserror::Error)]
enum Reason {
    /// The words are the system's, with what was done.
    #[error("{0}")]
    System(String),
    /// Another process has the lock; the words are version 3's.
    #[error("{0}")]
    Held(String),
    #[error("there is {0}, which is not a lock file; it has to be removed by hand")]
    NoFile(&'static str),
    #[error("{0}")]
    AtWork(Survivors),
}

/// The programs that a killed apply has left at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivors {
    /// The process that held the lock.
    apply: i32,
    /// The programs, if it is known which.
    programs: Vec<i32>,
}

impl Display for Survivors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} was killed, and what it had started is still at work", self.apply)?;
        let programs: Vec<String> = self.programs.iter().map(|&pid| shown(pid)).collect();
        if programs.is_empty() { Ok(()) } else { write!(f, ": {}", programs.join(", ")) }
    }
}

/// A process as a person would look for it.
fn shown(pid: i32) -> String {
    match fs::read(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", name.trim_ascii().as_bstr()),
        Err(_) => format!("process {pid}"),
    }
}

impl LockError {
    /// Returns true if the lock is, as far as can be told, that of an apply that runs.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.reason, Reason::Held(_))
    }
}

impl Lock {
    /// Takes the lock. The plugins that run, and those that are started as long as it is ours, are waited for by the next apply if this one
    /// is killed.
    ///
    /// # Errors
    /// If another process has it, or the file cannot be made.
    pub fn acquire(path: &Path) -> Result<Acquired, LockError> {
        let (held, taken_over_from) =
            try_acquire(path).map_err(|reason| LockError { path: path.to_owned(), reason })?;
        // Without it, the lock is ours alone.
        let _ = holo_process::hold_lock(&held);
        Ok(Acquired { lock: Lock { path: path.to_owned(), held }, taken_over_from })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // It may have been removed, and another apply have begun; if it has not, it cannot be, as it is locked.
        if is_at(&self.held, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
        holo_process::release_lock();
    }
}

/// Waits as long as something is still at work that an apply has started that was killed: what is found out meanwhile would be out of date.
/// `tell` is called before that.
///
/// When that takes too long, it is left to [`Lock::acquire`] to say so.
///
/// # Errors
/// If the run is to end.
pub fn wait_for_survivors(path: &Path, interrupt: &Interrupt, tell: impl FnOnce(&Survivors)) -> Result<(), Fatal> {
    let begun = Instant::now();
    let mut tell = Some(tell);
    while let Some(survivors) = survivors(path)
        && begun.elapsed() < PATIENCE
    {
        // The process that holds the lock for them says which they are, but not at once.
        if !survivors.programs.is_empty() || begun.elapsed() > TIME_TO_TELL {
            tell.take().into_iter().for_each(|tell| tell(&survivors));
        }
        let timeout = Timespec::try_from(LOOK_AGAIN).ok();
        // An error here can only mean that we look again earlier than needed.
        let _ = poll(&mut [PollFd::new(interrupt, PollFlags::IN)], timeout.as_ref());
        interrupt.check()?;
    }
    Ok(())
}

/// Returns the programs that a killed apply has left at work.
fn survivors(path: &Path) -> Option<Survivors> {
    // Most often there is no file at all.
    let mut found = open(path).ok()??;
    if try_lock(&found) != Err(Errno::WOULDBLOCK) {
        return None;
    }
    survivors_in(&mut found)
}

/// The same, by the content of a file that is locked.
fn survivors_in(locked: &mut File) -> Option<Survivors> {
    let content = content(locked).ok()?;
    let mut lines = content.lines();
    let apply = process_id(lines.next()?)?;
    let programs: Vec<i32> = lines.filter_map(process_id).collect();
    // As long as the apply lives there is nothing but its number.
    (!programs.is_empty() || !is_alive(apply))
        .then(|| Survivors { apply, programs: programs.into_iter().filter(|&pid| is_alive(pid)).collect() })
}

fn try_acquire(path: &Path) -> Result<(File, Option<i32>), Reason> {
    let system = |error: &io::Error| Reason::System(error::at("open", path, error));
    for _ in 0..ATTEMPTS {
        match create(path) {
            Ok(held) => return Ok((held, None)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(system(&error)),
        }
        if let Some((held, left_by)) = take_over(path)? {
            return Ok((held, Some(left_by)));
        }
    }
    Err(exists(path))
}

fn exists(path: &Path) -> Reason {
    Reason::Held(error::at("open", path, &Errno::EXIST.into()))
}

/// Makes the file with its content and the system's lock in one step: a process that dies meanwhile leaves nothing.
fn create(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let Ok(unnamed) = rustix::fs::open(folder, flags, Mode::from_raw_mode(0o644)) else {
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
    let mut held = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    sign(&mut held)?;
    Ok(held)
}

fn sign(held: &mut File) -> io::Result<()> {
    // Another one that looks at the empty file meanwhile respects it, and lets go of it at once.
    flock(&*held, FlockOperation::LockExclusive)?;
    writeln!(held, "{}", std::process::id())
}

/// Takes the lock over from a process that has left it; nothing if it is gone by now.
fn take_over(path: &Path) -> Result<Option<(File, i32)>, Reason> {
    let Some(mut held) = open(path)? else { return Ok(None) };
    match try_lock(&held) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(survivors_in(&mut held).map_or_else(|| exists(path), Reason::AtWork));
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
    sign_over(&held, content.len()).map_err(|error| Reason::System(error::at("write", path, &error)))?;
    Ok(Some((held, left_by)))
}

fn try_lock(file: &File) -> rustix::io::Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Puts our number in place of all that is there.
fn sign_over(held: &File, length: usize) -> io::Result<()> {
    // One write over all that was there: at no moment does the file hold anything but one process's number.
    let line = format!("{}\n", std::process::id());
    rustix::io::pwrite(held, format!("{line:\n<length$}").as_bytes(), 0)?;
    held.set_len(line.len() as u64)
}

/// Opens a lock file without waiting for anything; nothing if there is none.
fn open(path: &Path) -> Result<Option<File>, Reason> {
    // Anything but a file is not even opened, as devices may act on that.
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() => return Err(Reason::NoFile(kind(found.file_type()))),
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

/// Returns true if the open file is the one that stands at the path.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(ours), Ok(there)) => identity(ours) == identity(there),
        _ => false,
    }
}

/// Returns true if the process of a file that nobody has locked may hold it by its mere existence, as other versions of Holo do.
///
/// A process that does not exist any more does not, nor do we, nor does one that is known to be something else: it has got the number of
/// the one that is gone.
fn may_be_another_holo(pid: i32) -> bool {
    if pid.unsigned_abs() == std::process::id() || !is_alive(pid) {
        return false;
    }
    let process = PathBuf::from(format!("/proc/{pid}"));
    let Ok(line) = fs::read(process.join("cmdline")) else { return true };
    let program = fs::read_link(process.join("exe")).unwrap_or_default();
    let name = fs::read(process.join("comm")).unwrap_or_default();
    // The program itself, or what an interpreter was given.
    let words = line.split(|&byte| byte == 0).take(2).map(<[u8]>::to_vec);
    let names = words.chain([name, program.into_os_string().into_encoded_bytes()]);
    names.into_iter().any(|name| name.rsplit(|&byte| byte == b'/').next().is_some_and(|name| name.contains_str("holo")))
}

/// Returns true if the process exists, and has not ended without being waited for.
fn is_alive(pid: i32) -> bool {
    let exists = Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
    exists && !fs::read(format!("/proc/{pid}/stat")).is_ok_and(|stat| has_ended(&stat))
}

/// By what the kernel says of a process: its name stands in parentheses, and the state follows.
fn has_ended(stat: &[u8]) -> bool {
    let state = stat.rfind_byte(b')').and_then(|end| stat.get(end + 2));
    state.is_some_and(|state| b"ZX".contains(state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("holo.pid");
        (folder, path)
    }

    fn dead_process() -> u32 {
        // The highest number that the kernel gives is 2^22.
        (1 << 22) + 1
    }

    fn ours() -> String {
        format!("{}\n", std::process::id())
    }

    #[test]
    fn holds_the_pid_and_goes_away() {
        let (_folder, path) = folder();
        let acquired = Lock::acquire(&path).unwrap();
        assert_eq!(acquired.taken_over_from, None);
        assert_eq!(fs::read_to_string(&path).unwrap(), ours());
        let error = Lock::acquire(&path).unwrap_err();
        assert!(error.is_held());
        let shown = path.display();
        assert_eq!(error.to_string(), format!("Cannot create lock file {shown}: open {shown}: file exists"));
        drop(acquired);
        assert!(!path.exists());
    }

    #[test]
    fn only_one_of_many_gets_it() {
        let (_folder, path) = folder();
        for left_behind in [false, true] {
            if left_behind {
                fs::write(&path, format!("{}\n", dead_process())).unwrap();
            }
            let all: Vec<_> = std::thread::scope(|scope| {
                let contenders: Vec<_> = (0..8).map(|_| scope.spawn(|| Lock::acquire(&path))).collect();
                contenders.into_iter().map(|contender| contender.join().unwrap()).collect()
            });
            assert_eq!(all.iter().filter(|acquired| acquired.is_ok()).count(), 1);
        }
    }

    #[test]
    fn what_holds_no_process_id_is_respected() {
        let (_folder, path) = folder();
        for respected in ["0\n", "-1\n", "", "garbage\n", "4194305 \u{feff}\n", "\n4194305\n"] {
            fs::write(&path, respected).unwrap();
            assert!(Lock::acquire(&path).unwrap_err().is_held(), "{respected:?}");
            assert_eq!(fs::read_to_string(&path).unwrap(), respected);
        }
    }

    #[test]
    fn is_taken_over_from_who_cannot_hold_it() {
        let (_folder, path) = folder();
        // A dead process, what it has left beside its number, and a number that is ours by now.
        for left in [format!("{}\n\n\n\n\n\n", dead_process()), format!("{0}\n{0}\n", dead_process()), ours()] {
            fs::write(&path, &left).unwrap();
            let acquired = Lock::acquire(&path).unwrap();
            assert_eq!(acquired.taken_over_from.map(|pid| pid.to_string()).as_deref(), left.lines().next());
            assert_eq!(fs::read_to_string(&path).unwrap(), ours());
        }
    }

    #[test]
    fn a_removed_lock_is_not_given_back_twice() {
        let (_folder, path) = folder();
        let first = Lock::acquire(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = Lock::acquire(&path).unwrap();
        drop(first);
        assert!(path.exists(), "it is the second one's");
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_file_is_named() {
        let (folder, path) = folder();
        let refusal = |what: &str| {
            let error = Lock::acquire(&path).unwrap_err();
            assert!(!error.is_held());
            assert_eq!(
                error.to_string(),
                format!(
                    "Cannot create lock file {}: there is {what}, which is not a lock file; it has to be removed by hand",
                    path.display()
                )
            );
        };
        fs::create_dir(&path).unwrap();
        refusal("a directory");
        fs::remove_dir(&path).unwrap();
        symlink(folder.path().join("nothing"), &path).unwrap();
        refusal("a symbolic link");
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        refusal("a FIFO");
        fs::remove_file(&path).unwrap();
        let _socket = UnixListener::bind(&path).unwrap();
        refusal("a socket");
    }

    #[test]
    fn what_a_killed_apply_has_left_is_named() {
        let (_folder, path) = folder();
        let held = create(&path).unwrap();
        assert_eq!(survivors(&path), None);
        rustix::io::pwrite(&held, format!("{}\n{}\n9999999\n", dead_process(), std::process::id()).as_bytes(), 0)
            .unwrap();
        let name = fs::read_to_string("/proc/self/comm").unwrap();
        let text = format!(
            "process {} was killed, and what it had started is still at work: process {} ({})",
            dead_process(),
            std::process::id(),
            name.trim()
        );
        assert_eq!(survivors(&path).unwrap().to_string(), text);
        let error = Lock::acquire(&path).unwrap_err();
        assert!(!error.is_held());
        assert_eq!(error.to_string(), format!("Cannot create lock file {}: {text}", path.display()));
    }

    #[test]
    fn a_process_that_nobody_waits_for_has_ended() {
        assert!(has_ended(b"7 (holo) Z 1 7") && has_ended(b"7 (a) S) X 1") && !has_ended(b"7 (a) Z) S 1"));
        assert!(!has_ended(b"") && !has_ended(b"7 (a)"));
        assert!(is_alive(std::process::id().cast_signed()) && !is_alive(dead_process().cast_signed()));
    }

    #[test]
    fn says_what_else_is_wrong() {
        let error = Lock::acquire(Path::new("/nowhere/holo.pid")).unwrap_err();
        assert!(!error.is_held());
        assert_eq!(
            error.to_string(),
            "Cannot create lock file /nowhere/holo.pid: open /nowhere/holo.pid: no such file or directory"
        );
    }
}

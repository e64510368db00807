//! A lock that outlives the process that took it, until the programs that it protects have ended.

use crate::groups;
use crate::invocation::{HOLD, is_served};
use crate::tree::group_runs;
use crate::watcher::{Told, Watcher, guards_of, listen};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The polling interval for processes on kernels without pidfds.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The time that the lock is held for the remaining members of the group of a program that has ended. They may continue
/// its work if it was killed, but may also be daemons, which keep running.
const LEFT_BEHIND: Duration = Duration::from_secs(10);

/// Starts a process that also holds a locked file and thus shares its lock (see flock(2)). If this process is killed,
/// the lock remains held until the running programs have ended, and their PIDs are appended to the file after its first
/// line, one per line.
///
/// The programs themselves do not inherit the lock. Otherwise a daemon that one of them starts would hold it forever.
///
/// # Errors
/// If the process cannot be started, or `main` has not called [`serve_if_asked`](crate::serve_if_asked).
pub fn hold_lock(locked: &File) -> io::Result<()> {
    if !is_served() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    groups::tell(Watcher::start([HOLD.into()], locked.try_clone()?.into())?);
    Ok(())
}

/// Ends the process of [`hold_lock`].
pub fn release_lock() {
    // Dropping the watcher reaps its process.
    drop(groups::tell_no_more());
}

/// The main function of the process that holds the lock.
pub(crate) fn hold() {
    let mut running = listen();
    let leaders: Vec<Pid> = running.iter().map(|told| told.pid).collect();
    let Ok(lock) = io::stdout().as_fd().try_clone_to_owned().map(File::from) else { return };
    while !running.is_empty() {
        // The list of PIDs is only informative.
        let _ = note(&lock, &running);
        wait(&running);
        running.retain(Told::is_running);
    }
    // The programs of a killed program are ended by its guard.
    while leaders.iter().any(|&leader| guards_of(leader)) {
        std::thread::sleep(LOOK_AGAIN);
    }
    let end = Instant::now() + LEFT_BEHIND;
    while Instant::now() < end && leaders.iter().any(|&leader| group_runs(leader)) {
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Writes the PIDs of running programs to the lock file, after the first line.
fn note(lock: &File, running: &[Told]) -> io::Result<()> {
    let mut first = [0; 32];
    let length = lock.read_at(&mut first, 0)?;
    let read = first.get(..length).unwrap_or_default();
    let start = read.iter().position(|&byte| byte == b'\n').map_or(length, |newline| newline + 1);
    let lines: String = running.iter().map(|told| format!("{}\n", told.pid.as_raw_nonzero())).collect();
    lock.write_all_at(lines.as_bytes(), start as u64)?;
    lock.set_len((start + lines.len()) as u64)
}

/// Waits until at least one of them may have ended.
fn wait(running: &[Told]) {
    let mut fds: Vec<PollFd<'_>> =
        running.iter().filter_map(|told| told.exit.as_ref()).map(|exit| PollFd::new(exit, PollFlags::IN)).collect();
    let timeout = if fds.len() == running.len() { None } else { Timespec::try_from(LOOK_AGAIN).ok() };
    // An error only causes an earlier check.
    let _ = poll(&mut fds, timeout.as_ref());
}

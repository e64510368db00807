//! A lock that outlives the process that took it, for as long as the programs that it protects others from.

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

/// The interval at which the end of what is left is looked for where the kernel does not tell.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The time that the lock is held for what a program that has ended has left in its process group: it may be its work, when it was
/// killed, but it may also be a daemon, which stays.
const LEFT_BEHIND: Duration = Duration::from_secs(10);

/// Has a process hold a locked file, too, and share its lock (see flock(2)): it goes on to do so after a kill of ours, until the programs have
/// ended that run then. When we are killed it adds their numbers to the file, a line each after the first.
///
/// The programs themselves inherit nothing: if they did, a daemon that one of them starts would hold the lock as long as it lives.
///
/// # Errors
/// If it cannot be started, or our `main` has not called [`serve_if_asked`](crate::serve_if_asked).
pub fn hold_lock(locked: &File) -> io::Result<()> {
    if !is_served() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    groups::tell(Watcher::start([HOLD.into()], locked.try_clone()?.into())?);
    Ok(())
}

/// Ends [that](hold_lock).
pub fn release_lock() {
    // Its end is waited for; nobody else is to wait for that.
    drop(groups::tell_no_more());
}

/// The work of the process that holds the lock.
pub(crate) fn hold() {
    let mut running = listen();
    let leaders: Vec<Pid> = running.iter().map(|told| told.pid).collect();
    let Ok(lock) = io::stdout().as_fd().try_clone_to_owned().map(File::from) else { return };
    while !running.is_empty() {
        // It is only for people to see.
        let _ = note(&lock, &running);
        wait(&running);
        running.retain(Told::is_running);
    }
    // The programs of a program that was killed, too, are ended by its guard.
    while leaders.iter().any(|&leader| guards_of(leader)) {
        std::thread::sleep(LOOK_AGAIN);
    }
    let end = Instant::now() + LEFT_BEHIND;
    while Instant::now() < end && leaders.iter().any(|&leader| group_runs(leader)) {
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Writes down what runs, after the first line.
fn note(lock: &File, running: &[Told]) -> io::Result<()> {
    let mut first = [0; 32];
    let length = lock.read_at(&mut first, 0)?;
    let read = first.get(..length).unwrap_or_default();
    let start = read.iter().position(|&byte| byte == b'\n').map_or(length, |newline| newline + 1);
    let lines: String = running.iter().map(|told| format!("{}\n", told.pid.as_raw_nonzero())).collect();
    lock.write_all_at(lines.as_bytes(), start as u64)?;
    lock.set_len((start + lines.len()) as u64)
}

/// Waits until one of them may have ended.
fn wait(running: &[Told]) {
    let mut fds: Vec<PollFd<'_>> =
        running.iter().filter_map(|told| told.exit.as_ref()).map(|exit| PollFd::new(exit, PollFlags::IN)).collect();
    let timeout = if fds.len() == running.len() { None } else { Timespec::try_from(LOOK_AGAIN).ok() };
    // An error here can only mean that we look again earlier than needed.
    let _ = poll(&mut fds, timeout.as_ref());
}

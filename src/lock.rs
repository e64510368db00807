//! The lock: one apply at a time.
//!
//! Two things keep others out. The *file's existence* is the lock that other versions of Holo know, so the file is there as long as an apply
//! is. The *system's lock on the file* (see flock(2)) decides among ours: it ends with the processes that hold it, however they end, so
//! that no person is needed after a crash. Beside the apply, a process holds it that waits for the plugins of an apply that is killed.

mod error;
mod file;
mod processes;
#[cfg(test)]
mod tests;

pub use error::{LockError, Survivors};

use crate::error::FatalError;
use crate::interrupt::Interrupt;
use file::{is_at, open, survivors_in, try_acquire, try_lock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time that a new apply waits for what a killed one has left at work.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time within which it should be known what that is.
const TIME_TO_TELL: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

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

/// Takes the lock, and waits as long as the patience lasts if another process has it.
///
/// # Errors
/// If the run is to end; within that, as [`Lock::acquire`] says.
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
pub fn wait_for_survivors(path: &Path, interrupt: &Interrupt, tell: impl FnOnce(&Survivors)) -> Result<(), FatalError> {
    let begun = Instant::now();
    let mut tell = Some(tell);
    while let Some(survivors) = survivors(path)
        && begun.elapsed() < PATIENCE
    {
        // The process that holds the lock for them says which they are, but not at once.
        if !survivors.programs.is_empty() || begun.elapsed() > TIME_TO_TELL {
            tell.take().into_iter().for_each(|tell| tell(&survivors));
        }
        interrupt.pause(LOOK_AGAIN)?;
    }
    Ok(())
}

/// The state of a lock, as far as can be seen without taking it.
#[derive(Debug, PartialEq, Eq)]
pub enum State {
    /// There is none.
    Free,
    /// An apply holds it, or may hold it: only the owner of the file can tell.
    Held,
    /// The process with this number has left it behind; the next apply takes it over.
    Left(i32),
    /// It is none of ours, so that nobody takes it over; the text says why.
    Unknown(String),
}

/// Looks at a lock.
#[must_use]
pub fn inspect(path: &Path) -> State {
    file::inspect(path)
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

//! The reasons for which the lock cannot be taken.

use super::processes::shown;
use crate::error::IoError;
use std::fmt;
use std::path::PathBuf;

/// The lock cannot be taken.
#[derive(Debug, thiserror::Error)]
#[error("Cannot create lock file {path}: {reason}", path = path.display())]
pub struct LockError {
    pub(super) path: PathBuf,
    pub(super) reason: LockErrorKind,
}

/// The reason for which the lock cannot be taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum LockErrorKind {
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
    pub(super) apply: i32,
    /// The programs, if known.
    pub(super) programs: Vec<i32>,
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
}

//! The errors that end a run early, and the exit codes.

pub mod exit;

use holo_events::Writer;
use holo_protocol::words::reason;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// An error that ends the run.
#[derive(Debug, thiserror::Error)]
pub enum FatalError {
    /// The run could not begin.
    #[error("{0}")]
    CouldNotRun(Box<dyn Error + Send + Sync>),
    /// The run could not begin, and all reasons have been reported already.
    #[error("")]
    Reported,
    /// Another process holds the lock: this one, if it is known. This has been reported already.
    #[error("")]
    Busy(Option<Writer<'static>>),
    /// Another apply is running, and an apply in the transaction of a package manager is left to the next one. This has
    /// been reported already.
    #[error("")]
    LeftToTheNext,
    /// A generator could not be run or failed.
    #[error("{0}")]
    Generator(Box<dyn Error + Send + Sync>),
    /// A signal ended the run.
    #[error("interrupted by signal {signal}{}", Work(.at_work))]
    Interrupted {
        /// The signal number.
        signal: i32,
        /// The entities that were being worked on.
        at_work: Vec<String>,
    },
    /// The run exceeded its time limit.
    #[error("The time limit of this run was exceeded{}", Work(.at_work))]
    TimeIsOver {
        /// The entities that were being worked on.
        at_work: Vec<String>,
    },
}

impl FatalError {
    /// Returns the exit code of this kind of error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            FatalError::LeftToTheNext => exit::DONE,
            FatalError::CouldNotRun(_) | FatalError::Reported | FatalError::Busy(_) => exit::COULD_NOT_RUN,
            FatalError::Generator(_) | FatalError::TimeIsOver { .. } => exit::FAILED,
            FatalError::Interrupted { signal, .. } => exit::interrupted(*signal),
        }
    }

    /// Returns the message for the user, unless it was reported already.
    #[must_use]
    pub fn message(&self) -> Option<String> {
        match self {
            FatalError::CouldNotRun(_) | FatalError::Generator(_) | FatalError::TimeIsOver { .. } => {
                Some(self.to_string())
            }
            FatalError::Interrupted { at_work, .. } if !at_work.is_empty() => {
                Some(format!("Interrupted{}", Work(at_work)))
            }
            FatalError::Reported | FatalError::Busy(_) | FatalError::LeftToTheNext | FatalError::Interrupted { .. } => {
                None
            }
        }
    }

    /// Adds the entities that were being worked on when the run ended.
    #[must_use]
    pub fn during(mut self, work: impl IntoIterator<Item = String>) -> FatalError {
        if let FatalError::Interrupted { at_work, .. } | FatalError::TimeIsOver { at_work } = &mut self {
            at_work.extend(work);
        }
        self
    }

    /// Wraps the reason for which a run could not begin.
    #[must_use]
    pub fn could_not_run(error: impl Error + Send + Sync + 'static) -> FatalError {
        FatalError::CouldNotRun(Box::new(error))
    }

    /// Returns the error of a failed operation on a path while the run was being prepared.
    #[must_use]
    pub fn io(operation: &'static str, path: &Path, source: io::Error) -> FatalError {
        FatalError::could_not_run(IoError::new(operation, path, source))
    }

    /// Returns the error of a directory that cannot be traversed.
    #[must_use]
    pub fn walk(folder: &Path, error: walkdir::Error) -> FatalError {
        let path = error.path().unwrap_or(folder).to_owned();
        // The system's error without walkdir's text around it. Only a loop of symlinks has none.
        let source = error.into_io_error().unwrap_or_else(|| io::Error::other("it leads back to itself"));
        FatalError::io("open", &path, source)
    }
}

/// A failed operation on a path, formatted as users of version 3 know it: `open PATH: permission denied`.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {}: {}", path.display(), reason(source))]
pub struct IoError {
    /// The name of the system call or operation.
    pub operation: &'static str,
    /// The path.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

impl IoError {
    /// Returns the error of a failed operation on a path.
    #[must_use]
    pub fn new(operation: &'static str, path: &Path, source: io::Error) -> IoError {
        IoError { operation, path: path.to_owned(), source }
    }
}

/// Formats the end of a sentence that lists the entities at work.
struct Work<'a>(&'a [String]);

impl fmt::Display for Work<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        let (shown, more) = self.0.split_at(self.0.len().min(SHOWN));
        match (shown, more) {
            ([], _) => Ok(()),
            ([one], _) => write!(f, " while {one} was at work"),
            (shown, []) => write!(f, " while {} were at work", shown.join(", ")),
            (shown, more) => write!(f, " while {} and {} more were at work", shown.join(", "), more.len()),
        }
    }
}

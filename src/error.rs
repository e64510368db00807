//! What ends a run before its time: each kind has its exit code here and nowhere else.

use crate::exit;
use holo_protocol::words::reason;
use std::io;
use std::path::Path;

/// Why a run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// The run could not begin; the text says why.
    #[error("{0}")]
    CouldNotRun(String),
    /// As [`Fatal::CouldNotRun`], with all reasons told already.
    #[error("")]
    Reported,
    /// A generator could not be run or failed.
    #[error("{0}")]
    Generator(String),
    /// A signal asked for the end.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
    /// The run took longer than it may.
    #[error("The time for this run is over")]
    TimeIsOver,
}

impl Fatal {
    /// The exit code that the kind of the error stands for.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Fatal::CouldNotRun(_) | Fatal::Reported => exit::COULD_NOT_RUN,
            Fatal::Generator(_) | Fatal::TimeIsOver => exit::FAILED,
            Fatal::Interrupted(signal) => exit::interrupted(*signal),
        }
    }

    /// What there is to tell the user.
    #[must_use]
    pub fn message(&self) -> Option<String> {
        match self {
            Fatal::CouldNotRun(_) | Fatal::Generator(_) | Fatal::TimeIsOver => Some(self.to_string()),
            Fatal::Reported | Fatal::Interrupted(_) => None,
        }
    }

    /// An operation on a path that went wrong while the run was being prepared.
    #[must_use]
    pub fn io(operation: &str, path: &Path, error: &io::Error) -> Fatal {
        Fatal::CouldNotRun(at(operation, path, error))
    }
}

impl Fatal {
    /// A folder that cannot be walked through.
    #[must_use]
    pub fn walk(folder: &Path, error: walkdir::Error) -> Fatal {
        let path = error.path().unwrap_or(folder).to_owned();
        // The system's error, without walkdir's words around it; only a circle of links has none.
        let reason = error.into_io_error().unwrap_or_else(|| io::Error::other("it leads back to itself"));
        Fatal::io("open", &path, &reason)
    }
}

/// An I/O error with what was done and where, in the form that version 3's users know: `open PATH: permission denied`.
#[must_use]
pub fn at(operation: &str, path: &Path, error: &io::Error) -> String {
    format!("{operation} {}: {}", path.display(), reason(error))
}

//! The errors that end a run before its time: each kind has its exit code here and nowhere else.

use crate::exit;
use holo_protocol::words::reason;
use std::fmt;
use std::io;
use std::path::Path;

/// The reasons for which a run cannot go on.
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
    #[error("interrupted by signal {signal}{}", Work(.at_work))]
    Interrupted {
        /// Its number.
        signal: i32,
        /// The entities that were being worked on.
        at_work: Vec<String>,
    },
    /// The run took longer than it may.
    #[error("The time for this run is over{}", Work(.at_work))]
    TimeIsOver {
        /// The entities that were being worked on.
        at_work: Vec<String>,
    },
}

impl Fatal {
    /// The exit code that the kind of the error stands for.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Fatal::CouldNotRun(_) | Fatal::Reported => exit::COULD_NOT_RUN,
            Fatal::Generator(_) | Fatal::TimeIsOver { .. } => exit::FAILED,
            Fatal::Interrupted { signal, .. } => exit::interrupted(*signal),
        }
    }

    /// Returns the message for the user.
    #[must_use]
    pub fn message(&self) -> Option<String> {
        match self {
            Fatal::CouldNotRun(_) | Fatal::Generator(_) | Fatal::TimeIsOver { .. } => Some(self.to_string()),
            Fatal::Interrupted { at_work, .. } if !at_work.is_empty() => Some(format!("Interrupted{}", Work(at_work))),
            Fatal::Reported | Fatal::Interrupted { .. } => None,
        }
    }

    /// Says what was being worked on when the run was ended.
    #[must_use]
    pub fn during(mut self, work: impl IntoIterator<Item = String>) -> Fatal {
        if let Fatal::Interrupted { at_work, .. } | Fatal::TimeIsOver { at_work } = &mut self {
            at_work.extend(work);
        }
        self
    }

    /// An operation on a path that went wrong while the run was being prepared.
    #[must_use]
    pub fn io(operation: &str, path: &Path, error: &io::Error) -> Fatal {
        Fatal::CouldNotRun(at(operation, path, error))
    }
}

/// The end of a sentence that says what was being worked on.
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

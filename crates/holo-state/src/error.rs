//! Errors of the database, each with the way out.

use crate::VERSION;
use rusqlite::ErrorCode;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The state database cannot be used.
#[derive(Debug)]
pub struct StateError {
    path: PathBuf,
    problem: Problem,
}

/// A database that SQLite cannot make sense of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage(pub String);

#[derive(Debug)]
pub(crate) enum Problem {
    Io(io::Error),
    /// Another process has kept it locked.
    Busy,
    Damaged(Damage),
    /// A later version of holo has written it.
    Version(i64),
    /// It was removed while it was in use.
    Vanished,
    Other(rusqlite::Error),
}

impl StateError {
    pub(crate) fn new(path: &Path, problem: Problem) -> StateError {
        StateError { path: path.to_owned(), problem }
    }

    /// Whether this user may not read or write the database.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(&self.problem, Problem::Io(error) if error.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Returns the path of the database, and the problem with its remedy as an I/O error.
    #[must_use]
    pub fn into_parts(self) -> (PathBuf, io::Error) {
        let error = match self.problem {
            Problem::Io(error) => error,
            problem => io::Error::other(problem.to_string()),
        };
        (self.path, error)
    }

    /// Returns the damage, if the database is damaged.
    #[must_use]
    pub fn damage(&self) -> Option<&Damage> {
        match &self.problem {
            Problem::Damaged(damage) => Some(damage),
            _ => None,
        }
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            problem @ Problem::Damaged(_) => write!(f, "{path} is {problem}"),
            problem => write!(f, "cannot use {path}: {problem}"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Io(error) => write!(f, "{}", holo_protocol::words::reason(error)),
            Problem::Busy => write!(f, "another process has kept it locked for 10 seconds"),
            Problem::Damaged(Damage(detail)) => {
                write!(f, "damaged: {detail}; `holo state repair` saves what can still be read")
            }
            Problem::Version(version) => {
                write!(f, "a later version of holo has written it (schema {version}, known is {VERSION})")
            }
            Problem::Vanished => write!(f, "it was removed during the run"),
            Problem::Other(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for StateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Io(error) => Some(error),
            Problem::Other(error) => Some(error),
            _ => None,
        }
    }
}

impl From<rusqlite::Error> for Problem {
    fn from(error: rusqlite::Error) -> Problem {
        let io = |kind| Problem::Io(io::Error::from(kind));
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Problem::Busy,
            Some(ErrorCode::DiskFull) => io(io::ErrorKind::StorageFull),
            Some(ErrorCode::ReadOnly) => io(io::ErrorKind::ReadOnlyFilesystem),
            Some(ErrorCode::PermissionDenied) => io(io::ErrorKind::PermissionDenied),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                let detail = match &error {
                    rusqlite::Error::SqliteFailure(_, Some(detail)) => detail.clone(),
                    other => other.to_string(),
                };
                Problem::Damaged(Damage(detail))
            }
            _ => Problem::Other(error),
        }
    }
}

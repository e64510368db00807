//! I/O errors in the format of version 3: `open PATH: permission denied`.

use holo_state::StateError;
use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};

pub use holo_protocol::words::reason;

/// A failed operation on a path.
#[derive(Debug)]
pub struct PathError {
    /// The operation, such as `open`.
    pub operation: &'static str,
    /// The path, as displayed to the user.
    pub path: PathBuf,
    /// The cause.
    pub error: io::Error,
}

impl PathError {
    /// Creates an error from an operation, a path and a cause.
    pub fn new(operation: &'static str, path: impl Into<PathBuf>, error: impl Into<io::Error>) -> PathError {
        PathError { operation, path: path.into(), error: error.into() }
    }

    /// Creates the error for an unusable state database.
    pub(crate) fn of_state(error: StateError) -> PathError {
        let (path, error) = error.into_parts();
        PathError::new("use", path, error)
    }

    /// Creates the error for a file that does not exist.
    #[must_use]
    pub fn missing(operation: &'static str, path: impl Into<PathBuf>) -> PathError {
        PathError::new(operation, path, rustix::io::Errno::NOENT)
    }

    /// Returns true if the path, or one of its parent directories, does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self.error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    }
}

impl Clone for PathError {
    fn clone(&self) -> Self {
        let error = match self.error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(self.error.kind(), self.error.to_string()),
        };
        PathError { operation: self.operation, path: self.path.clone(), error }
    }
}

impl Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.operation, self.path.display(), reason(&self.error))
    }
}

impl std::error::Error for PathError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// The result of an operation on a path.
pub type Result<T> = std::result::Result<T, PathError>;

/// Adds an operation and a path to the error of a system call.
pub(crate) fn at<'a, E: Into<io::Error>>(operation: &'static str, path: &'a Path) -> impl FnOnce(E) -> PathError + 'a {
    move |error| PathError::new(operation, path, error)
}

/// Receives notices, and formats them.
pub trait Notices {
    /// Reports an unreadable record, which is left unchanged.
    fn unreadable_record(&mut self, error: &PathError);

    /// Reports that an entity has taken over the object of another one.
    fn taken_over(&mut self, by: &str, from: &str);
}

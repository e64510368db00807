//! I/O errors with the attempted operation and the path.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bstr::ByteSlice;

/// An I/O error with its path, displayed like `open etc/motd: no such file or directory`.
#[derive(Debug, thiserror::Error)]
#[error("{action} {}: {}", path.as_os_str().as_bytes().as_bstr(), in_words(reason))]
pub struct IoError {
    action: &'static str,
    path: PathBuf,
    // Not the `source`, as the message already contains its text.
    reason: io::Error,
}

impl IoError {
    pub(crate) fn new(action: &'static str, path: &Path, reason: impl Into<io::Error>) -> Self {
        Self { action, path: path.to_owned(), reason: reason.into() }
    }

    /// Returns the kind of the underlying error.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.reason.kind()
    }

    /// Returns the path on which the operation failed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Adds the operation and the path to the error of an `io::Result`.
pub(crate) trait Context<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, IoError>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, IoError> {
        self.map_err(|error| IoError::new(action, path, error))
    }
}

/// Returns the value, or fails the test with the error.
#[track_caller]
pub(crate) fn sure<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => fail(&error.to_string()),
    }
}

/// Fails the test.
#[track_caller]
#[expect(clippy::panic, reason = "a test whose root is not as it says cannot go on")]
pub(crate) fn fail(message: &str) -> ! {
    panic!("{message}")
}

/// Formats an error as common tools do: in lower case, without its number.
fn in_words(error: &io::Error) -> String {
    let text = error.to_string();
    let Some(number) = error.raw_os_error() else {
        return text;
    };
    let words = text.strip_suffix(&format!(" (os error {number})")).unwrap_or(&text);
    let mut letters = words.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_action_path_and_reason() {
        let path = Path::new("/nonexistent/file");
        let error = std::fs::read(path).context("open", path).unwrap_err();
        assert_eq!(error.to_string(), "open /nonexistent/file: no such file or directory");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(error.path(), path);
    }

    #[test]
    fn an_error_of_our_own_keeps_its_words() {
        let error = Err::<(), _>(io::Error::other("Is odd")).context("make", Path::new("x"));
        assert_eq!(error.unwrap_err().to_string(), "make x: Is odd");
    }
}

//! Settings files, which contain a single value.

use crate::reading;
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// An error in a settings file.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The file cannot be read.
    #[error("{}: {}", path.display(), source.kind())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file has an invalid value.
    #[error("{}:{line}: {message}", path.display())]
    Mistake {
        /// Its path.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The error, including its key.
        message: String,
    },
}

/// Reads a file into a type. Returns `None` if the file does not exist.
///
/// # Errors
/// If the file cannot be read, or the first error in it.
pub fn read_document<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, DocumentError> {
    match fs::read_to_string(path) {
        Ok(text) => parse_document(path, &text).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(DocumentError::Unreadable { path: path.to_owned(), source }),
    }
}

/// Parses the text of a file into a type.
///
/// # Errors
/// The first error.
pub fn parse_document<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, DocumentError> {
    let mistake = |message, offset| {
        let line = 1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count();
        DocumentError::Mistake { path: path.to_owned(), line, message }
    };
    let table = DeTable::parse(text).map_err(|error| {
        let (message, offset) = reading::syntax(text, &error);
        mistake(message, offset)
    })?;
    reading::read(&table).map_err(|error| mistake(error.to_string(), error.span().map_or(0, |span| span.start)))
}

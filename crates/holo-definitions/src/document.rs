//! Settings files, which contain a single value.

use crate::reading;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Read};
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
    match read_bounded(path).and_then(|text| String::from_utf8(text).map_err(io::Error::other)) {
        Ok(text) => parse_document(path, &text).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(DocumentError::Unreadable { path: path.to_owned(), source }),
    }
}

/// The maximum size of a file with definitions or settings, in bytes.
const MAX_SIZE: u64 = 16 << 20;

/// Reads a file with definitions or settings.
///
/// # Errors
/// If it cannot be read, or is larger than 16 MiB.
pub fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(MAX_SIZE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_SIZE {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    Ok(content)
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

//! Mistakes in definitions, and what is hardly meant.

use crate::located_error::LocatedError;
use crate::location::Location;
use std::io;
use std::path::PathBuf;

/// Something in definition files that a person is told.
#[derive(Debug)]
pub enum Finding {
    /// A mistake: what it is about does not count.
    Error(DefinitionError),
    /// Something that can be, but is hardly meant. It counts.
    Doubt(DefinitionError),
    /// A folder with the name of a definition file: it is not read.
    Folder(PathBuf),
}

/// A mistake in definition files.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// A file, or the folder of all, cannot be read.
    #[error("read {}: {error}", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A template cannot be rendered.
    #[error(transparent)]
    Template(#[from] LocatedError),
    /// A file is wrong as a whole.
    #[error("{}: {message}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The mistake in words.
        message: String,
    },
    /// Something that stands in a file is wrong.
    #[error("{location}: {message}")]
    Wrong {
        /// The place of the mistake.
        location: Location,
        /// The mistake in words.
        message: String,
    },
}

//! Errors and warnings about definitions.

use crate::located_error::LocatedError;
use crate::location::Location;
use std::io;
use std::path::PathBuf;

/// A message about definition files.
#[derive(Debug)]
pub enum Finding {
    /// An error: the value is ignored.
    Error(DefinitionError),
    /// A warning: the value is valid, but probably not intended. It is used.
    Warning(DefinitionError),
    /// A warning: an expression of a template in a file that is not a template.
    Unrendered(LocatedError),
    /// A folder with the name of a definition file, which is not read.
    Folder(PathBuf),
}

/// An error in definition files.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// A file, or the directory of the files, cannot be read.
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
    /// A file is invalid as a whole.
    #[error("{}: {message}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The error message.
        message: String,
    },
    /// A part of a file is invalid.
    #[error("{location}: {message}")]
    Wrong {
        /// The location of the error.
        location: Location,
        /// The error message.
        message: String,
    },
}

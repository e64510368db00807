//! Errors and warnings about definitions, and the locations in definition files that they name.

use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// An error with a location: a file, a template or an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct LocatedError {
    /// The file or other source, as shown to the user.
    pub place: String,
    /// The line number, counted from 1.
    pub line: Option<usize>,
    /// The message, as a fragment.
    pub text: String,
}

impl LocatedError {
    /// Returns an error without a line number.
    pub fn new(place: impl Display, text: impl Display) -> LocatedError {
        LocatedError { place: place.to_string(), line: None, text: text.to_string() }
    }

    /// Returns this error with a line number.
    #[must_use]
    pub fn at(self, line: impl Into<Option<usize>>) -> LocatedError {
        LocatedError { line: line.into(), ..self }
    }
}

impl Display for LocatedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.place)?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.text)
    }
}

/// A line of a definition file, displayed as `PATH:LINE`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    path: Arc<PathBuf>,
    line: usize,
    rendered: bool,
}

impl Location {
    pub(crate) fn new(path: Arc<PathBuf>, line: usize, rendered: bool) -> Location {
        Location { path, line, rendered }
    }

    /// Returns the file, as shown to the user.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the line number; for a template, that in the rendered text.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }
}

impl Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.rendered { " as rendered" } else { "" };
        write!(f, "{}:{}{of}", self.path.display(), self.line)
    }
}

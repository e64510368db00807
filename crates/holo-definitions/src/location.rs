//! Locations in definition files.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

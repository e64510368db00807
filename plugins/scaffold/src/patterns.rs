//! Patterns for files: for names, or for paths below a directory if they have a slash.

use glob::{MatchOptions, Pattern};
use std::path::Path;

/// A pattern.
#[derive(Debug)]
pub(crate) struct Glob {
    pattern: Pattern,
    is_for_paths: bool,
}

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn new(text: &str) -> Result<Glob, &'static str> {
        let pattern = Pattern::new(text).map_err(|error| error.msg)?;
        Ok(Glob { pattern, is_for_paths: text.contains('/') })
    }

    /// Returns true if it is for a path below the directory.
    pub(crate) fn matches(&self, below: &Path) -> bool {
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
        let matched = if self.is_for_paths { Some(below) } else { below.file_name().map(Path::new) };
        matched.is_some_and(|matched| self.pattern.matches_path_with(matched, options))
    }
}

//! Patterns for files: for names, or for paths below a directory if they have a slash.

use glob::{MatchOptions, Pattern};
use std::path::Path;

/// A pattern that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// There is nothing in it.
    #[error("a glob is empty")]
    Empty,
    /// It is not well-formed.
    #[error("{0:?} is not a valid pattern: {1}")]
    Invalid(String, &'static str),
}

/// A pattern.
#[derive(Clone, Debug)]
pub struct Glob {
    pattern: Pattern,
    is_for_paths: bool,
}

impl Glob {
    /// Reads a pattern. A slash at its end is of no account.
    ///
    /// # Errors
    /// If it is empty or not valid.
    pub fn new(text: &str) -> Result<Glob, GlobError> {
        let name = text.strip_suffix('/').unwrap_or(text);
        if name.is_empty() {
            return Err(GlobError::Empty);
        }
        let pattern = Pattern::new(name).map_err(|error| GlobError::Invalid(text.to_owned(), error.msg))?;
        Ok(Glob { pattern, is_for_paths: name.contains('/') })
    }

    /// Returns true if it is for a path below the directory.
    #[must_use]
    pub fn matches(&self, below: &Path) -> bool {
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
        let matched = if self.is_for_paths { Some(below) } else { below.file_name().map(Path::new) };
        matched.is_some_and(|matched| self.pattern.matches_path_with(matched, options))
    }
}

/// Patterns, of which each is for the files in a directory that it is for, too.
#[derive(Clone, Debug, Default)]
pub struct Globs(Vec<Glob>);

impl Globs {
    /// Reads patterns.
    ///
    /// # Errors
    /// If one is not valid.
    pub fn new(texts: &[String]) -> Result<Globs, GlobError> {
        texts.iter().map(|text| Glob::new(text)).collect::<Result<_, _>>().map(Globs)
    }

    /// Returns true if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if one of them is for a path, or for a directory above it.
    #[must_use]
    pub fn cover(&self, below: &Path) -> bool {
        !self.is_empty() && below.ancestors().any(|path| self.0.iter().any(|glob| glob.matches(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_for_names_or_paths_and_all_below() {
        let cover = |glob: &str, path: &str| Globs::new(&[glob.to_owned()]).unwrap().cover(Path::new(path));
        for (glob, path) in [
            ("*.conf", "etc/app.conf"),
            ("etc/*.conf", "etc/app.conf"),
            ("doc", "share/doc/a/b"),
            ("doc/", "doc/a"),
            ("share/doc", "share/doc/a"),
            ("**/x", "a/b/x"),
        ] {
            assert!(cover(glob, path), "{glob} {path}");
        }
        for (glob, path) in [("*.conf", "app.confs"), ("etc/*.conf", "etc/a/b.conf"), ("doc/", "a"), ("a/b", "x/a/b")] {
            assert!(!cover(glob, path), "{glob} {path}");
        }
        assert!(!Globs::default().cover(Path::new("a")));
        assert!(Glob::new("[").is_err() && Glob::new("/").is_err());
    }
}

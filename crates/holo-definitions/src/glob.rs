//! Glob patterns for file names, or for paths below a directory if they contain a slash.

use glob::{MatchOptions, Pattern};
use std::path::Path;

/// An invalid pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// The pattern is empty.
    #[error("a glob is empty")]
    Empty,
    /// The pattern has a syntax error.
    #[error("{0:?} is not a valid pattern: {1}")]
    Invalid(String, &'static str),
}

/// A glob pattern.
#[derive(Clone, Debug)]
pub struct Glob {
    pattern: Pattern,
    is_for_paths: bool,
}

impl Glob {
    /// Parses a pattern. A trailing slash is ignored.
    ///
    /// # Errors
    /// If the pattern is empty or invalid.
    pub fn new(text: &str) -> Result<Glob, GlobError> {
        let name = text.strip_suffix('/').unwrap_or(text);
        if name.is_empty() {
            return Err(GlobError::Empty);
        }
        let pattern = Pattern::new(name).map_err(|error| GlobError::Invalid(text.to_owned(), error.msg))?;
        Ok(Glob { pattern, is_for_paths: name.contains('/') })
    }

    /// Returns true if the pattern matches a path below the directory.
    #[must_use]
    pub fn matches(&self, below: &Path) -> bool {
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
        let matched = if self.is_for_paths { Some(below) } else { below.file_name().map(Path::new) };
        matched.is_some_and(|matched| self.pattern.matches_path_with(matched, options))
    }
}

/// Patterns, each of which also matches all files in directories that it matches.
#[derive(Clone, Debug, Default)]
pub struct Globs(Vec<Glob>);

impl Globs {
    /// Parses patterns.
    ///
    /// # Errors
    /// If one is invalid.
    pub fn new(texts: &[String]) -> Result<Globs, GlobError> {
        texts.iter().map(|text| Glob::new(text)).collect::<Result<_, _>>().map(Globs)
    }

    /// Returns true if there are no patterns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a pattern matches a path or a directory above it.
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

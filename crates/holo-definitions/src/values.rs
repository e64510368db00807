//! Validation of values used by several plugins, and glob patterns for file names, or for paths below a directory if they contain a slash.

use crate::definition::Invalid;
use glob::{MatchOptions, Pattern};
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};

/// Parses a mode: all twelve bits, as an octal number with or without `0o`.
///
/// # Errors
/// If the text is not a mode.
pub fn mode(key: &'static str, text: &str) -> Result<u32, Invalid> {
    octal(text, 0o7777)
        .ok_or_else(|| Invalid::new(key, format!("{text:?} is not an octal number up to 7777, such as \"0644\"")))
}

/// Parses a umask: nine bits, as an octal number with or without `0o`.
///
/// # Errors
/// If the text is not a umask.
pub fn umask(key: &'static str, text: &str) -> Result<u32, Invalid> {
    octal(text, 0o777)
        .ok_or_else(|| Invalid::new(key, format!("{text:?} is not an octal number up to 777, such as \"027\"")))
}

fn octal(text: &str, most: u32) -> Option<u32> {
    let digits = text.strip_prefix("0o").or_else(|| text.strip_prefix("0O")).unwrap_or(text);
    let is_octal = !digits.is_empty() && digits.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    u32::from_str_radix(digits, 8).ok().filter(|number| is_octal && *number <= most)
}

/// Checks glob patterns.
///
/// # Errors
/// If one is invalid.
pub fn globs<'a>(key: &'static str, texts: impl IntoIterator<Item = &'a String>) -> Result<(), Invalid> {
    let read = |text: &String| Glob::new(text).map(drop);
    texts.into_iter().try_for_each(read).map_err(|problem| Invalid::new(key, problem.to_string()))
}

/// Parses an absolute path.
///
/// # Errors
/// If the path is relative.
pub fn absolute<'a>(key: &'static str, text: &'a str) -> Result<&'a Path, Invalid> {
    let path = Path::new(text);
    if !path.is_absolute() {
        return Err(Invalid::new(key, format!("{text:?} is not an absolute path")));
    }
    if text.contains(char::is_control) {
        return Err(Invalid::new(key, format!("{text:?} contains control characters")));
    }
    Ok(path)
}

/// Parses an absolute path in canonical notation.
///
/// # Errors
/// If the path is not absolute or not canonical.
pub fn plain<'a>(key: &'static str, text: &'a str) -> Result<&'a Path, Invalid> {
    let path = absolute(key, text)?;
    let cleaned: PathBuf = path.components().collect();
    if cleaned.as_os_str() != path.as_os_str() || path.components().any(|part| part == Component::ParentDir) {
        let problem = "is not written plainly: no `.`, no `..`, no slash twice or at the end";
        return Err(Invalid::new(key, format!("{text:?} {problem}")));
    }
    Ok(path)
}

/// Parses the path of a managed file: absolute, not the root, and in canonical notation, as two notations would make
/// two entities.
///
/// # Errors
/// If the path is invalid.
pub fn target<'a>(key: &'static str, text: &'a str) -> Result<&'a Path, Invalid> {
    let path = plain(key, text)?;
    if path.file_name().is_none() {
        return Err(Invalid::new(key, format!("{text:?} is the root itself")));
    }
    Ok(path)
}

/// Checks the name or number of a user or group.
///
/// # Errors
/// If the name is invalid.
pub fn account(key: &'static str, name: &str) -> Result<(), Invalid> {
    let is_sound = !name.is_empty() && !name.starts_with('-') && !name.contains([':', '/', ' ']);
    if is_sound && !name.contains(char::is_control) {
        return Ok(());
    }
    let hint = if key != "group" && name.contains(':') { "; the group is the value of another key" } else { "" };
    Err(Invalid::new(key, format!("{name:?} is neither a name nor a number{hint}")))
}

/// Returns a text as a TOML string: one line without control characters, and without `{{`, which looks like an expression
/// of a template.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    let mut last = None;
    for letter in text.chars() {
        match letter {
            '{' if last == Some('{') => quoted.push_str("\\u007B"),
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
        last = Some(letter);
    }
    quoted.push('"');
    quoted
}

/// Returns true if a relative path stays, lexically, below the directory that it is relative to.
#[must_use]
pub fn is_below(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

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
    use holo_testing::random;

    #[test]
    fn quoted_text_is_read_back_from_one_line() {
        const PIECES: [&str; 18] = [
            "\n", "\r", "\r\n", "\t", "\u{1b}", "\0", "\u{7f}", "\u{85}", "\u{2028}", "\"", "\\", "'", "\"\"\"", "#",
            "[[file]]", "é", "{", "{{ x }}",
        ];
        random::cases(2000, |random| {
            let text: String = (0..random.below(8)).map(|_| *random.pick(&PIECES)).collect();
            let quoted = quoted(&text);
            assert!(!quoted.contains(char::is_control) && !quoted.contains("{{"), "{quoted:?}");
            let table: toml::Table = format!("key = {quoted} # comment").parse().unwrap();
            assert_eq!(table["key"].as_str(), Some(&*text), "{quoted}");
        });
    }

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

//! Validation of values used by several plugins.

use crate::definition::Invalid;
use crate::glob::Glob;
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
}

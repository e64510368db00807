//! Values that definitions of several plugins have.

use super::Invalid;
use std::path::{Component, Path, PathBuf};

/// A mode: all twelve bits, as an octal number with or without `0o`.
///
/// # Errors
/// If it is none.
pub fn mode(key: &'static str, text: &str) -> Result<u32, Invalid> {
    let digits = text.strip_prefix("0o").or_else(|| text.strip_prefix("0O")).unwrap_or(text);
    let is_octal = !digits.is_empty() && digits.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let mode = u32::from_str_radix(digits, 8).ok().filter(|mode| is_octal && *mode <= 0o7777);
    mode.ok_or_else(|| Invalid::new(key, format!("{text:?} is no octal number up to 7777")))
}

/// The path of something that is managed: absolute, not the root, and written in the one way that there is, as two ways would be two
/// entities.
///
/// # Errors
/// If it is none.
pub fn target<'a>(key: &'static str, text: &'a str) -> Result<&'a Path, Invalid> {
    let wrong = |problem: &str| Err(Invalid::new(key, format!("{text:?} {problem}")));
    let path = Path::new(text);
    if !path.is_absolute() {
        return wrong("is not absolute");
    }
    let cleaned: PathBuf = path.components().collect();
    if cleaned.as_os_str() != path.as_os_str() || path.components().any(|part| part == Component::ParentDir) {
        return wrong("is not written plainly: no `.`, no `..`, no slash twice or at the end");
    }
    if path.file_name().is_none() {
        return wrong("is the root itself");
    }
    Ok(path)
}

/// A user or group, by name or number.
///
/// # Errors
/// If nobody can be called so.
pub fn account(key: &'static str, name: &str) -> Result<(), Invalid> {
    let is_sound = !name.is_empty() && !name.starts_with('-') && !name.contains([':', '/', ' ']);
    if is_sound && !name.contains(char::is_control) {
        return Ok(());
    }
    Err(Invalid::new(key, format!("{name:?} is neither a name nor a number")))
}

/// Whether a path stays below the directory that it is relative to, by its letters.
#[must_use]
pub fn is_below(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

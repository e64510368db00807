//! Encrypted data values: texts in age's ASCII armor, which the program `holo-secret` decrypts with the machine's keys.

use holo_process::{MAX_OUTPUT, Program};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The start of an encrypted text.
const BEGINNING: &str = "-----BEGIN AGE ENCRYPTED FILE-----";
/// The placeholder for an encrypted value.
const SHOWN: &str = "(sensitive)";
/// The decryption program.
const PROGRAM: &str = "holo-secret";
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The reason why a text cannot be decrypted.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct SecretError(String);

/// A decrypted text, or the reason why it is unavailable.
type Opened = Result<String, SecretError>;

/// The decrypted secrets of a machine.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    root: PathBuf,
    opened: Mutex<BTreeMap<String, Opened>>,
    /// True if any data read so far contains secrets.
    seen: AtomicBool,
}

impl Secrets {
    pub(crate) fn new(root: &Path) -> Secrets {
        Secrets { root: root.to_owned(), ..Secrets::default() }
    }

    /// Returns true if any data read so far contains secrets.
    pub(crate) fn are_seen(&self) -> bool {
        self.seen.load(Ordering::Acquire)
    }

    /// Records whether a value contains secrets.
    pub(super) fn see(&self, value: &Value) {
        if has_any(value) {
            self.seen.store(true, Ordering::Release);
        }
    }

    /// Decrypts a text that `all` contains. The first call decrypts all secrets in `all` at once.
    pub(super) fn open(&self, text: &str, all: &Value) -> Opened {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = opened.get(text) {
            return found.clone();
        }
        let mut texts = vec![text.to_owned()];
        collect(all, &mut texts);
        texts.retain(|text| !opened.contains_key(text));
        texts.sort();
        texts.dedup();
        let found = decrypt(&self.root, &texts).unwrap_or_else(|problem| vec![Err(problem); texts.len()]);
        opened.extend(texts.into_iter().zip(found));
        opened.get(text).cloned().unwrap_or_else(|| Err(SecretError(format!("{PROGRAM} returned no result for it"))))
    }
}

/// Returns true if a text is encrypted.
pub(crate) fn is_encrypted(text: &str) -> bool {
    text.trim_start().starts_with(BEGINNING)
}

/// Returns true if any part of a value is encrypted.
pub(super) fn has_any(value: &Value) -> bool {
    match value {
        Value::String(text) => is_encrypted(text),
        Value::Array(list) => list.iter().any(has_any),
        Value::Object(table) => table.values().any(has_any),
        _ => false,
    }
}

fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) if is_encrypted(text) => texts.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|value| collect(value, texts)),
        Value::Object(table) => table.values().for_each(|value| collect(value, texts)),
        _ => {}
    }
}

/// Returns the value with placeholders for secrets.
pub(super) fn hidden(value: &Value) -> Value {
    match value {
        Value::String(text) if is_encrypted(text) => SHOWN.into(),
        Value::Array(list) => list.iter().map(hidden).collect(),
        Value::Object(table) => Value::Object(table.iter().map(|(key, value)| (key.clone(), hidden(value))).collect()),
        other => other.clone(),
    }
}

/// Returns a text of the same form as a secret, but different: each letter or digit is replaced with another one of its
/// kind. Comparing the results for both reveals which ones depend on the secret.
pub(super) fn look_alike(text: &str) -> String {
    let next = |letter: char, first: u8, count: u8| {
        u8::try_from(letter).map_or(letter, |letter| char::from(first + (letter - first + 1) % count))
    };
    let other = |letter: char| match letter {
        '0'..='9' => next(letter, b'0', 10),
        // Hexadecimal digits stay hexadecimal.
        'a'..='f' => next(letter, b'a', 6),
        'g'..='z' => next(letter, b'g', 20),
        'A'..='F' => next(letter, b'A', 6),
        'G'..='Z' => next(letter, b'G', 20),
        letter => letter,
    };
    let other: String = text.chars().map(other).collect();
    if other == text { text.chars().map(|letter| if letter == '-' { '_' } else { '-' }).collect() } else { other }
}

/// Decrypts texts.
///
/// # Errors
/// If none of them can be decrypted.
fn decrypt(root: &Path, texts: &[String]) -> Result<Vec<Opened>, SecretError> {
    let input = json!(texts).to_string();
    // A decrypted text is shorter than the encrypted one, but JSON may need six bytes for one.
    let output_limit = MAX_OUTPUT.saturating_add(6 * input.len() as u64);
    let output = Program::new(program())
        .args([OsStr::new("decrypt"), OsStr::new("--json"), OsStr::new("--root"), root.as_os_str()])
        .stdin(input)
        .timeout(TIME_LIMIT)
        .output_limit(output_limit)
        .output()
        .map_err(|error| SecretError(error.to_string()))?;
    if let Some(failure) = output.ended.failure() {
        let told = String::from_utf8_lossy(&output.stderr);
        return Err(SecretError(format!("{PROGRAM}: {}", told.trim().lines().last().unwrap_or(&failure))));
    }
    let answer: Vec<Value> =
        serde_json::from_slice(&output.stdout).map_err(|error| SecretError(format!("{PROGRAM}: {error}")))?;
    let opened = answer.iter().map(|each| match (each.get("text"), each.get("error")) {
        (Some(Value::String(text)), _) => Ok(without_newline(text).to_owned()),
        (_, Some(Value::String(error))) => Err(SecretError(error.clone())),
        _ => Err(SecretError(format!("{PROGRAM} returned no result for it"))),
    });
    Ok(opened.collect())
}

/// Returns a single line without its newline, which may have been added when the secret was written. A text of several
/// lines is unchanged.
fn without_newline(text: &str) -> &str {
    text.strip_suffix('\n').filter(|line| !line.contains('\n')).unwrap_or(text)
}

/// Returns the path of the program: in the directory of the current executable, or where plugins and tests find it
/// relative to theirs.
fn program() -> PathBuf {
    let this = std::env::current_exe().unwrap_or_default();
    let here = this.parent().unwrap_or(Path::new("/usr/bin"));
    let places = [here.join(PROGRAM), here.join("../../bin").join(PROGRAM), here.join("..").join(PROGRAM)];
    let found = places.into_iter().find(|place| place.is_file());
    found.unwrap_or_else(|| Path::new("/usr/bin").join(PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_alike_has_the_same_form_and_nothing_of_the_secret() {
        for text in ["hunter2", "0xDEADbeef09", "z-Z_9", "--", "a\nb"] {
            let other = look_alike(text);
            assert_ne!(other, text);
            assert_eq!((other.len(), other.lines().count()), (text.len(), text.lines().count()), "{other}");
        }
        assert_eq!(look_alike("09afAFgz"), "10baBAhg");
        assert_eq!(look_alike(""), "");
    }
}

//! TOML, JSON and YAML, parsed into the same type of value; errors have line numbers.

use crate::yaml;
use holo_definitions::LocatedError;
use holo_definitions::reading::{self, ValueError};
use holo_process::words::reason;
use holo_system::Root;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::path::Path;
use toml::Spanned;
use toml::de::DeTable;

/// Returns the content of a file below the root; `None` if it does not exist.
pub(crate) fn content(root: &Root, path: &Path) -> Result<Option<Vec<u8>>, LocatedError> {
    root.read(path).map_err(|error| LocatedError::new(root.shown(path).display(), reason(&error)))
}

/// The file extensions of documents, which determine their languages.
pub(crate) const KINDS: [&str; 4] = ["toml", "json", "yaml", "yml"];

/// Returns true if a file name is that of a document.
pub(crate) fn is_document(name: &Path) -> bool {
    name.extension().is_some_and(|extension| KINDS.iter().any(|kind| extension == *kind))
}

/// Parses a document, in the language given by its file name, into a table.
pub(crate) fn read(shown: impl Display, name: &Path, content: &[u8]) -> Result<Map<String, Value>, LocatedError> {
    match name.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => toml(shown, content),
        Some("yaml" | "yml") => from_yaml(shown, content),
        _ => json(shown, content),
    }
}

/// Parses a YAML table. `shown` names the document in errors.
///
/// # Errors
/// The error with its location.
pub fn from_yaml(shown: impl Display, content: &[u8]) -> Result<Map<String, Value>, LocatedError> {
    let text = text(&shown, content)?;
    match yaml::parse(text).map(yaml::Node::into_value) {
        Ok(Value::Object(table)) => Ok(table),
        Ok(_) => Err(LocatedError::new(shown, "this is not a table")),
        Err(wrong) => Err(LocatedError::new(shown, wrong.text).at(Some(wrong.line))),
    }
}

fn text(shown: impl Display, content: &[u8]) -> Result<&str, LocatedError> {
    std::str::from_utf8(content)
        .map_err(|error| LocatedError::new(shown, "this is not UTF-8").at(line(content, error.valid_up_to())))
}

/// Parses a JSON table.
pub(crate) fn json(shown: impl Display, content: &[u8]) -> Result<Map<String, Value>, LocatedError> {
    match serde_json::from_slice(content) {
        Ok(Value::Object(table)) => Ok(table),
        Ok(_) => Err(LocatedError::new(shown, "this is not an object")),
        Err(error) => {
            let text = error.to_string();
            let text = text.split(" at line ").next().unwrap_or_default();
            Err(LocatedError::new(shown, text).at(Some(error.line()).filter(|line| *line > 0)))
        }
    }
}

/// A value that YAML cannot represent.
#[derive(Debug, thiserror::Error)]
#[error("this cannot be written as YAML: {0}")]
pub struct YamlError(String);

/// Formats a value as YAML, with a newline at the end.
///
/// # Errors
/// If the value cannot be represented.
pub fn to_yaml(value: &impl Serialize) -> Result<String, YamlError> {
    serde_saphyr::to_string(value).map_err(|error| YamlError(error.to_string()))
}

/// Parses TOML.
fn toml(shown: impl Display, content: &[u8]) -> Result<Map<String, Value>, LocatedError> {
    from_toml(&shown, typed(&shown, content)?)
}

/// Converts a TOML table into values for templates. Dates and times become strings.
///
/// # Errors
/// If it contains a number that is infinite or not a number.
pub fn from_toml(shown: impl Display, table: toml::Table) -> Result<Map<String, Value>, LocatedError> {
    table.into_iter().map(|(key, value)| Ok((key, plain(&shown, value)?))).collect()
}

/// Parses TOML into a type, with keys and line numbers in its errors.
pub(crate) fn typed<T: DeserializeOwned>(shown: impl Display, content: &[u8]) -> Result<T, LocatedError> {
    let table = parse(&shown, content)?;
    reading::read(&table).map_err(|wrong| wrong_in(&shown, content, &wrong))
}

/// Returns the error for a document that does not fit its type.
pub(crate) fn wrong_in(shown: impl Display, content: &[u8], wrong: &ValueError) -> LocatedError {
    LocatedError::new(shown, wrong).at(wrong.span().map(|span| line(content, span.start)))
}

/// Parses TOML with the spans of all values.
pub(crate) fn parse(shown: impl Display, content: &[u8]) -> Result<Spanned<DeTable<'_>>, LocatedError> {
    let text = text(&shown, content)?;
    DeTable::parse(text).map_err(|error| {
        let (words, offset) = reading::syntax(text, &error);
        LocatedError::new(shown, words).at(line(content, offset))
    })
}

/// Returns the line number of this byte.
pub(crate) fn line(content: &[u8], offset: usize) -> usize {
    content.iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

fn plain(shown: &impl Display, value: toml::Value) -> Result<Value, LocatedError> {
    Ok(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) if number.is_finite() => number.into(),
        toml::Value::Float(number) => return Err(LocatedError::new(shown, format!("{number} is not a usable number"))),
        toml::Value::Boolean(truth) => truth.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(list) => {
            list.into_iter().map(|value| plain(shown, value)).collect::<Result<Vec<_>, _>>()?.into()
        }
        toml::Value::Table(table) => {
            let entries = table.into_iter().map(|(key, value)| Ok((key, plain(shown, value)?)));
            Value::Object(entries.collect::<Result<_, LocatedError>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_languages_say_the_same() {
        let toml = "a = 1\nb = [1.5, true]\nc.d = 2026-01-02T03:04:05Z\n";
        let json = br#"{"a": 1, "b": [1.5, true], "c": {"d": "2026-01-02T03:04:05Z"}}"#;
        assert_eq!(read("x", Path::new("x.toml"), toml.as_bytes()), read("x", Path::new("x.json"), json));
        let yaml = "a: 1\nb: [1.5, true]\nc: {d: '2026-01-02T03:04:05Z'}\n";
        for name in ["x.yaml", "x.yml"] {
            assert_eq!(read("x", Path::new(name), yaml.as_bytes()), read("x", Path::new("x.json"), json));
        }
        assert_eq!(Value::Object(read("x", Path::new("x.json"), json).unwrap())["b"], json!([1.5, true]));
    }

    #[test]
    fn errors_come_with_their_line() {
        let wrong = |name: &str, text: &[u8]| read(name, Path::new(name), text).unwrap_err().to_string();
        assert!(wrong("x.toml", b"a = 1\nb = = 2\n").starts_with("x.toml:2: "));
        assert!(wrong("x.toml", b"a = 1\na = 2\n").starts_with("x.toml:2: a: is already set in line 1"));
        assert_eq!(wrong("x.toml", b"a = 1\n\nb = \"\xff\"\n"), "x.toml:3: this is not UTF-8");
        assert_eq!(wrong("x.toml", b"a = nan\n"), "x.toml: NaN is not a usable number");
        assert_eq!(wrong("x.json", b"{\n\"a\": }"), "x.json:2: expected value");
        assert_eq!(wrong("x.json", b""), "x.json:1: EOF while parsing a value");
        assert_eq!(wrong("x.json", b"[]"), "x.json: this is not an object");
        assert_eq!(wrong("x.yaml", b"- 1\n"), "x.yaml: this is not a table");
        assert_eq!(wrong("x.yml", b"a: 1\na: 2\n"), "x.yml:2: a: is already set in line 1");
        assert_eq!(wrong("x.yaml", b"a: 1\nb: \xff\n"), "x.yaml:2: this is not UTF-8");
    }
}

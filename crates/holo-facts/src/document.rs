//! TOML, JSON and YAML, parsed into the same type of value; errors have line numbers, and those of values are determined on demand.

use crate::key;
use crate::yaml::{self, Node};
use holo_definitions::LocatedError;
use holo_definitions::reading::{self, ValueError};
use holo_process::words::reason;
use holo_system::Root;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt::{self, Display};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

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
    match yaml::parse(text).map(Node::into_value) {
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

/// The location of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing<'a> {
    /// The file, as shown to the user.
    pub file: &'a Path,
    /// The line number of its key, for TOML and YAML.
    pub line: Option<usize>,
}

impl Display for Standing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// A file in which line numbers can be looked up, except for JSON.
pub(super) enum Lines<'a> {
    None,
    Toml(&'a str, DeTable<'a>),
    Yaml(Node),
}

impl<'a> Lines<'a> {
    /// Parses the text of a file with this name.
    pub(super) fn from_text(path: &Path, text: Option<&'a str>) -> Lines<'a> {
        let found = match (path.extension().and_then(|extension| extension.to_str()), text) {
            (Some("toml"), Some(text)) => DeTable::parse(text).ok().map(|table| Lines::Toml(text, table.into_inner())),
            (Some("yaml" | "yml"), Some(text)) => yaml::parse(text).ok().map(Lines::Yaml),
            _ => None,
        };
        found.unwrap_or(Lines::None)
    }

    /// Returns the line number of this key's value.
    pub(super) fn find(&self, key: &str) -> Option<usize> {
        let parts = key::parts(key).ok()?;
        let (text, table) = match self {
            Lines::None => return None,
            Lines::Yaml(node) => return node.line(&parts),
            Lines::Toml(text, table) => (text, table),
        };
        let (last, way) = parts.split_last()?;
        let mut table = table;
        for part in way {
            match table.get(part.as_str())?.get_ref() {
                DeValue::Table(within) => table = within,
                _ => return None,
            }
        }
        let (found, _) = table.get_key_value(last.as_str())?;
        Some(line(text.as_bytes(), found.span().start))
    }
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

    #[test]
    fn keys_are_found_however_they_are_written() {
        let text =
            "a = 1\n\"b.c\" = 2\nd.e = [\n 1,\n]\nd.f.g = 3\n\n[t]\nx = '''\n\n'''\ny = { z = 4 }\n[t.u]\n\n[[l]]\n";
        let lines = Lines::from_text(Path::new("x.toml"), Some(text));
        for (key, line) in [
            ("a", Some(1)),
            ("\"b.c\"", Some(2)),
            ("d.e", Some(3)),
            ("d.f.g", Some(6)),
            ("t.x", Some(9)),
            ("t.y.z", Some(12)),
            ("t.u", Some(13)),
            ("l", Some(15)),
            ("a.b", None),
            ("nothing", None),
        ] {
            assert_eq!(lines.find(key), line, "{key}");
        }
        assert_eq!(Lines::from_text(Path::new("x.json"), Some("{\"a\": 1}")).find("a"), None);
        let lines = Lines::from_text(Path::new("x.yml"), Some("a: 1\nt:\n  b.c: 2\n"));
        assert_eq!((lines.find("a"), lines.find("t.\"b.c\"")), (Some(1), Some(3)));
    }
}

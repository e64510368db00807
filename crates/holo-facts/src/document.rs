//! TOML and JSON, read into the same kind of value; what is wrong comes with its line.

use crate::fault::Fault;
use crate::reading::{self, Wrong};
use holo_process::words::reason;
use holo_system::Root;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::path::Path;
use toml::Spanned;
use toml::de::DeTable;

/// The content of a file below the root; none if there is no such file.
pub(crate) fn content(root: &Root, path: &Path) -> Result<Option<Vec<u8>>, Fault> {
    root.read(path).map_err(|error| Fault::new(root.shown(path).display(), reason(&error)))
}

/// Reads a file whose name ends in `.toml` or `.json` into a table.
pub(crate) fn read(shown: impl Display, name: &Path, content: &[u8]) -> Result<Map<String, Value>, Fault> {
    if name.extension().is_some_and(|extension| extension == "toml") {
        toml(shown, content)
    } else {
        json(shown, content)
    }
}

/// Reads a table of JSON.
pub(crate) fn json(shown: impl Display, content: &[u8]) -> Result<Map<String, Value>, Fault> {
    match serde_json::from_slice(content) {
        Ok(Value::Object(table)) => Ok(table),
        Ok(_) => Err(Fault::new(shown, "this is no object")),
        Err(error) => {
            let text = error.to_string();
            let text = text.split(" at line ").next().unwrap_or_default();
            Err(Fault::new(shown, text).at(Some(error.line()).filter(|line| *line > 0)))
        }
    }
}

/// Reads TOML.
fn toml(shown: impl Display, content: &[u8]) -> Result<Map<String, Value>, Fault> {
    from_toml(&shown, typed(&shown, content)?)
}

/// What a table of TOML is as a value of templates. Dates and times become their texts.
///
/// # Errors
/// If there is a number in it that is none to work with.
pub fn from_toml(shown: impl Display, table: toml::Table) -> Result<Map<String, Value>, Fault> {
    table.into_iter().map(|(key, value)| Ok((key, plain(&shown, value)?))).collect()
}

/// Reads TOML into a type, whose own complaints come with their keys and lines too.
pub(crate) fn typed<T: DeserializeOwned>(shown: impl Display, content: &[u8]) -> Result<T, Fault> {
    let table = parse(&shown, content)?;
    reading::read(&table).map_err(|wrong| wrong_in(&shown, content, &wrong))
}

/// What is wrong with something that was read into a type.
pub(crate) fn wrong_in(shown: impl Display, content: &[u8], wrong: &Wrong) -> Fault {
    Fault::new(shown, wrong).at(wrong.span().map(|span| line(content, span.start)))
}

/// Reads TOML, and keeps where everything stands.
pub(crate) fn parse(shown: impl Display, content: &[u8]) -> Result<Spanned<DeTable<'_>>, Fault> {
    let text = match std::str::from_utf8(content) {
        Ok(text) => text,
        Err(error) => return Err(Fault::new(shown, "this is not UTF-8").at(line(content, error.valid_up_to()))),
    };
    DeTable::parse(text).map_err(|error| {
        let (words, offset) = reading::syntax(text, &error);
        Fault::new(shown, words).at(line(content, offset))
    })
}

/// The number of the line that this byte is in.
pub(crate) fn line(content: &[u8], offset: usize) -> usize {
    content.iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

fn plain(shown: &impl Display, value: toml::Value) -> Result<Value, Fault> {
    Ok(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) if number.is_finite() => number.into(),
        toml::Value::Float(number) => return Err(Fault::new(shown, format!("{number} is no number to work with"))),
        toml::Value::Boolean(truth) => truth.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(list) => {
            list.into_iter().map(|value| plain(shown, value)).collect::<Result<Vec<_>, _>>()?.into()
        }
        toml::Value::Table(table) => {
            let entries = table.into_iter().map(|(key, value)| Ok((key, plain(shown, value)?)));
            Value::Object(entries.collect::<Result<_, Fault>>()?)
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
        assert_eq!(Value::Object(read("x", Path::new("x.json"), json).unwrap())["b"], json!([1.5, true]));
    }

    #[test]
    fn what_is_wrong_comes_with_its_line() {
        let wrong = |name: &str, text: &[u8]| read(name, Path::new(name), text).unwrap_err().to_string();
        assert!(wrong("x.toml", b"a = 1\nb = = 2\n").starts_with("x.toml:2: "));
        assert!(wrong("x.toml", b"a = 1\na = 2\n").starts_with("x.toml:2: a: is in line 1 already"));
        assert_eq!(wrong("x.toml", b"a = 1\n\nb = \"\xff\"\n"), "x.toml:3: this is not UTF-8");
        assert_eq!(wrong("x.toml", b"a = nan\n"), "x.toml: NaN is no number to work with");
        assert_eq!(wrong("x.json", b"{\n\"a\": }"), "x.json:2: expected value");
        assert_eq!(wrong("x.json", b""), "x.json:1: EOF while parsing a value");
        assert_eq!(wrong("x.json", b"[]"), "x.json: this is no object");
    }
}

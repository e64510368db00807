//! Filters for configuration files, beyond those of the language.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};
use serde::Serialize;
use std::borrow::Cow;

pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter("tojson", tojson);
    environment.add_filter("toml", toml);
    environment.add_filter("quote", quote);
    environment.set_formatter(show);
}

/// JSON: on one line, or over several, each level indented by as many blanks.
#[expect(clippy::needless_pass_by_value, reason = "the engine hands over what is named so")]
fn tojson(value: &Value, indent: Option<usize>, named: Kwargs) -> Result<Value, Error> {
    let indent = indent.map_or_else(|| named.get("indent"), |indent| Ok(Some(indent)))?;
    named.assert_all_used()?;
    let Some(indent) = indent else { return json(value).map(Value::from) };
    defined(value)?;
    let blanks = vec![b' '; indent.min(16)];
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(&blanks);
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, formatter)).map_err(|error| bad(&error))?;
    Ok(Value::from(String::from_utf8_lossy(&text)))
}

fn json(value: &Value) -> Result<String, Error> {
    defined(value)?;
    serde_json::to_string(value).map_err(|error| bad(&error))
}

/// Nothing undefined may hide in what is written: it would become `null`.
fn defined(value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined => Err(Error::new(ErrorKind::UndefinedError, "what is to be written is undefined")),
        ValueKind::Seq => value.try_iter()?.try_for_each(|item| defined(&item)),
        ValueKind::Map => value.try_iter()?.try_for_each(|key| defined(&value.get_item(&key)?)),
        _ => Ok(()),
    }
}

fn bad(error: &serde_json::Error) -> Error {
    Error::new(ErrorKind::BadSerialization, error.to_string())
}

/// A value where a template shows it: text as it is, everything else as JSON has it. The language itself would have it as Python does,
/// which hardly any configuration file means.
fn show(output: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Bool
        | ValueKind::None
        | ValueKind::Number
        | ValueKind::Seq
        | ValueKind::Map
        | ValueKind::Iterable => output.write_str(&json(value)?).map_err(|_| Error::from(ErrorKind::WriteFailure)),
        _ => minijinja::escape_formatter(output, state, value),
    }
}

/// Returns a value that can stand behind `KEY =` in TOML.
fn toml(value: &Value) -> Result<Value, Error> {
    defined(value)?;
    match toml::Value::try_from(value) {
        Ok(value) => Ok(Value::from(value.to_string())),
        Err(error) => Err(Error::new(ErrorKind::BadSerialization, format!("this is nothing that TOML has: {error}"))),
    }
}

/// One word of a shell, or a word for each item of a list, quoted where needed.
fn quote(value: &Value) -> Result<Value, Error> {
    let words = match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter()?.map(|word| word_of(&word)).collect::<Result<_, _>>()?
        }
        _ => vec![word_of(value)?],
    };
    Ok(Value::from(words.join(" ")))
}

fn word_of(value: &Value) -> Result<String, Error> {
    defined(value)?;
    let wrong = |what: &str| Error::new(ErrorKind::InvalidOperation, format!("{what} cannot be a word of a shell"));
    let text = match value.kind() {
        ValueKind::String => value.to_string(),
        ValueKind::Number | ValueKind::Bool => json(value)?,
        kind => return Err(wrong(&format!("a value of kind {kind}"))),
    };
    shlex::try_quote(&text).map(Cow::into_owned).map_err(|_| wrong("what holds a zero byte"))
}

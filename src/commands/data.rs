//! `holo data`, and the format of facts and data.

use super::Context;
use crate::cli::Data;
use crate::error::{FatalError, exit};
use crate::report::{Event, Reporter, Severity};
use holo_facts::{Knowledge, Origin, Standing, key};
use serde_json::{Map, Value, json};

pub(super) fn run(arguments: &Data, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let knowledge = super::knowledge(settings, *reporter)?;
    let data = knowledge.data();
    warn(&knowledge, *reporter);
    interrupt.check()?;
    let data = data.map_err(|fault| {
        reporter.event(Event::Aside(Severity::Error, &fault.to_string()));
        FatalError::Reported
    })?;
    let key = arguments.key.as_deref();
    let found = key.map_or(Ok(Some(data.value())), |key| data.lookup(key)).and_then(|found| {
        let Some(found) = found else { return Ok(None) };
        Ok(Some(match (arguments.explain, arguments.json) {
            (false, false) => plain(key, found),
            (false, true) => as_json(found),
            (true, false) => data.explain(key)?.iter().map(explain).collect(),
            (true, true) => {
                as_json(&Value::Object(data.explain(key)?.iter().map(explain_in_json).collect::<Map<_, _>>()))
            }
        }))
    });
    let complaint = match found {
        Ok(Some(text)) => {
            reporter.event(Event::Text(text.as_bytes()));
            return Ok(exit::DONE);
        }
        Ok(None) => format!("there is no data at {}", key::shown(key.unwrap_or_default())),
        Err(error) => error.to_string(),
    };
    reporter.event(Event::Aside(Severity::Error, &complaint));
    Ok(exit::FAILED)
}

/// Formats a value, its location, and the values that it takes precedence over.
fn explain(origin: &Origin<'_>) -> String {
    let mut text = lines(&origin.key, origin.value);
    for standing in &origin.from {
        text += &format!("    from {standing}\n");
    }
    for (standing, value) in &origin.over {
        text += &format!("    over {standing}: {}\n", on_one_line(value));
    }
    text
}

fn explain_in_json(origin: &Origin<'_>) -> (String, Value) {
    let location = |standing: &Standing<'_>| {
        let file = ("file".to_owned(), json!(standing.file.to_string_lossy()));
        [file].into_iter().chain(standing.line.map(|line| ("line".to_owned(), json!(line))))
    };
    let from: Vec<Value> = origin.from.iter().map(|standing| location(standing).collect()).collect();
    let overridden = |(standing, value): &(Standing<'_>, &Value)| {
        location(standing).chain([("value".to_owned(), (*value).clone())]).collect()
    };
    let over: Vec<Value> = origin.over.iter().map(overridden).collect();
    (origin.key.clone(), json!({ "value": origin.value, "from": from, "over": over }))
}

/// Reports warnings from gathering facts, on standard error.
pub(super) fn warn(knowledge: &Knowledge, reporter: &mut dyn Reporter) {
    for warning in knowledge.take_warnings() {
        reporter.event(Event::Aside(Severity::Warning, &warning.to_string()));
    }
}

/// Formats a value as JSON.
pub(super) fn as_json(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Formats a value as plain text: text verbatim, a plain list item by item, and any other value as lines `KEY: VALUE`.
pub(super) fn plain(key: Option<&str>, value: &Value) -> String {
    match value {
        Value::Object(_) => lines(key.unwrap_or_default(), value),
        Value::Array(list) if list.iter().any(is_nested) => lines(key.unwrap_or_default(), value),
        Value::Array(list) => list.iter().map(|item| format!("{}\n", text(item))).collect(),
        value => format!("{}\n", text(value)),
    }
}

/// Returns a line for each value at or below a key. The keys are valid arguments of the command.
pub(super) fn lines(at: &str, value: &Value) -> String {
    match value {
        Value::Object(table) if !table.is_empty() => {
            table.iter().map(|(part, value)| lines(&key::join(at, part), value)).collect()
        }
        Value::Array(list) if list.iter().any(is_nested) => {
            list.iter().enumerate().map(|(index, item)| lines(&key::join(at, &index.to_string()), item)).collect()
        }
        _ if at.is_empty() => String::new(),
        value => format!("{}: {}", key::shown(at), on_one_line(value)).trim_end().to_owned() + "\n",
    }
}

/// Formats a value for use inside a line: a plain list with commas, and as JSON if it would break the line or affect a
/// terminal.
fn on_one_line(value: &Value) -> String {
    match value {
        Value::Array(list) if !list.iter().any(is_nested) => {
            list.iter().map(on_one_line).collect::<Vec<_>>().join(", ")
        }
        Value::Object(table) if table.is_empty() => String::new(),
        Value::String(text) if !text.contains(char::is_control) => text.clone(),
        value => value.to_string(),
    }
}

fn is_nested(value: &Value) -> bool {
    value.is_array() || value.is_object()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_have_valid_keys() {
        let value = json!({
            "b": {"c.d": "text", "e": ["x", 1, true], "f": [], "g": {}, "h": ""},
            "a": [{"path": "/"}, [2]],
            "z": "two\nlines\u{1b}[1m",
            "n": null,
        });
        let expected = "a.0.path: /\na.1: 2\nb.\"c.d\": text\nb.e: x, 1, true\nb.f:\nb.g:\nb.h:\nn: null\n\
                    z: \"two\\nlines\\u001b[1m\"\n";
        assert_eq!(plain(None, &value), expected);
        for line in expected.lines() {
            let asked = line.split(':').next().unwrap();
            assert!(key::find(&value, asked).unwrap().is_some(), "{asked}");
        }
        assert_eq!(plain(Some("a"), &value["a"]), "a.0.path: /\na.1: 2\n");
        assert_eq!(plain(None, &json!({})), "");
    }

    #[test]
    fn single_values_are_printed_verbatim() {
        assert_eq!(plain(Some("z"), &json!("two\nlines")), "two\nlines\n");
        assert_eq!(plain(Some("z"), &json!(["a b", 1])), "a b\n1\n");
        assert_eq!(plain(Some("z"), &json!([])), "");
        assert_eq!(plain(Some("z"), &json!(1.5)), "1.5\n");
    }
}

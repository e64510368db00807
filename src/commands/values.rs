//! Formats facts and data.

use crate::report::{Event, Reporter, Severity};
use holo_facts::{Knowledge, key};
use serde_json::Value;

/// Reports warnings from gathering facts, on standard error.
pub(super) fn warn(knowledge: &Knowledge, reporter: &mut dyn Reporter) {
    for warning in knowledge.take_warnings() {
        reporter.event(Event::Aside(Severity::Warning, &warning.to_string()));
    }
}

/// Formats a value as JSON.
pub(super) fn json(value: &Value) -> String {
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
pub(super) fn on_one_line(value: &Value) -> String {
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

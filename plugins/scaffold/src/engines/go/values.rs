//! Values, as Go prints them.

use gotmpl::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// Converts a value of facts or data.
pub(super) fn of_json(value: &serde_json::Value) -> Value {
    convert(value, &|number| match (number.as_i64(), number.as_u64()) {
        (Some(number), _) => Value::Int(number),
        (_, Some(number)) => Value::Uint(number),
        _ => Value::Float(number.as_f64().unwrap_or_default()),
    })
}

/// Converts a JSON value as Go reads it: all numbers are floating-point numbers.
pub(super) fn of_read_json(value: &serde_json::Value) -> Value {
    convert(value, &|number| Value::Float(number.as_f64().unwrap_or_default()))
}

fn convert(value: &serde_json::Value, number: &dyn Fn(&serde_json::Number) -> Value) -> Value {
    match value {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(truth) => Value::Bool(*truth),
        serde_json::Value::Number(it) => number(it),
        serde_json::Value::String(text) => Value::String(text.as_str().into()),
        serde_json::Value::Array(list) => Value::List(list.iter().map(|value| convert(value, number)).collect()),
        serde_json::Value::Object(table) => {
            let entries = table.iter().map(|(key, value)| (Arc::from(key.as_str()), convert(value, number)));
            Value::Map(Arc::new(entries.collect::<BTreeMap<_, _>>()))
        }
    }
}

/// Converts a value for other engines and formats. Returns `None` if it contains a value without a representation, such
/// as a function.
pub(super) fn to_json(value: &Value) -> Option<serde_json::Value> {
    Some(match value {
        Value::Nil => serde_json::Value::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Int(number) => (*number).into(),
        Value::Uint(number) => (*number).into(),
        // Go writes integral numbers below this limit without a decimal point.
        #[expect(clippy::cast_possible_truncation, reason = "it is whole, and within the limits")]
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => (*number as i64).into(),
        Value::Float(number) => serde_json::Number::from_f64(*number)?.into(),
        Value::String(text) => (&**text).into(),
        Value::List(list) => list.iter().map(to_json).collect::<Option<Vec<_>>>()?.into(),
        Value::Map(table) => {
            let entries = table.iter().map(|(key, value)| Some((key.to_string(), to_json(value)?)));
            serde_json::Value::Object(entries.collect::<Option<_>>()?)
        }
        Value::Function(_) => return None,
    })
}

/// Returns the text that an action prints.
pub(super) fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Nil => Some("<no value>".to_owned()),
        Value::Function(_) => None,
        value => Some(text(value)),
    }
}

/// Returns the text of a value in Go's format `%v`.
pub(super) fn text(value: &Value) -> String {
    let mut text = String::new();
    write_text(value, &mut text);
    text
}

fn write_text(value: &Value, text: &mut String) {
    match value {
        Value::Float(number) => text.push_str(&float(*number)),
        Value::String(it) => text.push_str(it),
        Value::List(list) => {
            text.push('[');
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    text.push(' ');
                }
                write_text(item, text);
            }
            text.push(']');
        }
        Value::Map(table) => {
            text.push_str("map[");
            for (index, (key, item)) in table.iter().enumerate() {
                if index > 0 {
                    text.push(' ');
                }
                text.push_str(key);
                text.push(':');
                write_text(item, text);
            }
            text.push(']');
        }
        other => drop(write!(text, "{other}")),
    }
}

/// Returns the shortest text of a number, with an exponent below 1e-4 and from 1e6 on.
pub(super) fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = exponent.parse().unwrap_or_default();
    if number != 0.0 && !(-4..6).contains(&power) {
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", power.abs());
    }
    format!("{number}")
}

/// The function that records a position.
pub(super) const AT: &str = " at";
/// The function that prints a value.
pub(super) const SHOW: &str = " show";

/// The function that checks a format.
pub(super) const FORMAT: &str = " format";
/// The function that returns nil.
pub(super) const NOTHING: &str = " nothing";

//! Times. As in Go, their formats are examples.

use super::{Arguments, Function, text};
use gotmpl::{TemplateError, Value};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::sync::Arc;

type Result = std::result::Result<Value, TemplateError>;

const CHANGES: Option<&str> = Some("the file becomes another one with each apply");

const fn function(name: &'static str, call: fn(&Arguments<'_>) -> Result) -> Function {
    Function { name, call, warning: None }
}

pub(super) const ALL: &[Function] = &[
    Function { name: "now", call: |a| a.exactly(0).map(|()| time(Timestamp::now())), warning: CHANGES },
    function("date", |a| {
        a.exactly(2)?;
        formatted(a, TimeZone::system())
    }),
    function("dateInZone", |a| {
        a.exactly(3)?;
        let zone = match a.text(2)? {
            "" | "UTC" => TimeZone::UTC,
            "Local" => TimeZone::system(),
            // Sprig uses UTC for unknown time zones, without an error.
            name => TimeZone::get(name).map_err(|_| a.error(&format!("knows no time zone {name:?}")))?,
        };
        formatted(a, zone)
    }),
    function("unixEpoch", |a| {
        a.exactly(1)?;
        text(timestamp(a, 0)?.as_second().to_string())
    }),
];

/// The parts of an example, the longer ones first, and their conversion specifications.
const PARTS: [(&str, &str); 29] = [
    ("January", "%B"),
    ("Monday", "%A"),
    ("2006", "%Y"),
    ("-07:00", "%:z"),
    ("-0700", "%z"),
    ("Jan", "%b"),
    ("Mon", "%a"),
    ("MST", "%Z"),
    ("002", "%j"),
    ("01", "%m"),
    ("02", "%d"),
    ("03", "%I"),
    ("04", "%M"),
    ("05", "%S"),
    ("06", "%y"),
    ("15", "%H"),
    ("PM", "%p"),
    ("pm", "%P"),
    ("_2", "%e"),
    (".000000000", "%.9f"),
    (".000000", "%.6f"),
    (".000", "%.3f"),
    ("1", "%-m"),
    ("2", "%-d"),
    ("3", "%-I"),
    ("4", "%-M"),
    ("5", "%-S"),
    ("%", "%%"),
    ("Z07:00", "\0"),
];

/// Returns a time as a template value: a function, which has no text and returns the time when it is called.
fn time(timestamp: Timestamp) -> Value {
    let nanoseconds = i64::try_from(timestamp.as_nanosecond()).unwrap_or(i64::MAX);
    Value::Function(Arc::new(move |_| Ok(Value::Int(nanoseconds))))
}

fn timestamp(a: &Arguments<'_>, index: usize) -> std::result::Result<Timestamp, TemplateError> {
    let found = match a.value(index)? {
        Value::Function(time) => match time(&[])? {
            Value::Int(nanoseconds) => Timestamp::from_nanosecond(i128::from(nanoseconds)).ok(),
            _ => None,
        },
        Value::Int(seconds) => Timestamp::from_second(*seconds).ok(),
        _ => None,
    };
    // Sprig would use the current time for all other values.
    found.ok_or_else(|| a.error("wants a time, or seconds since 1970"))
}

fn formatted(a: &Arguments<'_>, zone: TimeZone) -> Result {
    let time = timestamp(a, 1)?.to_zoned(zone);
    let mut rest = a.text(0)?;
    let mut result = String::new();
    while let Some(letter) = rest.chars().next() {
        let part =
            PARTS.iter().filter(|(example, _)| rest.starts_with(example)).max_by_key(|(example, _)| example.len());
        match part {
            Some((example, "\0")) => {
                result.push_str(&if time.offset().is_zero() { "Z".to_owned() } else { one(a, &time, "%:z")? });
                rest = rest.get(example.len()..).unwrap_or_default();
            }
            Some((example, form)) => {
                result.push_str(&one(a, &time, form)?);
                rest = rest.get(example.len()..).unwrap_or_default();
            }
            None => {
                result.push(letter);
                rest = rest.get(letter.len_utf8()..).unwrap_or_default();
            }
        }
    }
    text(result)
}

fn one(a: &Arguments<'_>, time: &Zoned, form: &str) -> std::result::Result<String, TemplateError> {
    jiff::fmt::strtime::format(form, time).map_err(|error| a.error(&error.to_string()))
}

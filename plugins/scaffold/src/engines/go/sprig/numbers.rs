//! Numbers, semantic versions and times. A value that is not a number counts as 0, as in Sprig. As in Go, the formats of times are
//! examples.

use super::{Arguments, Function, Result, function, limits, text};
use gotmpl::{TemplateError, Value};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use semver::{Version, VersionReq};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const ALL: &[Function] = &[
    function("int", |a| single(a, |value| Value::Int(whole(value)))),
    function("int64", |a| single(a, |value| Value::Int(whole(value)))),
    function("float64", |a| single(a, |value| Value::Float(floating(value)))),
    function("atoi", |a| {
        a.exactly(1)?;
        Ok(Value::Int(a.text(0)?.parse().unwrap_or_default()))
    }),
    function("add", |a| fold(a, 0, i64::wrapping_add)),
    function("mul", |a| fold(a, 1, i64::wrapping_mul)),
    function("sub", |a| {
        let (one, two) = pair(a)?;
        Ok(Value::Int(one.wrapping_sub(two)))
    }),
    function("div", |a| divide(a, i64::wrapping_div)),
    function("mod", |a| divide(a, i64::wrapping_rem)),
    function("max", |a| best(a, i64::max)),
    function("min", |a| best(a, i64::min)),
    function("floor", |a| single(a, |value| Value::Float(floating(value).floor()))),
    function("ceil", |a| single(a, |value| Value::Float(floating(value).ceil()))),
    function("round", |a| {
        a.between(2, 3)?;
        let on = a.values.get(2).map_or(0.5, floating);
        let power = 10_f64.powi(i32::try_from(a.integer(1)?).unwrap_or(i32::MAX));
        let digits = power * floating(a.value(0)?);
        // Only the fraction decides, also for negative numbers.
        let rounded = if digits.fract() >= on { digits.ceil() } else { digits.floor() };
        Ok(Value::Float(rounded / power))
    }),
    function("until", |a| {
        a.exactly(1)?;
        let end = a.integer(0)?;
        a.size(usize::try_from(end.unsigned_abs()).unwrap_or(usize::MAX).saturating_mul(limits::OVERHEAD))?;
        let numbers: Vec<Value> =
            if end < 0 { ((end + 1)..=0).rev().map(Value::Int).collect() } else { (0..end).map(Value::Int).collect() };
        Ok(Value::List(numbers.into()))
    }),
    function("seq", seq),
];

fn single(a: &Arguments<'_>, make: fn(&Value) -> Value) -> Result {
    a.exactly(1)?;
    Ok(make(a.value(0)?))
}

fn fold(a: &Arguments<'_>, start: i64, with: fn(i64, i64) -> i64) -> Result {
    a.at_least(usize::from(a.name == "mul"))?;
    Ok(Value::Int(a.values.iter().map(whole).fold(start, with)))
}

fn pair(a: &Arguments<'_>) -> std::result::Result<(i64, i64), TemplateError> {
    a.exactly(2)?;
    Ok((whole(a.value(0)?), whole(a.value(1)?)))
}

fn divide(a: &Arguments<'_>, with: fn(i64, i64) -> i64) -> Result {
    match pair(a)? {
        (_, 0) => Err(a.error("cannot divide by 0")),
        (one, two) => Ok(Value::Int(with(one, two))),
    }
}

fn best(a: &Arguments<'_>, with: fn(i64, i64) -> i64) -> Result {
    a.at_least(1)?;
    Ok(Value::Int(a.values.iter().map(whole).reduce(with).unwrap_or_default()))
}

/// Converts any value to an integer, like Sprig.
#[expect(clippy::cast_possible_truncation, reason = "Go cuts so too")]
fn whole(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        Value::Uint(number) => i64::try_from(*number).unwrap_or(i64::MAX),
        // A number that is too large becomes the minimum, as in Go on amd64.
        Value::Float(number) if number.is_nan() || number.abs() >= 9_223_372_036_854_775_808.0 => i64::MIN,
        Value::Float(number) => *number as i64,
        Value::Bool(truth) => i64::from(*truth),
        Value::String(text) => integer_of(text).unwrap_or_default(),
        _ => 0,
    }
}

/// Parses an integer in Go's notation, with an optional prefix for the base.
fn integer_of(text: &str) -> Option<i64> {
    let text = without_zero_fraction(text);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (digits, base) = match lower.get(..2) {
        Some("0x") => (lower.get(2..)?, 16),
        Some("0b") => (lower.get(2..)?, 2),
        Some("0o") => (lower.get(2..)?, 8),
        Some(start) if start.starts_with('0') => (lower.get(1..)?, 8),
        _ => (lower.as_str(), 10),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    i64::from_str_radix(digits, base).ok()?.checked_mul(sign)
}

/// Removes a fraction of zeros: `1.00` is 1.
fn without_zero_fraction(text: &str) -> &str {
    match text.split_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|digit| digit == b'0') => whole,
        _ => text,
    }
}

#[expect(clippy::cast_precision_loss, reason = "Go loses it too")]
fn floating(value: &Value) -> f64 {
    match value {
        Value::Int(number) => *number as f64,
        Value::Uint(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Bool(truth) => f64::from(u8::from(*truth)),
        Value::String(text) => text.parse().unwrap_or_default(),
        _ => 0.0,
    }
}

fn seq(a: &Arguments<'_>) -> Result {
    let (start, step, end) = match a.values.len() {
        0 => return text(""),
        1 => (1, if a.integer(0)? < 1 { -1 } else { 1 }, a.integer(0)?),
        2 => (a.integer(0)?, if a.integer(1)? < a.integer(0)? { -1 } else { 1 }, a.integer(1)?),
        3 => (a.integer(0)?, a.integer(1)?, a.integer(2)?),
        _ => return Err(a.error("wants three numbers at most")),
    };
    if step == 0 || (end < start && step > 0) || (end > start && step < 0) {
        return text("");
    }
    let count = usize::try_from((end.abs_diff(start)) / step.unsigned_abs()).unwrap_or(usize::MAX);
    a.size(count.saturating_mul(limits::OVERHEAD))?;
    let mut numbers = Vec::new();
    let mut number = start;
    while if step > 0 { number <= end } else { number >= end } {
        numbers.push(number.to_string());
        let Some(next) = number.checked_add(step) else { break };
        number = next;
    }
    text(numbers.join(" "))
}

pub(super) const VERSIONS: &[Function] = &[
    function("semver", |a| {
        a.exactly(1)?;
        let version = version(a, a.text(0)?)?;
        let number = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let fields = [
            ("Major", number(version.major)),
            ("Minor", number(version.minor)),
            ("Patch", number(version.patch)),
            ("Prerelease", Value::String(version.pre.as_str().into())),
            ("Metadata", Value::String(version.build.as_str().into())),
            ("Original", Value::String(a.text(0)?.into())),
        ];
        Ok(Value::Map(Arc::new(fields.into_iter().map(|(key, value)| (key.into(), value)).collect::<BTreeMap<_, _>>())))
    }),
    function("semverCompare", |a| {
        a.exactly(2)?;
        let version = version(a, a.text(1)?)?;
        for alternative in a.text(0)?.split("||") {
            if requirement(a, alternative)?.matches(&version) {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }),
];

/// Parses a version, whose minor and patch numbers are optional.
fn version(a: &Arguments<'_>, text: &str) -> std::result::Result<Version, TemplateError> {
    let plain = text.strip_prefix('v').unwrap_or(text);
    let end = plain.find(['-', '+']).unwrap_or(plain.len());
    let (core, rest) = plain.split_at(end);
    let core = match core.split('.').count() {
        1 => format!("{core}.0.0"),
        2 => format!("{core}.0"),
        _ => core.to_owned(),
    };
    Version::parse(&format!("{core}{rest}")).map_err(|error| a.error(&format!("{text:?} is not a version: {error}")))
}

/// Parses a constraint. A version without an operator matches only itself, and the parts are separated by spaces or
/// commas.
fn requirement(a: &Arguments<'_>, text: &str) -> std::result::Result<VersionReq, TemplateError> {
    let wrong = |reason: &str| a.error(&format!("{:?} is not a constraint that is supported: {reason}", text.trim()));
    if text.contains(" - ") || text.contains('!') {
        return Err(wrong("neither ranges with - nor != are"));
    }
    // An operator may be separated from its version by a space.
    let joined = ["<=", ">=", "<", ">", "=", "~", "^"]
        .iter()
        .fold(text.to_owned(), |text, operator| text.replace(&format!("{operator} "), operator));
    let parts = joined.split([',', ' ']).filter(|part| !part.is_empty());
    let part = |part: &str| {
        let operator = part.len() - part.trim_start_matches(['<', '>', '=', '~', '^']).len();
        let (operator, version) = part.split_at(operator);
        let version = version.strip_prefix('v').unwrap_or(version);
        match (operator, version) {
            ("", "*" | "x" | "X") => "*".to_owned(),
            ("", version) => {
                format!("={}", version.trim_end_matches(".*").trim_end_matches(".x").trim_end_matches(".X"))
            }
            (operator, version) => format!("{operator}{version}"),
        }
    };
    let parts: Vec<String> = parts.map(part).collect();
    VersionReq::parse(&parts.join(", ")).map_err(|error| wrong(&error.to_string()))
}

const CHANGES: Option<&str> = Some("the file becomes another one with each apply");

pub(super) const TIMES: &[Function] = &[
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

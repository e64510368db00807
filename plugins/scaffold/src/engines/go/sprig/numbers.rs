//! Numbers. A value that is not a number counts as 0, as in Sprig.

use super::{Arguments, Function, text};
use gotmpl::{TemplateError, Value};

type Result = std::result::Result<Value, TemplateError>;

const fn function(name: &'static str, call: fn(&Arguments<'_>) -> Result) -> Function {
    Function { name, call, warning: None }
}

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
        a.size(usize::try_from(end.unsigned_abs()).unwrap_or(usize::MAX))?;
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
    a.size(usize::try_from((end.abs_diff(start)) / step.unsigned_abs()).unwrap_or(usize::MAX))?;
    let mut numbers = Vec::new();
    let mut number = start;
    while if step > 0 { number <= end } else { number >= end } {
        numbers.push(number.to_string());
        let Some(next) = number.checked_add(step) else { break };
        number = next;
    }
    text(numbers.join(" "))
}

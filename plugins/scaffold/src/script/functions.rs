//! Functions and operators of both languages.

use super::syntax::Operator;
use super::{Dialect, EvalError};
use serde_json::Value;
use std::borrow::Cow;
use std::cmp::Ordering;

const OF_GO: &str = "and, eq, ge, gt, index, le, len, lookup, lt, ne, not, or, print, printf, println";
const OF_JET: &str =
    "hasPrefix, hasSuffix, isset, json, len, lookup, lower, raw, replace, split, trimSpace, unsafe, upper";

/// Returns the kind of a value, for errors.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

/// The text of a value; what it is, if it has none.
pub(super) fn text(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        other => Err(kind(other)),
    }
}

/// Calls a function that looks at all of its arguments.
pub(super) fn call(dialect: Dialect, name: &str, arguments: &[Cow<'_, Value>]) -> Result<Value, EvalError> {
    let texts = || -> Result<Vec<String>, EvalError> {
        let of = |value: &Cow<'_, Value>| text(value).map_err(|kind| EvalError(format!("{name} is given {kind}")));
        arguments.iter().map(of).collect()
    };
    let strings = || -> Result<Vec<&str>, EvalError> {
        let of = |value: &'_ Cow<'_, Value>| value.is_string();
        if !arguments.iter().all(of) {
            return Err(EvalError(format!("{name} wants strings")));
        }
        Ok(arguments.iter().filter_map(|value| value.as_str()).collect())
    };
    let wants = |what: &str| Err(EvalError(format!("{name} wants {what}")));
    match (dialect, name, arguments) {
        (_, "len", [value]) => match &**value {
            Value::Array(list) => Ok(list.len().into()),
            Value::Object(table) => Ok(table.len().into()),
            // As Go counts.
            Value::String(text) => Ok(text.len().into()),
            other => Err(EvalError(format!("{} has no length", kind(other)))),
        },
        (_, "len", _) => wants("one value"),
        (Dialect::Go, "not", [value]) => Ok(is_false(value).into()),
        (Dialect::Go, "eq", [first, rest @ ..]) if !rest.is_empty() => {
            let mut equal = false;
            for other in rest {
                equal |= calculate(first, Operator::Equal, other)?.as_bool() == Some(true);
            }
            Ok(equal.into())
        }
        (Dialect::Go, "ne" | "lt" | "le" | "gt" | "ge", [left, right]) => {
            let operator = match name {
                "ne" => Operator::NotEqual,
                "lt" => Operator::Less,
                "le" => Operator::AtMost,
                "gt" => Operator::Greater,
                _ => Operator::AtLeast,
            };
            calculate(left, operator, right)
        }
        (Dialect::Go, "not", _) => wants("one value"),
        (Dialect::Go, "eq" | "ne" | "lt" | "le" | "gt" | "ge", _) => wants("two values"),
        (Dialect::Go, "and" | "or" | "index", _) => wants("values"),
        (Dialect::Go, "print", _) => Ok(texts()?.concat().into()),
        (Dialect::Go, "println", _) => Ok(format!("{}\n", texts()?.join(" ")).into()),
        (Dialect::Go, "printf", [format, values @ ..]) => {
            let Value::String(format) = &**format else { return wants("a format") };
            printf(format, values).map(Value::from)
        }
        (Dialect::Jet, "json", [value]) => Ok(value.to_string().into()),
        // Nothing is escaped here, so nothing has to be kept from it.
        (Dialect::Jet, "raw" | "unsafe", [value]) => Ok(value.clone().into_owned()),
        (Dialect::Jet, "lower" | "upper" | "trimSpace", [_]) => {
            let texts = strings()?;
            let text = texts.first().copied().unwrap_or_default();
            Ok(match name {
                "lower" => text.to_lowercase(),
                "upper" => text.to_uppercase(),
                _ => text.trim().to_owned(),
            }
            .into())
        }
        (Dialect::Jet, "hasPrefix" | "hasSuffix" | "split", [_, _]) => match strings()?[..] {
            [text, part] if name == "hasPrefix" => Ok(text.starts_with(part).into()),
            [text, part] if name == "hasSuffix" => Ok(text.ends_with(part).into()),
            [text, part] if !part.is_empty() => Ok(text.split(part).map(Value::from).collect::<Vec<_>>().into()),
            _ => wants("what to split at"),
        },
        (Dialect::Jet, "replace", [text, from, to] | [text, from, to, _]) => {
            let (Some(text), Some(from), Some(to)) = (text.as_str(), from.as_str(), to.as_str()) else {
                return wants("strings");
            };
            match arguments.get(3).map(|times| times.as_i64()) {
                None | Some(Some(-1)) => Ok(text.replace(from, to).into()),
                Some(times) => match times.and_then(|times| usize::try_from(times).ok()) {
                    Some(times) => Ok(text.replacen(from, to, times).into()),
                    None => wants("a number of times"),
                },
            }
        }
        (Dialect::Jet, "json" | "raw" | "unsafe" | "lower" | "upper" | "trimSpace", _) => wants("one value"),
        (Dialect::Jet, "hasPrefix" | "hasSuffix" | "split", _) => wants("two strings"),
        (Dialect::Jet, "replace", _) => wants("three strings, and how many times at most"),
        (Dialect::Go, name, _) => Err(EvalError(format!("there is no function {name}; there are {OF_GO}"))),
        (Dialect::Jet, name, _) => Err(EvalError(format!("there is no function {name}; there are {OF_JET}"))),
    }
}

fn is_false(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(table) => table.is_empty(),
        Value::Bool(true) => false,
    }
}

/// `%s` and `%v` for any text, `%d` for whole numbers, `%q` for a text between quotes, `%%`.
fn printf(format: &str, values: &[Cow<'_, Value>]) -> Result<String, EvalError> {
    let (mut result, mut values) = (String::new(), values.iter());
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            result.push(letter);
            continue;
        }
        let verb = letters.next();
        if verb == Some('%') {
            result.push('%');
            continue;
        }
        let mut next = || values.next().ok_or_else(|| EvalError(format!("printf {format:?} is given too few values")));
        match verb {
            Some('s' | 'v') => {
                result
                    .push_str(&text(next()?).map_err(|kind| EvalError(format!("printf {format:?} is given {kind}")))?);
            }
            Some('d') => match next()?.as_i64() {
                Some(number) => result.push_str(&number.to_string()),
                None => return Err(EvalError(format!("printf {format:?}: %d wants a whole number"))),
            },
            Some('q') => match &**next()? {
                Value::String(text) => result.push_str(&Value::from(text.as_str()).to_string()),
                other => return Err(EvalError(format!("printf {format:?}: %q is given {}", kind(other)))),
            },
            _ => return Err(EvalError(format!("printf {format:?}: only %s, %v, %d, %q and %% are supported"))),
        }
    }
    match values.next() {
        None => Ok(result),
        Some(_) => Err(EvalError(format!("printf {format:?} is given too many values"))),
    }
}

/// The value of two values with an operator between them, but for those that may not look at the second one.
pub(super) fn calculate(left: &Value, operator: Operator, right: &Value) -> Result<Value, EvalError> {
    let cannot = || EvalError(format!("{} and {} cannot be compared or put together so", kind(left), kind(right)));
    match operator {
        Operator::Equal | Operator::NotEqual => {
            let equal = match (left, right) {
                (Value::Number(_), Value::Number(_)) => order(left, right) == Some(Ordering::Equal),
                (Value::Null, _) | (_, Value::Null) => left == right,
                // A number and a text that looks like it are not the same; to say so is better than to be silent.
                _ if kind(left) == kind(right) => left == right,
                _ => return Err(cannot()),
            };
            Ok((equal == (operator == Operator::Equal)).into())
        }
        Operator::Less | Operator::AtMost | Operator::Greater | Operator::AtLeast => {
            let order = order(left, right).ok_or_else(cannot)?;
            Ok(match operator {
                Operator::Less => order.is_lt(),
                Operator::AtMost => order.is_le(),
                Operator::Greater => order.is_gt(),
                _ => order.is_ge(),
            }
            .into())
        }
        Operator::And | Operator::Or => Err(cannot()),
        Operator::Plus if left.is_string() || right.is_string() => {
            let (left, right) = (text(left).map_err(|_| cannot())?, text(right).map_err(|_| cannot())?);
            Ok((left + &right).into())
        }
        Operator::Plus | Operator::Minus | Operator::Times | Operator::Over | Operator::Modulo => {
            arithmetic(left, operator, right).ok_or_else(|| match (left, right) {
                (Value::Number(_), Value::Number(_)) => "this has no result that can be written".into(),
                _ => cannot(),
            })
        }
    }
}

fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(one), Value::Number(two)) => match (one.as_i64(), two.as_i64()) {
            (Some(one), Some(two)) => Some(one.cmp(&two)),
            _ => one.as_f64()?.partial_cmp(&two.as_f64()?),
        },
        (Value::String(one), Value::String(two)) => Some(one.cmp(two)),
        _ => None,
    }
}

fn arithmetic(left: &Value, operator: Operator, right: &Value) -> Option<Value> {
    if let (Some(left), Some(right)) = (left.as_i64(), right.as_i64()) {
        return match operator {
            Operator::Plus => left.checked_add(right),
            Operator::Minus => left.checked_sub(right),
            Operator::Times => left.checked_mul(right),
            Operator::Over => left.checked_div(right),
            Operator::Modulo => left.checked_rem(right),
            _ => None,
        }
        .map(Value::from);
    }
    let (left, right) = (left.as_f64()?, right.as_f64()?);
    let result = match operator {
        Operator::Plus => left + right,
        Operator::Minus => left - right,
        Operator::Times => left * right,
        Operator::Over => left / right,
        Operator::Modulo => left % right,
        _ => return None,
    };
    serde_json::Number::from_f64(result).map(Value::Number)
}

//! Scalar values according to the core schema.

use super::YamlError;
use saphyr_parser::{ScalarStyle, Tag};
use serde_json::{Number, Value};

/// The prefix of the core schema's tags.
pub(super) const CORE: &str = "tag:yaml.org,2002:";

/// Returns the message for an unknown tag.
pub(super) fn unknown(tag: &Tag) -> String {
    format!("the tag {}{} has no meaning here", tag.handle, tag.suffix)
}

/// Returns the value of a scalar according to the core schema: only plain scalars can be anything other than strings.
pub(super) fn value(text: &str, style: ScalarStyle, tag: Option<&Tag>, line: usize) -> Result<Value, YamlError> {
    let wrong = |text: String| Err(YamlError { text, line });
    let wanted = match tag {
        None => None,
        Some(tag) if tag.handle == CORE => Some(tag.suffix.as_str()),
        Some(tag) => return wrong(unknown(tag)),
    };
    let is_string = wanted == Some("str") || (style != ScalarStyle::Plain && wanted.is_none());
    let value = if is_string { Value::from(text) } else { resolve(text, line)? };
    let is_wanted = match wanted {
        None | Some("str") => true,
        Some("null") => value.is_null(),
        Some("bool") => value.is_boolean(),
        Some("int") => value.is_i64() || value.is_u64(),
        Some("float") => value.is_number(),
        Some(other) => return wrong(format!("the tag !!{other} has no meaning here")),
    };
    if is_wanted { Ok(value) } else { wrong(format!("{text:?} does not match its tag")) }
}

/// Returns the value of a plain scalar.
fn resolve(text: &str, line: usize) -> Result<Value, YamlError> {
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    let radix = |prefix: &str, radix| {
        let digits = text.strip_prefix(prefix).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        digits.and_then(|digits| i64::from_str_radix(digits, radix).ok())
    };
    let is_decimal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        _ if is_decimal => match (text.parse::<i64>(), digits.parse::<u64>()) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) if sign > 0 => number.into(),
            _ => return Err(YamlError { text: format!("{text} is too large a number"), line }),
        },
        _ if is_float(digits) => match text.parse::<f64>().ok().and_then(Number::from_f64) {
            Some(number) => Value::Number(number),
            None => return Err(YamlError { text: format!("{text} is not a usable number"), line }),
        },
        _ if matches!(digits, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") => {
            return Err(YamlError { text: format!("{text} is not a usable number"), line });
        }
        _ => radix("0o", 8).or_else(|| radix("0x", 16)).map_or_else(|| text.into(), Value::from),
    })
}

/// Returns true if unsigned digits contain a decimal point or an exponent.
fn is_float(digits: &str) -> bool {
    let (mantissa, exponent) =
        digits.split_once(['e', 'E']).map_or((digits, None), |(mantissa, rest)| (mantissa, Some(rest)));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_exponent = |text: &str| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        !digits.is_empty() && all_digits(digits)
    };
    all_digits(whole)
        && all_digits(part)
        && !(whole.is_empty() && part.is_empty())
        && exponent.is_none_or(is_exponent)
        && (exponent.is_some() || mantissa.contains('.'))
}

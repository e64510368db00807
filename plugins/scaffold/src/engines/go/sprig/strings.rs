//! Strings, formats, digests, regular expressions and the environment.

use super::{Arguments, Function, Result, function, limits, text, text_of, texts_of, values};
use data_encoding::BASE64;
use gotmpl::{TemplateError, Value};
use regex::Regex;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const ALL: &[Function] = &[
    function("upper", |a| one(a, str::to_uppercase)),
    function("lower", |a| one(a, str::to_lowercase)),
    function("title", |a| one(a, title)),
    function("trim", |a| one(a, |it| it.trim().to_owned())),
    function("trimAll", |a| two(a, |cut, it| it.trim_matches(|letter| cut.contains(letter)).to_owned())),
    function("trimSuffix", |a| two(a, |end, it| it.strip_suffix(end).unwrap_or(it).to_owned())),
    function("trimPrefix", |a| two(a, |start, it| it.strip_prefix(start).unwrap_or(it).to_owned())),
    function("contains", |a| is(a, |part, it| it.contains(part))),
    function("hasPrefix", |a| is(a, |start, it| it.starts_with(start))),
    function("hasSuffix", |a| is(a, |end, it| it.ends_with(end))),
    function("replace", |a| {
        a.exactly(3)?;
        let (from, to, it) = (a.text(0)?, a.text(1)?, a.text(2)?);
        a.size(it.matches(from).count().saturating_mul(to.len()).saturating_add(it.len()))?;
        text(it.replace(from, to))
    }),
    function("quote", |a| {
        let words = a.values.iter().filter(|value| !matches!(value, Value::Nil)).map(|value| quoted(&text_of(value)));
        text(words.collect::<Vec<_>>().join(" "))
    }),
    function("squote", |a| {
        let words = a.values.iter().filter(|value| !matches!(value, Value::Nil));
        text(words.map(|value| format!("'{}'", text_of(value))).collect::<Vec<_>>().join(" "))
    }),
    function("indent", |a| indent(a, "")),
    function("nindent", |a| indent(a, "\n")),
    function("repeat", |a| {
        a.exactly(2)?;
        let (times, it) = (a.integer(0)?, a.text(1)?);
        let times = usize::try_from(times).map_err(|_| a.error("cannot repeat a text less than never"))?;
        a.size(it.len().saturating_mul(times))?;
        text(it.repeat(times))
    }),
    function("substr", substr),
    function("trunc", |a| {
        a.exactly(2)?;
        let (count, it) = (a.integer(0)?, a.text(1)?);
        let length = i64::try_from(it.len()).unwrap_or(i64::MAX);
        let (start, end) = match count {
            count if count < 0 && length + count > 0 => (length + count, length),
            count if count >= 0 && length > count => (0, count),
            _ => (0, length),
        };
        cut(a, it, start, end)
    }),
    function("join", |a| {
        a.exactly(2)?;
        let (texts, separator) = (texts_of(a.value(1)?), a.text(0)?);
        a.size(texts.len().saturating_mul(separator.len()))?;
        text(texts.join(separator))
    }),
    function("split", |a| {
        a.exactly(2)?;
        let parts = few_parts(a)?.enumerate();
        let entries = parts.map(|(index, part)| (Arc::from(format!("_{index}")), Value::String(part.into())));
        Ok(Value::Map(Arc::new(entries.collect::<BTreeMap<_, _>>())))
    }),
    function("splitList", |a| {
        a.exactly(2)?;
        Ok(Value::List(few_parts(a)?.map(|part| Value::String(part.into())).collect()))
    }),
    function("cat", |a| {
        let words = a.values.iter().filter(|value| !matches!(value, Value::Nil));
        text(words.map(text_of).collect::<Vec<_>>().join(" "))
    }),
    function("toString", |a| {
        a.exactly(1)?;
        text(text_of(a.value(0)?))
    }),
];

fn one(a: &Arguments<'_>, make: fn(&str) -> String) -> Result {
    a.exactly(1)?;
    text(make(a.text(0)?))
}

fn two(a: &Arguments<'_>, make: fn(&str, &str) -> String) -> Result {
    a.exactly(2)?;
    text(make(a.text(0)?, a.text(1)?))
}

fn is(a: &Arguments<'_>, holds: fn(&str, &str) -> bool) -> Result {
    a.exactly(2)?;
    Ok(Value::Bool(holds(a.text(0)?, a.text(1)?)))
}

/// Converts the first letter of each word to upper case.
fn title(it: &str) -> String {
    let mut within = false;
    let mut result = String::new();
    for letter in it.chars() {
        if within {
            result.push(letter);
        } else {
            result.extend(letter.to_uppercase());
        }
        within = letter.is_alphanumeric() || letter == '_' || (!letter.is_ascii() && !letter.is_whitespace());
    }
    result
}

/// Quotes a string, as Go does.
fn quoted(it: &str) -> String {
    let mut result = String::from('"');
    for letter in it.chars() {
        match letter {
            '"' | '\\' => result.extend(['\\', letter]),
            '\n' => result.push_str("\\n"),
            '\r' => result.push_str("\\r"),
            '\t' => result.push_str("\\t"),
            '\u{7}' => result.push_str("\\a"),
            '\u{8}' => result.push_str("\\b"),
            '\u{b}' => result.push_str("\\v"),
            '\u{c}' => result.push_str("\\f"),
            letter if (letter as u32) < 0x20 || letter == '\u{7f}' => {
                result.push_str(&format!("\\x{:02x}", letter as u32));
            }
            letter if letter.is_control() || is_invisible(letter) => result.push_str(&match letter as u32 {
                number if number < 0x1_0000 => format!("\\u{number:04x}"),
                number => format!("\\U{number:08x}"),
            }),
            letter => result.push(letter),
        }
    }
    result.push('"');
    result
}

/// Returns true for characters that Go does not treat as printable: white space other than the space, and format
/// characters.
fn is_invisible(letter: char) -> bool {
    letter != ' ' && letter.is_whitespace()
        || matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(letter, '\u{e000}'..='\u{f8ff}')
}

fn indent(a: &Arguments<'_>, before: &str) -> Result {
    a.exactly(2)?;
    let (count, it) = (a.integer(0)?, a.text(1)?);
    let count = usize::try_from(count).map_err(|_| a.error("cannot indent by less than nothing"))?;
    a.size(count.saturating_mul(it.lines().count() + 1).saturating_add(it.len()))?;
    let blanks = " ".repeat(count);
    text(format!("{before}{blanks}{}", it.replace('\n', &format!("\n{blanks}"))))
}

fn substr(a: &Arguments<'_>) -> Result {
    a.exactly(3)?;
    let (start, end, it) = (a.integer(0)?, a.integer(1)?, a.text(2)?);
    let length = i64::try_from(it.len()).unwrap_or(i64::MAX);
    match (start, end) {
        (start, end) if start < 0 => cut(a, it, 0, end),
        (start, end) if end < 0 || end > length => cut(a, it, start, length),
        (start, end) => cut(a, it, start, end),
    }
}

/// Returns a part of a string. Positions are in bytes, as in Go.
fn cut(a: &Arguments<'_>, it: &str, start: i64, end: i64) -> Result {
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    match range.and_then(|(start, end)| it.get(start..end)) {
        Some(part) => text(part),
        None => Err(a.error(&format!("has no text from byte {start} to {end} of {it:?}"))),
    }
}

/// Returns the parts of the second argument between the first ones, unless they are too many.
fn few_parts<'a>(a: &Arguments<'a>) -> Result<Box<dyn Iterator<Item = &'a str> + 'a>> {
    let (separator, it) = (a.text(0)?, a.text(1)?);
    a.size(it.matches(separator).count().saturating_mul(limits::OVERHEAD))?;
    Ok(parts(separator, it))
}

/// Returns the parts of a string between separators, or each of its characters if the separator is empty.
fn parts<'a>(separator: &'a str, it: &'a str) -> Box<dyn Iterator<Item = &'a str> + 'a> {
    if separator.is_empty() {
        return Box::new(it.split_inclusive(|_: char| true));
    }
    Box::new(it.split(separator))
}

pub(super) const ENCODINGS: &[Function] = &[
    function("toJson", |a| text(escaped(&compact(a)?))),
    function("toRawJson", |a| text(compact(a)?)),
    function("toPrettyJson", |a| {
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(b"  ");
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        json(a)?.serialize(&mut serializer).map_err(|error| a.error(&error.to_string()))?;
        text(escaped(&String::from_utf8_lossy(&bytes)))
    }),
    function("fromJson", |a| {
        a.exactly(1)?;
        a.size(a.text(0)?.matches(',').count().saturating_mul(limits::OVERHEAD))?;
        // Invalid JSON becomes nil, as in Sprig.
        Ok(serde_json::from_str(a.text(0)?).map_or(Value::Nil, |value| values::of_read_json(&value)))
    }),
    function("toYaml", |a| {
        let yaml = holo_plugin::facts::to_yaml(&json(a)?);
        text(yaml.map_err(|error| a.error(&error.to_string()))?.trim_end_matches('\n'))
    }),
    function("b64enc", |a| {
        a.exactly(1)?;
        text(BASE64.encode(a.text(0)?.as_bytes()))
    }),
    function("b64dec", |a| {
        a.exactly(1)?;
        let bytes =
            BASE64.decode(a.text(0)?.as_bytes()).map_err(|error| a.error(&format!("cannot decode this: {error}")))?;
        text(String::from_utf8(bytes).map_err(|_| a.error("decodes what is not text"))?)
    }),
    function("sha256sum", |a| {
        a.exactly(1)?;
        let digest = Sha256::digest(a.text(0)?.as_bytes());
        text(digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }),
    function("regexMatch", |a| {
        a.exactly(2)?;
        Ok(Value::Bool(pattern(a)?.is_match(a.text(1)?)))
    }),
    function("regexFind", |a| {
        a.exactly(2)?;
        text(pattern(a)?.find(a.text(1)?).map_or("", |found| found.as_str()))
    }),
    function("regexReplaceAll", |a| {
        a.exactly(3)?;
        let (pattern, it, by) = (pattern(a)?, a.text(1)?, a.text(2)?);
        let mut result = String::new();
        let mut rest = 0;
        for found in pattern.captures_iter(it) {
            let Some(all) = found.get(0) else { continue };
            result.push_str(it.get(rest..all.start()).unwrap_or_default());
            found.expand(by, &mut result);
            a.size(result.len())?;
            rest = all.end();
        }
        text(result + it.get(rest..).unwrap_or_default())
    }),
    function("env", |a| {
        a.exactly(1)?;
        let name = a.text(0)?;
        let value = if name.is_empty() || name.contains(['=', '\0']) { None } else { std::env::var_os(name) };
        text(value.unwrap_or_default().to_string_lossy())
    }),
];

fn json(a: &Arguments<'_>) -> std::result::Result<serde_json::Value, TemplateError> {
    a.exactly(1)?;
    values::to_json(a.value(0)?).ok_or_else(|| a.error("cannot write a function, a time, or what is not a number"))
}

fn compact(a: &Arguments<'_>) -> std::result::Result<String, TemplateError> {
    serde_json::to_string(&json(a)?).map_err(|error| a.error(&error.to_string()))
}

/// Escapes the characters that could end a script in an HTML page, as Go does.
fn escaped(json: &str) -> String {
    let escape = |letter: char| match letter {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", letter as u32),
        letter => letter.to_string(),
    };
    json.chars().map(escape).collect()
}

fn pattern(a: &Arguments<'_>) -> std::result::Result<Regex, TemplateError> {
    Regex::new(a.text(0)?).map_err(|error| {
        let error = error.to_string();
        let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        a.error(&format!("{:?} is not a valid pattern: {reason}", a.text(0).unwrap_or_default()))
    })
}

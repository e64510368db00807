//! Filters for configuration files, in addition to the built-in ones.

use super::{limits, toml_strings};
use data_encoding::{BASE64, HEXLOWER};
use minijinja::value::{Kwargs, Rest, Serde, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};
use regex::Regex;
use serde::Serialize;
use sha2::{Digest, Sha256, Sha512};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter("tojson", tojson);
    environment.add_filter("toml", toml);
    environment.add_filter("quote", quote);
    environment.add_filter("to_json", tojson);
    environment.add_filter("to_yaml", to_yaml);
    environment.add_filter("b64encode", b64encode);
    environment.add_filter("b64decode", b64decode);
    environment.add_filter("regex_replace", regex_replace);
    environment.add_filter("combine", combine);
    environment.add_filter("hash", hash);
    environment.add_filter("ipaddr", ipaddr);
    let [basic, literal] = toml_strings::FILTERS;
    environment.add_filter(basic, toml_basic);
    environment.add_filter(literal, toml_strings::literal);
    environment.add_test("matching", |text: &str, pattern: &str| regex(pattern).map(|pattern| pattern.is_match(text)));
    environment.add_test("ipaddr", |text: &str| ipaddr(text, None).is_ok());
    environment.set_formatter(show);
}

/// Formats JSON on one line, or on several with this indentation per level.
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

/// Refuses undefined values, which would become `null`, and values that exceed the limits.
fn defined(value: &Value) -> Result<(), Error> {
    limits::deep(value)?;
    all_defined(value)
}

fn all_defined(value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined => Err(Error::new(ErrorKind::UndefinedError, "the value is undefined")),
        ValueKind::Seq => value.try_iter()?.try_for_each(|item| all_defined(&item)),
        ValueKind::Map => value.try_iter()?.try_for_each(|key| all_defined(&value.get_item(&key)?)),
        _ => Ok(()),
    }
}

fn bad(error: &serde_json::Error) -> Error {
    Error::new(ErrorKind::BadSerialization, error.to_string())
}

/// Formats a value in a template's output: strings unchanged, all others as JSON. The engine's default is Python
/// notation, which hardly any configuration file uses.
fn show(output: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Bool
        | ValueKind::None
        | ValueKind::Number
        | ValueKind::Seq
        | ValueKind::Map
        | ValueKind::Iterable => {
            let text = json(value)?;
            limits::count_printed(state, text.len())?;
            output.write_str(&text).map_err(|_| Error::from(ErrorKind::WriteFailure))
        }
        _ => {
            limits::count_printed(state, value.as_str().map_or(0, str::len))?;
            minijinja::escape_formatter(output, state, value)
        }
    }
}

/// Formats a value for TOML, as it follows `KEY =`.
fn toml(value: &Value) -> Result<Value, Error> {
    defined(value)?;
    match toml::Value::try_from(value) {
        Ok(value) => Ok(Value::from(value.to_string())),
        Err(error) => {
            Err(Error::new(ErrorKind::BadSerialization, format!("this cannot be represented in TOML: {error}")))
        }
    }
}

/// Escapes a value for a TOML string in double quotes. Undefined values remain, as they are errors later.
fn toml_basic(value: Value) -> Result<Value, Error> {
    Ok(match value.kind() {
        ValueKind::Undefined | ValueKind::Invalid => value,
        ValueKind::Bool | ValueKind::None | ValueKind::Number => value,
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => Value::from(toml_strings::basic(&json(&value)?)),
        _ => Value::from(toml_strings::basic(&value.to_string())),
    })
}

/// Quotes a value as a shell word, or a list as several.
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

fn invalid(problem: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem.to_string())
}

/// Formats YAML without a final newline.
fn to_yaml(value: &Value) -> Result<String, Error> {
    defined(value)?;
    let text =
        crate::document::to_yaml(value).map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    Ok(text.trim_end_matches('\n').to_owned())
}

fn b64encode(text: &str) -> String {
    BASE64.encode(text.as_bytes())
}

fn b64decode(text: &str) -> Result<String, Error> {
    let bytes = BASE64.decode(text.as_bytes()).map_err(|error| invalid(format!("this is not base 64: {error}")))?;
    String::from_utf8(bytes).map_err(|_| invalid("the decoded value is not text"))
}

fn regex(pattern: &str) -> Result<Regex, Error> {
    Regex::new(pattern).map_err(|error| {
        let error = error.to_string();
        let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        invalid(format!("{pattern:?} is not a valid pattern: {reason}"))
    })
}

/// Replaces all matches of a regular expression; `$1`, `${name}` and `\\1` refer to groups.
fn regex_replace(text: &str, pattern: &str, by: &str) -> Result<String, Error> {
    let pattern = regex(pattern)?;
    let mut groups = String::new();
    let mut letters = by.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some(digit)) if digit.is_ascii_digit() => {
                groups.push_str(&format!("${{{digit}}}"));
                letters.next();
            }
            _ => groups.push(letter),
        }
    }
    let mut result = String::new();
    let mut rest = 0;
    for found in pattern.captures_iter(text) {
        let Some(all) = found.get(0) else { continue };
        result.push_str(text.get(rest..all.start()).unwrap_or_default());
        found.expand(&groups, &mut result);
        limits::within(result.len())?;
        rest = all.end();
    }
    result.push_str(text.get(rest..).unwrap_or_default());
    Ok(result)
}

/// Merges tables; the last value of a key is used. With `recursive=true`, nested tables are merged too.
#[expect(clippy::needless_pass_by_value, reason = "the engine hands over what is named so")]
fn combine(value: &Value, others: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let recursive = named.get::<Option<bool>>("recursive")?.unwrap_or_default();
    named.assert_all_used()?;
    let mut result = table(value)?;
    for other in others.iter() {
        overlay(&mut result, table(other)?, recursive);
    }
    Ok(Value::from(Serde(serde_json::Value::Object(result))))
}

fn table(value: &Value) -> Result<serde_json::Map<String, serde_json::Value>, Error> {
    defined(value)?;
    match serde_json::to_value(value).map_err(|error| bad(&error))? {
        serde_json::Value::Object(table) => Ok(table),
        _ => Err(invalid("combine requires tables")),
    }
}

fn overlay(
    table: &mut serde_json::Map<String, serde_json::Value>,
    other: serde_json::Map<String, serde_json::Value>,
    recursive: bool,
) {
    for (key, value) in other {
        match (table.get_mut(&key), value) {
            (Some(serde_json::Value::Object(inner)), serde_json::Value::Object(other)) if recursive => {
                overlay(inner, other, true);
            }
            (_, value) => drop(table.insert(key, value)),
        }
    }
}

/// Returns the digest of a text in hexadecimal digits.
fn hash(text: &str, algorithm: Option<&str>) -> Result<String, Error> {
    let bytes = match algorithm.unwrap_or("sha256") {
        "sha256" => Sha256::digest(text.as_bytes()).to_vec(),
        "sha512" => Sha512::digest(text.as_bytes()).to_vec(),
        other => return Err(invalid(format!("hash supports sha256 and sha512, not {other:?}"))),
    };
    Ok(HEXLOWER.encode(&bytes))
}

/// Returns a part of an address such as `192.0.2.7/24`: its `address`, `prefix`, `network`, `netmask`, `broadcast` or
/// `version`. Without a name, returns the address unchanged if it is valid.
fn ipaddr(text: &str, part: Option<&str>) -> Result<Value, Error> {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let wrong = || invalid(format!("{text:?} is not an address"));
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let (bits, number) = match address {
        IpAddr::V4(address) => (32, u128::from(u32::from(address)) << 96),
        IpAddr::V6(address) => (128, u128::from(address)),
    };
    let length: u32 = prefix.map_or(Ok(bits), str::parse).map_err(|_| wrong())?;
    if length > bits {
        return Err(wrong());
    }
    // The network bits, from the most significant one; shifting by the full width would overflow.
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or_default();
    let shown = |number: u128| match address {
        IpAddr::V4(_) => Ipv4Addr::from(u32::try_from(number >> 96).unwrap_or_default()).to_string(),
        IpAddr::V6(_) => Ipv6Addr::from(number).to_string(),
    };
    Ok(match part {
        None => Value::from(text),
        Some("address") => Value::from(address.to_string()),
        Some("prefix") => Value::from(length),
        Some("network") => Value::from(shown(number & mask)),
        Some("netmask") => Value::from(shown(mask)),
        Some("broadcast") => Value::from(shown(number | !mask)),
        Some("version") => Value::from(if bits == 32 { 4 } else { 6 }),
        Some(other) => {
            let known = "address, prefix, network, netmask, broadcast and version";
            return Err(invalid(format!("ipaddr supports {known}, not {other:?}")));
        }
    })
}

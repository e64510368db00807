//! Formats, digests, regular expressions and the environment.

use super::{Arguments, Function, text, values};
use data_encoding::BASE64;
use gotmpl::{TemplateError, Value};
use regex::Regex;
use serde::Serialize;
use sha2::{Digest, Sha256};

type Result = std::result::Result<Value, TemplateError>;

const fn function(name: &'static str, call: fn(&Arguments<'_>) -> Result) -> Function {
    Function { name, call, warning: None }
}

pub(super) const ALL: &[Function] = &[
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
        text(pattern(a)?.replace_all(a.text(1)?, a.text(2)?))
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

//! Semantic versions.

use super::{Arguments, Function};
use gotmpl::{TemplateError, Value};
use semver::{Version, VersionReq};
use std::collections::BTreeMap;
use std::sync::Arc;

const fn function(name: &'static str, call: fn(&Arguments<'_>) -> Result) -> Function {
    Function { name, call, warning: None }
}

type Result = std::result::Result<Value, TemplateError>;

pub(super) const ALL: &[Function] = &[
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

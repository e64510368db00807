//! Constraints on data values from any layer: `[values]` of `hierarchy.toml`.

use super::Data;
use crate::key;
use crate::template::Templates;
use holo_definitions::LocatedError;
use serde::Deserialize;
use serde_json::Value;

/// A constraint as written in the file.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct ValueDocument {
    /// True if a missing value is an error.
    #[serde(default)]
    required: bool,
    /// An expression over `value` and `facts` that is true for valid values.
    validate: Option<String>,
    /// An environment variable that overrides all layers if it is set.
    env: Option<String>,
}

/// A constraint on a value.
#[derive(Debug)]
pub(super) struct Constraint {
    /// The key, as written.
    pub(super) key: String,
    pub(super) parts: Vec<String>,
    /// The line number of the constraint.
    line: Option<usize>,
    document: ValueDocument,
}

impl Constraint {
    /// Creates the constraint for a key on this line.
    ///
    /// # Errors
    /// If the key or the variable name is invalid.
    pub(super) fn new(
        key: String,
        document: ValueDocument,
        (place, line): (&str, Option<usize>),
    ) -> Result<Constraint, LocatedError> {
        let here = |text: String| LocatedError::new(place, format!("values: {text}")).at(line);
        let parts = key::parts(&key).map_err(|error| here(error.to_string()))?;
        let can_be = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        if let Some(name) = document.env.iter().find(|name| !can_be(name)) {
            return Err(here(format!("{}: env: {name:?} is not the name of a variable", key::shown(&key))));
        }
        Ok(Constraint { key, parts, line, document })
    }

    /// Returns the name and value of the variable; `None` if it is unset or empty.
    pub(super) fn variable(&self) -> Option<(&str, String)> {
        let name = self.document.env.as_deref()?;
        let text = std::env::var_os(name).filter(|text| !text.is_empty())?;
        Some((name, text.to_string_lossy().into_owned()))
    }

    /// Checks a value. An encrypted one is checked too if this machine can decrypt it. Errors are located in the
    /// hierarchy.
    ///
    /// # Errors
    /// If the value is missing or invalid, or the expression is invalid.
    pub(super) fn check(
        &self,
        data: &Data,
        templates: &Templates,
        place: &str,
        layers: &[String],
    ) -> Result<(), LocatedError> {
        let shown = key::shown(&self.key);
        let here = |text: String| LocatedError::new(place, text).at(self.line);
        let expression = self.document.validate.as_deref().map(|text| templates.expression(text)).transpose();
        let expression = expression.map_err(|error| here(format!("{shown}: validate: {error}")))?;
        let found = key::find(&data.sealed, &self.key).map_err(|error| here(error.to_string()))?;
        let Some(value) = found else {
            if !self.document.required {
                return Ok(());
            }
            let env = self.document.env.iter().map(|name| format!(", or the variable {name} in the environment"));
            let remedy = format!("set it in one of the layers {}{}", layers.join(", "), env.collect::<String>());
            return Err(here(format!("{shown} is required, and missing; {remedy}")));
        };
        let Some(expression) = expression else { return Ok(()) };
        let is_secret = super::secrets::has_any(value);
        // If this machine cannot decrypt the value, its use is an error.
        let Ok(opened) = data.open(&self.key, value) else { return Ok(()) };
        let reason = match expression.holds_for(&serde_json::json!({ "value": opened })) {
            Ok(true) => return Ok(()),
            Ok(false) => "it does not hold".to_owned(),
            // The error may contain a part of the value.
            Err(_) if is_secret => "it cannot be worked out for this value".to_owned(),
            Err(error) => error.text,
        };
        let shown_value = if is_secret { String::new() } else { format!(": {value}") };
        let origins = data.explain(Some(&self.key)).unwrap_or_default();
        let standing = origins.first().and_then(|origin| origin.from.first());
        let rule = format!("by `{}` in {}", expression.text(), at(place, self.line));
        let text = format!("{shown}{shown_value} is not valid {rule}: {reason}");
        let file = standing.map_or_else(|| place.to_owned(), |standing| standing.file.display().to_string());
        Err(LocatedError::new(file, text).at(standing.and_then(|standing| standing.line)))
    }
}

fn at(place: &str, line: Option<usize>) -> String {
    line.map_or_else(|| place.to_owned(), |line| format!("{place}:{line}"))
}

/// The reason why a variable is not a valid data value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum VariableError {
    #[error("this is not {0}, as the value that it replaces is; correct the variable, or unset it")]
    Type(&'static str),
    #[error("a part of this key is not a table in data, so no value can be added")]
    NoTable,
}

/// Converts the text of a variable to the type of the value that it replaces; a string by default.
///
/// # Errors
/// If the text does not have that type.
pub(super) fn of_type(text: String, replaced: Option<&Value>) -> Result<Value, VariableError> {
    let wanted = match replaced {
        None | Some(Value::String(_) | Value::Null) => return Ok(Value::String(text)),
        Some(Value::Bool(_)) => "true or false",
        Some(Value::Number(_)) => "a number",
        Some(Value::Array(_)) => "a list in JSON",
        Some(Value::Object(_)) => "a table in JSON",
    };
    let same = |value: &Value| replaced.is_some_and(|old| std::mem::discriminant(old) == std::mem::discriminant(value));
    serde_json::from_str(&text).ok().filter(same).ok_or(VariableError::Type(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_variable_has_the_type_of_what_it_replaces() {
        for (text, replaced, expected) in [
            ("017", None, Ok(json!("017"))),
            ("80", Some(json!("x")), Ok(json!("80"))),
            ("81", Some(json!(80)), Ok(json!(81))),
            ("1.5", Some(json!(80)), Ok(json!(1.5))),
            ("eighty", Some(json!(80)), Err("a number")),
            ("\"81\"", Some(json!(80)), Err("a number")),
            ("false", Some(json!(true)), Ok(json!(false))),
            ("no", Some(json!(true)), Err("true or false")),
            ("[\"a\"]", Some(json!([])), Ok(json!(["a"]))),
            ("a", Some(json!([])), Err("a list in JSON")),
            ("[]", Some(json!({})), Err("a table in JSON")),
        ] {
            let expected = expected.map_err(VariableError::Type);
            assert_eq!(of_type(text.to_owned(), replaced.as_ref()), expected, "{text} {replaced:?}");
        }
    }
}

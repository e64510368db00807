//! Formats values as TOML.

use crate::attribute::Values;
use holo_bridge::HIDDEN;
use serde_json::Value;

/// Formats the desired attributes that the provider reports as lines of TOML.
pub(crate) fn as_toml(values: &Values, names: &Values, hide: impl Fn(&str) -> bool) -> String {
    let lines = names.keys().filter_map(|name| {
        let value = values.get(name)?;
        let shown = if hide(name) { Value::from(HIDDEN) } else { value.clone() };
        Some(format!("{name} = {}\n", toml_value(&shown)))
    });
    lines.collect()
}

/// Formats a value as TOML. JSON values without an equivalent become strings.
pub(crate) fn toml_value(value: &Value) -> String {
    toml::Value::try_from(value)
        .map_or_else(|_| toml::Value::String(value.to_string()).to_string(), |value| value.to_string())
}

//! Records of resources, with which they can be restored. Their attributes are written as TOML.

use crate::attribute::Values;
use crate::compare::{ENSURE, is_gone};
use holo_bridge::HIDDEN;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The record of a changed resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// The type of the resource.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// The provider that has changed it.
    pub(crate) provider: String,
    pub(crate) name: String,
    /// All attributes reported before the first change.
    pub(crate) base: Values,
    /// All attributes that were ever defined, with their last applied values; null if they were not reported.
    pub(crate) left: Values,
    /// The names of attributes whose values are not shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sensitive: Vec<String>,
}

impl Record {
    /// Creates the record of a resource that was never changed.
    pub(crate) fn new(base: &Values) -> Record {
        Record { base: base.clone(), ..Record::default() }
    }

    /// Returns the attributes to restore. A resource that did not exist is removed, regardless of its defined
    /// attributes.
    pub(crate) fn to_restore(&self) -> impl Iterator<Item = (&str, &Value)> {
        let is_restored = |name: &str| self.left.contains_key(name) || (name == ENSURE && self.was_missing());
        self.base.iter().filter(move |(name, _)| is_restored(name)).map(|(name, value)| (name.as_str(), value))
    }

    /// Returns true if the resource did not exist before.
    pub(crate) fn was_missing(&self) -> bool {
        self.base.get(ENSURE).is_some_and(is_gone)
    }
}

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

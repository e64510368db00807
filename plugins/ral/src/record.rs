//! What is remembered of a resource, so that it can be put back.

use crate::attribute::Values;
use crate::compare::{ENSURE, is_gone};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A resource that was changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// The type of the resource.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// The provider that has changed it.
    pub(crate) provider: String,
    pub(crate) name: String,
    /// All that was reported before the first change.
    pub(crate) base: Values,
    /// The attributes that were ever defined, as they were left; null if they were not reported.
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

    /// Returns the attributes that become what they were. A resource that was not there goes, whatever of it was defined.
    pub(crate) fn to_restore(&self) -> impl Iterator<Item = (&str, &Value)> {
        let is_restored = |name: &str| self.left.contains_key(name) || (name == ENSURE && self.was_missing());
        self.base.iter().filter(move |(name, _)| is_restored(name)).map(|(name, value)| (name.as_str(), value))
    }

    /// Returns true if there was no such resource before.
    pub(crate) fn was_missing(&self) -> bool {
        self.base.get(ENSURE).is_some_and(is_gone)
    }
}

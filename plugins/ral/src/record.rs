//! What is remembered of a resource, so that it can be put back.

use crate::attribute::Values;
use serde::{Deserialize, Serialize};

/// A resource that was changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The attributes that were ever defined, as they were left.
    pub(crate) left: Values,
    /// The names of attributes whose values are not shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sensitive: Vec<String>,
}

//! The dependencies of an entity, and when it may be worked on.

use crate::{Text, is_false};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An entity's dependencies on others, and theirs on it, as its plugin declares them. Only what there is has a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Edges<'a> {
    /// The IDs of entities that it comes after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Text<'a>>,
    /// The IDs of entities that it comes before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Text<'a>>,
    /// The IDs of entities that have to be in their desired state first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Text<'a>>,
    /// The IDs of entities whose change refreshes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subscribes: Vec<Text<'a>>,
    /// The IDs of entities that its change refreshes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notifies: Vec<Text<'a>>,
    /// The assets that it provides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provides: Vec<Asset<'a>>,
    /// The assets that others have to provide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Asset<'a>>,
    /// The assets that it alone decides about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owns: Vec<Asset<'a>>,
    /// Paths where a change may mean drift.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<Text<'a>>,
    /// True if nothing defines it any more.
    #[serde(default, skip_serializing_if = "is_false")]
    pub orphan: bool,
}

/// When, and how often, an entity may be worked on, in the forms of scan reports.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Controls {
    /// True if it is only ever checked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub noop: bool,
    /// The interval at which a watch checks it, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<f64>,
    /// The number of repairs by a watch in a time, such as `3/10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// A name, and the number of entities of that name that may be worked on at a time, such as `db:2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semaphore: Option<String>,
    /// The times at which it may be changed, such as `hours=2-5 days=mon-fri`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
}

impl Edges<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Edges::default()
    }
}

/// Something that an entity provides, needs or owns.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Asset<'a> {
    /// Such as `path` or `user`.
    pub kind: Text<'a>,
    /// Such as `/etc/motd`.
    pub value: Text<'a>,
}

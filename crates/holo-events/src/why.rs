//! The line that explains an entity or path.

use crate::{Information, Text};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;

/// An entity, or an unmanaged path.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct WhyLine<'a> {
    /// True if an entity manages it.
    pub managed: bool,
    /// The ID of the entity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Text<'a>>,
    /// The ID of its plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Cow<'a, str>>,
    /// The path that it manages, or the requested path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Text<'a>>,
    /// The package that owns that path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<PackagedLine<'a>>,
    /// The resource files that define it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceLine<'a>>,
    /// The data that templates among these files read, by key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<DatumLine<'a>>,
    /// Additional information that its plugin shows to users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub information: Vec<Information<'a>>,
    /// The entities that come before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<NeighbourLine<'a>>,
    /// The entities that come after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<NeighbourLine<'a>>,
    /// The entity that provides the parent directory of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Text<'a>>,
    /// The ID of the run that last changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_by: Option<Cow<'a, str>>,
    /// The time of that change, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<String>,
    /// True if it was changed manually since it was last applied; missing if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<bool>,
}

/// A resource file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SourceLine<'a> {
    /// Its path.
    pub path: Text<'a>,
    /// The line number at which the definition starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The package that owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<PackagedLine<'a>>,
}

/// A data value that a template reads.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DatumLine<'a> {
    /// Its key.
    pub key: Cow<'a, str>,
    /// The file that contains it.
    pub file: Text<'a>,
    /// The line number, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

/// The package that owns a path.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PackagedLine<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// True if the file differs from the version in the package; missing if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<bool>,
}

/// An entity that comes before or after another one.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct NeighbourLine<'a> {
    /// Its ID.
    pub id: Text<'a>,
    /// The key that declares the edge, such as `REQUIRES`.
    pub key: Cow<'a, str>,
    /// The asset, if the edge results from one that either entity needs or owns: `path /etc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asset: Option<String>,
    /// The file that declares the edge, with a line number if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Text<'a>>,
}

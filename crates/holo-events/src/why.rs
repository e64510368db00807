//! The line about an entity, or a path, that says why it is so.

use super::{Information, Text};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// An entity, or a path that none manages.
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
    /// The path that it makes, or that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Text<'a>>,
    /// The package that owns that path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<PackagedLine<'a>>,
    /// The resource files that define it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceLine<'a>>,
    /// The data that templates among these files read, by their keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<DatumLine<'a>>,
    /// More lines that its plugin shows to people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub information: Vec<Information<'a>>,
    /// The entities that come before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<NeighbourLine<'a>>,
    /// The entities that come after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<NeighbourLine<'a>>,
    /// The entity that provides the directory which the path is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Text<'a>>,
    /// The ID of the run that changed it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_by: Option<Cow<'a, str>>,
    /// The time at which that was, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<String>,
    /// True if a person has changed it since it was applied last, if that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<bool>,
}

/// A resource file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SourceLine<'a> {
    /// Its path.
    pub path: Text<'a>,
    /// The line in which the definition begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The package that owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<PackagedLine<'a>>,
}

/// A value of data that a template reads.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DatumLine<'a> {
    /// Its key.
    pub key: Cow<'a, str>,
    /// The file that it stands in.
    pub file: Text<'a>,
    /// The line, if that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

/// The package that owns a path.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PackagedLine<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// True if the file differs from what the package brought, if that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<bool>,
}

/// An entity that comes before another one, or after it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct NeighbourLine<'a> {
    /// Its ID.
    pub id: Text<'a>,
    /// The key that says so, such as `REQUIRES`.
    pub key: Cow<'a, str>,
    /// The asset, if it is by something that one needs or owns: `path /etc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asset: Option<String>,
    /// The file that says so, with a line if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Text<'a>>,
}

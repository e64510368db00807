//! Sidecars: `[[overlay]]` tables with settings that resource files cannot express.

use holo_plugin::definitions::{Command, Definition, Invalid, values};
use serde::Deserialize;
use std::time::Duration;

/// The settings of an overlay.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct OverlayDefinition {
    /// The absolute path of the target.
    pub(crate) path: String,
    /// A program that validates the new content before it replaces the old one. `{}` stands for the path of a copy.
    pub(crate) validate: Option<Command>,
    /// Whether the content is secret. It is not shown in diffs.
    #[serde(default)]
    pub(crate) sensitive: bool,
}

impl Definition for OverlayDefinition {
    const TABLE: &'static str = "overlay";
    const ENTITY_TYPE: &'static str = "file";
    const KEY: &'static str = "path";

    fn doubts(&self) -> Vec<Invalid> {
        self.validate.iter().filter_map(|command| command.doubt("validate")).collect()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        Invalid::all([values::target("path", &self.path).map(drop)])
    }
}

/// The settings that determine how a target is written.
#[derive(Clone, Debug)]
pub(crate) struct Sidecar {
    pub(crate) validate: Option<Command>,
    pub(crate) sensitive: bool,
    /// The timeout of a program.
    pub(crate) timeout: Option<Duration>,
}

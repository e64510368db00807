//! Sidecars: tables `[[overlay]]`, which say of an overlay what its resource files cannot.

use holo_plugin::definitions::{Command, Definition, Invalid, values};
use serde::Deserialize;
use std::time::Duration;

/// The words about an overlay, whatever resource files it has.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct OverlayDefinition {
    /// The absolute path of the target.
    pub(crate) path: String,
    /// A program that has to find the new content well before it takes the place of the old; `{}` is the path of a copy of it.
    pub(crate) validate: Option<Command>,
    /// True if nobody may see the content: there is no difference to be shown.
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

/// The part of a sidecar that decides how its target is written.
#[derive(Clone, Debug)]
pub(crate) struct Sidecar {
    pub(crate) validate: Option<Command>,
    pub(crate) sensitive: bool,
    /// The time limit of a program.
    pub(crate) timeout: Option<Duration>,
}

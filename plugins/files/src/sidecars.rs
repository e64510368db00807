//! Sidecars: `[[overlay]]` tables with settings that resource files cannot express.

use crate::overlay::{FileEntity, scan};
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{Command, Defined, Definition, Definitions, Invalid, values};
use holo_plugin::{Host, Output, Silence};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Sidecars by the paths of their targets.
pub(crate) type Sidecars = BTreeMap<PathBuf, Defined<OverlayDefinition>>;

/// Indexes sidecars by path.
pub(crate) fn by_path(sidecars: Definitions<OverlayDefinition>) -> Sidecars {
    sidecars.valid.into_values().map(|defined| (PathBuf::from(&defined.definition.path), *defined)).collect()
}

/// Attaches its sidecar to an overlay. Orphans have none, because scrubbing does not depend on it.
pub(crate) fn attach(mut overlay: FileEntity, sidecars: &mut Sidecars) -> Declared<FileEntity> {
    let sidecar = if overlay.is_orphan() { None } else { sidecars.remove(&overlay.path) };
    let Some(Defined { definition, common }) = sidecar else { return Declared::orphan(overlay) };
    let OverlayDefinition { validate, sensitive, .. } = definition;
    let sidecar = Sidecar { validate, sensitive, timeout: common.keys.timeout };
    overlay.sidecar = Some(Arc::new(sidecar));
    Declared::new(overlay, common)
}

/// Reports sidecars of paths without an overlay. `declared` contains the locations of declarations by entity ID. Skipped sidecars are
/// ignored.
pub(crate) fn refuse_idle(
    sidecars: &Sidecars,
    declared: &BTreeMap<String, String>,
    host: &Host,
    output: &mut Output<'_>,
) {
    for (path, Defined { common, .. }) in sidecars.iter().filter(|(_, defined)| defined.common.skipped.is_none()) {
        let id = format!("file:{}", path.display());
        let found = scan::one(host, id.as_str().into(), &mut Output::new(&mut Silence)).ok().flatten();
        if found.is_some_and(|overlay| !overlay.is_orphan()) {
            continue;
        }
        let reason = match declared.get(&id) {
            Some(location) => format!("this path is declared in {location}; write these keys there"),
            None => {
                let directory = host.resources().weakest().display();
                format!("this path has no overlay; its resource file would be {directory}/10-NAME{}", path.display())
            }
        };
        output.error(format!("{}: {id}: {reason}", common.location));
    }
}

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

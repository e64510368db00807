//! Sidecars: `[[overlay]]` tables with settings that resource files cannot express.

use crate::overlay::entity::{OverlayDefinition, Sidecar};
use crate::overlay::{FileEntity, scan};
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{Defined, Definitions};
use holo_plugin::{Host, Output, Silence};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

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

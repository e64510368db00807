//! Declared files: what TOML files in the resource directory say of files, directories and symlinks.

mod definition;
mod entity;
mod wanted;
mod workshop;

pub(crate) use definition::FileDefinition;
pub(crate) use entity::DeclaredFile;
pub(crate) use workshop::{apply, tidy};

use crate::overlay::{FileEntity, PREFIX};
use bstr::ByteSlice;
use holo_plugin::declared::Declared;
use holo_plugin::definitions::Definitions;
use holo_plugin::memory::Remembered;
use holo_plugin::tracked::{State, Tracks};
use holo_plugin::{Host, Output};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is declared, and what was.
pub(crate) struct Found {
    definitions: Definitions<FileDefinition>,
    orphans: Vec<Remembered<Tracks>>,
}

/// Declared files, and those that a path with an overlay was before.
pub(crate) type Files = (Vec<Declared<DeclaredFile>>, BTreeMap<PathBuf, DeclaredFile>);

impl Found {
    pub(crate) fn read(host: &Host, output: &mut Output<'_>) -> Found {
        let definitions = Definitions::read(host, output);
        let orphans = orphans(host, &definitions, output);
        Found { definitions, orphans }
    }

    /// Whether there is nothing, as on a machine that has overlays alone.
    pub(crate) fn is_empty(&self) -> bool {
        self.definitions.valid.is_empty() && self.orphans.is_empty()
    }

    /// The entities, given those that have an overlay. Where a path has been both, what is wanted now takes the other one with it: an
    /// overlay that nothing lays over any more goes before the declared file comes, and the other way round.
    pub(crate) fn into_entities(
        self,
        overlays: &mut BTreeMap<PathBuf, FileEntity>,
        host: &Host,
        output: &mut Output<'_>,
    ) -> Files {
        let (mut declared, mut leaving) = (Vec::new(), BTreeMap::new());
        for (id, defined) in self.definitions.valid {
            let path = defined.definition.path().to_owned();
            if overlays.get(&path).is_some_and(|overlay| !overlay.is_orphan()) {
                let place = &defined.common.place;
                output.error(format!("{place}: {id} has resource files too, which win; one of both has to go"));
                continue;
            }
            let overlay = overlays.remove(&path);
            let entity = DeclaredFile { path, definition: Some(defined.definition), overlay, orphan: None };
            declared.push(Declared::new(entity, defined.common));
        }
        for remembered in self.orphans {
            let Some(path) = remembered.id.as_bytes().strip_prefix(PREFIX) else { continue };
            let path = path.to_path_lossy().into_owned();
            let mut report = remembered.orphan_report();
            let was_absent = remembered.base.get(&path).is_some_and(|track| track.base == State::Absent);
            report.inform(if was_absent { "delete" } else { "restore" }, host.below_root(&path).display().to_string());
            let entity = DeclaredFile { path: path.clone(), definition: None, overlay: None, orphan: Some(report) };
            if overlays.contains_key(&path) {
                leaving.insert(path, entity);
            } else {
                declared.push(Declared::orphan(entity));
            }
        }
        (declared, leaving)
    }
}

fn orphans(host: &Host, definitions: &Definitions<FileDefinition>, output: &mut Output<'_>) -> Vec<Remembered<Tracks>> {
    match workshop::memory(host) {
        Ok(memory) => memory.orphans(definitions, output),
        Err(error) => {
            output.error(error.to_string());
            Vec::new()
        }
    }
}

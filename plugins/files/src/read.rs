//! Reads all definitions of a run, and creates the entities.

use crate::declared::{self, Contradicted};
use crate::edits::{self, EditTables, Neighbour};
use crate::known_files::{Paths, ScannedFiles};
use crate::managed::ManagedFile;
use crate::overlay::{FileEntity, OverlayDefinition, Resource};
use crate::sidecars;
use bstr::ByteSlice;
use holo_plugin::definitions::{self, Definitions};
use holo_plugin::{Entity, Host, Output, ScanError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The definitions of all types, and the records of earlier ones.
pub(crate) struct Read {
    pub(crate) declared: declared::DeclaredScan,
    overlays: Definitions<OverlayDefinition>,
    pub(crate) edits: edits::Found,
}

impl Read {
    /// Reads the definition files. Prints errors.
    pub(crate) fn new(host: &Host, known: &ScannedFiles<'_>, output: &mut Output<'_>) -> Result<Read, ScanError> {
        let (declared, (overlays, edits)): (_, (_, EditTables)) =
            definitions::read_some_of_several(host, known, output);
        let declared = declared::DeclaredScan::new(declared, host, output)?;
        Ok(Read { declared, overlays, edits: edits::Found::new(edits, host, output)? })
    }

    /// Creates the entities of overlays with their sidecars, of declared files, and of edits.
    pub(crate) fn into_entities(
        self,
        host: &Host,
        overlays: Vec<FileEntity>,
        output: &mut Output<'_>,
    ) -> Vec<ManagedFile> {
        let Read { declared, overlays: defined, edits } = self;
        let files = with_declared(host, (declared, defined), overlays, output);
        if edits.is_empty() { files } else { with_edits(host, edits, files, output) }
    }
}

fn with_declared(
    host: &Host,
    (found, defined): (declared::DeclaredScan, Definitions<OverlayDefinition>),
    mut overlays: Vec<FileEntity>,
    output: &mut Output<'_>,
) -> Vec<ManagedFile> {
    // An overlay with an invalid sidecar is not applied, as that would ignore its settings. The error has been reported.
    let is_broken = |overlay: &FileEntity| defined.is_broken(&overlay.id().to_str_lossy());
    overlays.retain(|overlay| overlay.is_orphan() || !is_broken(overlay));
    let mut sidecars = sidecars::by_path(defined);
    if !sidecars.is_empty() {
        sidecars::refuse_idle(&sidecars, &found.locations(), host, output);
    }
    if found.is_empty() {
        return overlays.into_iter().map(|overlay| ManagedFile::laid(overlay, &mut sidecars)).collect();
    }
    let mut by_path: BTreeMap<PathBuf, FileEntity> =
        overlays.into_iter().map(|entity| (entity.path.clone(), entity)).collect();
    let mut entities = found.into_entities(&mut by_path, host, output);
    let overlay = |(path, entity): (PathBuf, FileEntity)| match entities.leaving.remove(&path) {
        Some(declared) => {
            ManagedFile::OverlayAfter(Box::new(declared), Box::new(sidecars::attach(entity, &mut sidecars)))
        }
        None => ManagedFile::laid(entity, &mut sidecars),
    };
    let mut files: Vec<ManagedFile> = by_path.into_iter().map(overlay).collect();
    files.extend(entities.declared.into_iter().map(ManagedFile::Declared));
    files.extend(entities.contradicted.into_iter().map(|entity| ManagedFile::Contradicted(Box::new(entity))));
    files
}

/// Adds the edits. A file that is declared or has resource files cannot be edited; in case of a conflict, neither is applied.
fn with_edits(host: &Host, found: edits::Found, files: Vec<ManagedFile>, output: &mut Output<'_>) -> Vec<ManagedFile> {
    let paths = Paths::new(host);
    let canonical = |file: &ManagedFile| file.path().map(|path| paths.canonical(path));
    let mut neighbours: BTreeMap<PathBuf, Vec<Neighbour>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.is_left_out()) {
        let Some(path) = canonical(file) else { continue };
        let report = file.report();
        let sources: Vec<String> = report.sources.iter().map(ToString::to_string).collect();
        let id = report.id.to_string();
        let shown = if sources.is_empty() { id.clone() } else { format!("{id} ({})", sources.join(", ")) };
        let makes_file = file.makes_file(host);
        neighbours.entry(path).or_default().push(Neighbour { id, is_orphan: file.is_orphan(), makes_file, shown });
    }
    let mut refused: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut edits = Vec::new();
    let mut said = BTreeSet::new();
    for found in found.into_entities(&neighbours, host) {
        let edits::FoundEdit { edit, path, problem } = found;
        let Some(reason) = problem else {
            edits.push(ManagedFile::Edit(Box::new(edit)));
            continue;
        };
        if said.insert(reason.clone()) {
            output.error(&reason);
        }
        edits.push(ManagedFile::refused(edit.report(), reason.clone()));
        refused.entry(path).or_insert(reason);
    }
    let refuse = |file: ManagedFile| match canonical(&file).and_then(|path| refused.get(&path)) {
        Some(reason) if !file.is_left_out() && !file.is_orphan() => ManagedFile::refused(file.report(), reason.clone()),
        _ => file,
    };
    files.into_iter().map(refuse).chain(edits).collect()
}

impl ManagedFile {
    /// Returns true if its path becomes a regular file, unless it is an orphan.
    fn makes_file(&self, host: &Host) -> bool {
        let overlay = |overlay: &FileEntity| {
            let is_link = |last: &Resource| {
                let directory = host.resources().iter().nth(last.directory);
                last.is_plain() && directory.is_some_and(|directory| directory.join(&last.path).is_symlink())
            };
            overlay.resources.last().is_some_and(|last| !is_link(last))
        };
        match self {
            ManagedFile::Overlay(entity) => overlay(entity),
            ManagedFile::WithSidecar(entity) | ManagedFile::OverlayAfter(_, entity) => overlay(&entity.entity),
            ManagedFile::Declared(entity) => entity.entity.is_declared_as_file(),
            ManagedFile::Edit(_) | ManagedFile::Contradicted(_) => false,
        }
    }

    /// Creates an entity that is left alone, for a reason that has been reported.
    fn refused(mut report: holo_plugin::EntityReport, reason: String) -> ManagedFile {
        report.edges.owns.clear();
        ManagedFile::Contradicted(Box::new(Contradicted { report, reason }))
    }
}

#[cfg(test)]
mod tests {
    use crate::declared::FileDefinition;
    use crate::edits::{BlockDefinition, IniDefinition, LineDefinition};
    use crate::overlay::OverlayDefinition;
    use holo_plugin::definitions::{Definition, file_schema, table_schema};

    #[test]
    fn schema_is_up_to_date() {
        let tables = vec![
            (FileDefinition::TABLE, table_schema::<FileDefinition>()),
            (OverlayDefinition::TABLE, table_schema::<OverlayDefinition>()),
            (LineDefinition::TABLE, table_schema::<LineDefinition>()),
            (BlockDefinition::TABLE, table_schema::<BlockDefinition>()),
            (IniDefinition::TABLE, table_schema::<IniDefinition>()),
        ];
        let schema = file_schema("Definition files of holo-files", tables);
        holo_testing::schema_is_kept("holo-files.schema.json", &schema);
    }
}

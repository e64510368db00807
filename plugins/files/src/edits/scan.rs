//! Finding edits: those that are defined, and those that were.

use super::EditDefinition;
use super::definition::{BlockDefinition, IniDefinition, LineDefinition};
use super::entity::{EditEntity, Run};
use super::inspection::Inspection;
use super::record::FileRecord;
use holo_change::claims::Layers;
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{Common, Defined, Definitions, Location};
use holo_plugin::{EntityReport, Host, Output};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The definitions of all types of edits.
pub(crate) type EditTables =
    (Definitions<LineDefinition>, (Definitions<BlockDefinition>, (Definitions<IniDefinition>, ())));

/// The edits, and what is known of earlier ones.
pub(crate) struct Found {
    defined: BTreeMap<String, Defined<EditDefinition>>,
    /// Those that nothing defines any more, and the file of each.
    orphans: Vec<(EntityReport, PathBuf)>,
    /// The files in which edits are made.
    made_in: BTreeMap<String, PathBuf>,
    secret: BTreeSet<PathBuf>,
    in_place: BTreeSet<PathBuf>,
    /// The files with edits that are still defined, be that in a broken definition or with a condition that leaves them out.
    kept: Layers,
}

/// Another entity that is about the same file.
pub(crate) struct Neighbour {
    pub(crate) id: String,
    /// True if nothing defines it any more.
    pub(crate) is_orphan: bool,
    /// The entity with the files that define it.
    pub(crate) shown: String,
}

/// An edit beside the reason why it cannot be made, if there is one.
pub(crate) struct FoundEdit {
    pub(crate) edit: Declared<EditEntity>,
    /// The path of the file, without symlinks.
    pub(crate) path: PathBuf,
    pub(crate) problem: Option<String>,
}

impl Found {
    pub(crate) fn new(tables: EditTables, host: &Host, output: &mut Output<'_>) -> Found {
        let records = match super::record::Records::open(host).and_then(|records| records.all(output)) {
            Ok(records) => records,
            Err(error) => {
                output.error(error.to_string());
                Vec::new()
            }
        };
        let (lines, (blocks, (inis, ()))) = tables;
        let is_orphan = |id: &str| lines.is_orphan(id) && blocks.is_orphan(id) && inis.is_orphan(id);
        let (mut orphans, mut made_in, mut kept) = (Vec::new(), BTreeMap::new(), Layers::new());
        for record in &records {
            for report in record.reports() {
                let id = report.id.to_string();
                made_in.insert(id.clone(), record.path());
                if is_orphan(&id) {
                    orphans.push((report, record.path()));
                } else {
                    kept.insert(record.path(), Some(id));
                }
            }
        }
        let secret = records.iter().filter(|record| record.is_sensitive()).map(FileRecord::path).collect();
        let in_place = records.iter().filter(|record| record.is_in_place()).map(FileRecord::path).collect();
        let defined = as_edits(lines, EditDefinition::Line)
            .chain(as_edits(blocks, EditDefinition::Block))
            .chain(as_edits(inis, EditDefinition::Ini));
        Found { defined: defined.collect(), orphans, made_in, secret, in_place, kept }
    }

    /// Returns the files in which an edit is made that is still defined.
    pub(crate) fn kept(&self) -> Layers {
        self.kept.clone()
    }

    /// Returns true if there are none, as on a machine that has other files alone.
    pub(crate) fn is_empty(&self) -> bool {
        self.defined.is_empty() && self.orphans.is_empty()
    }

    /// The entities, given what else there is by path. A file that is made as a whole, or has resource files, is not edited.
    pub(crate) fn into_entities(self, neighbours: &BTreeMap<PathBuf, Vec<Neighbour>>, host: &Host) -> Vec<FoundEdit> {
        let inspection = Inspection::open(host).ok();
        let canonical = |path: &Path| {
            let found = inspection.as_ref().and_then(|inspection| inspection.canonical(path).ok());
            found.unwrap_or_else(|| path.to_owned())
        };
        let locations: BTreeMap<String, Location> =
            self.defined.iter().map(|(id, defined)| (id.clone(), defined.common.location.clone())).collect();
        let run = Arc::new(Run::new(locations));
        let (mut secret, mut in_place) = (self.secret, self.in_place);
        let mut defined = Vec::new();
        for (id, edit) in self.defined {
            let path = canonical(edit.definition.path());
            if edit.definition.shared().sensitive {
                secret.insert(path.clone());
            }
            if edit.definition.shared().in_place {
                in_place.insert(path.clone());
            }
            defined.push((id, path, edit));
        }
        let mut edits = Vec::new();
        for (id, path, Defined { definition, common }) in &defined {
            let around = neighbours.get(path).map(Vec::as_slice).unwrap_or_default();
            let living = around.iter().find(|other| !other.is_orphan && common.skipped.is_none());
            let shown = || shown(id, common);
            let problem = living.map(|other| {
                format!("{} edits the file that {} is about; one of both has to go", shown(), other.shown)
            });
            let gone = around.iter().filter(|other| other.is_orphan).map(|other| other.id.clone());
            let of_file =
                self.orphans.iter().filter(|(_, other)| other == path).map(|(report, _)| report.id.to_string());
            let entity = EditEntity {
                id: id.clone(),
                path: definition.path().to_owned(),
                file: path.clone(),
                definition: Some(definition.clone()),
                timeout: common.keys.timeout,
                made_in: self.made_in.get(id).cloned(),
                orphans: gone.chain(of_file).collect(),
                report: None,
                sensitive: secret.contains(path),
                in_place: in_place.contains(path),
                run: Arc::clone(&run),
            };
            edits.push(FoundEdit { edit: Declared::new(entity, common.clone()), path: path.clone(), problem });
        }
        for (mut report, path) in self.orphans {
            let around = neighbours.get(&path).into_iter().flatten().filter(|other| !other.is_orphan);
            let others = defined.iter().filter(|(_, other, _)| *other == path).map(|(id, ..)| id);
            report.edges.before.extend(around.map(|other| &other.id).chain(others).map(|id| id.as_str().into()));
            report.inform("take back in", host.below_root(&path).display().to_string());
            let entity = EditEntity {
                id: report.id.to_string(),
                definition: None,
                timeout: None,
                made_in: Some(path.clone()),
                orphans: Vec::new(),
                report: Some(report),
                sensitive: secret.contains(&path),
                in_place: in_place.contains(&path),
                run: Arc::clone(&run),
                path: path.clone(),
                file: path.clone(),
            };
            edits.push(FoundEdit { edit: Declared::orphan(entity), path, problem: None });
        }
        edits
    }
}

/// The entity with the files that define it.
pub(crate) fn shown(id: &str, common: &Common) -> String {
    let sources: Vec<String> = common.sources.iter().map(|source| source.display().to_string()).collect();
    if sources.is_empty() { id.to_owned() } else { format!("{id} ({})", sources.join(", ")) }
}

fn as_edits<D>(
    definitions: Definitions<D>,
    edit: fn(D) -> EditDefinition,
) -> impl Iterator<Item = (String, Defined<EditDefinition>)> {
    definitions
        .valid
        .into_iter()
        .map(move |(id, defined)| (id, Defined { definition: edit(defined.definition), common: defined.common }))
}

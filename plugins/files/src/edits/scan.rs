//! The scan for edits: defined ones and orphans.

use super::definition::{BlockDefinition, IniDefinition, LineDefinition};
use super::inspection::Inspection;
use super::record::FileRecord;
use super::{EditDefinition, EditEntity, Run};
use crate::known_files::Paths;
use holo_change::claims::Layers;
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{Common, Defined, Definitions, Location};
use holo_plugin::{EntityReport, Host, Output, ScanError};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The definitions of all types of edits.
pub(crate) type EditTables =
    (Definitions<LineDefinition>, (Definitions<BlockDefinition>, (Definitions<IniDefinition>, ())));

/// The definitions of edits, and data from the records.
pub(crate) struct Found {
    defined: BTreeMap<String, Defined<EditDefinition>>,
    /// The orphans, and the file of each.
    orphans: Vec<(EntityReport, PathBuf)>,
    /// The file that contains each recorded edit.
    made_in: BTreeMap<String, PathBuf>,
    secret: BTreeSet<PathBuf>,
    in_place: BTreeSet<PathBuf>,
    /// The files with recorded edits that are still defined, even if the definition is broken or a condition skips them.
    kept: Layers,
}

/// Another entity with the same file.
pub(crate) struct Neighbour {
    pub(crate) id: String,
    /// Whether it is an orphan.
    pub(crate) is_orphan: bool,
    /// Whether it makes its path a regular file, so that an edit of a symlink there would be one of that file.
    pub(crate) makes_file: bool,
    /// The entity with the files that define it.
    pub(crate) shown: String,
}

/// An edit, and the reason why it cannot be applied, if any.
pub(crate) struct FoundEdit {
    pub(crate) edit: Declared<EditEntity>,
    /// The path of the file without symlinks, or of the symlink that another entity replaces.
    pub(crate) path: PathBuf,
    pub(crate) problem: Option<String>,
}

impl Found {
    pub(crate) fn new(tables: EditTables, host: &Host, output: &mut Output<'_>) -> Result<Found, ScanError> {
        let records = super::record::Records::open(host).all(output).map_err(|error| {
            output.error(error.to_string());
            ScanError
        })?;
        let (lines, (blocks, (inis, ()))) = tables;
        let is_orphan = |id: &str| lines.is_orphan(id) && blocks.is_orphan(id) && inis.is_orphan(id);
        let (mut orphans, mut made_in, mut kept) = (Vec::new(), BTreeMap::new(), Layers::new());
        for record in &records {
            let path = record.path();
            for edit in record.edits() {
                made_in.insert(edit.id().to_owned(), path.clone());
                if is_orphan(edit.id()) {
                    orphans.push((edit.report(), path.clone()));
                } else if !kept.contains_key(&path) {
                    kept.insert(path.clone(), Some(edit.id().to_owned()));
                }
            }
        }
        let secret = records.iter().filter(|record| record.is_sensitive()).map(FileRecord::path).collect();
        let in_place = records.iter().filter(|record| record.is_in_place()).map(FileRecord::path).collect();
        let defined = as_edits(lines, EditDefinition::Line)
            .chain(as_edits(blocks, EditDefinition::Block))
            .chain(as_edits(inis, EditDefinition::Ini));
        Ok(Found { defined: defined.collect(), orphans, made_in, secret, in_place, kept })
    }

    /// Returns the files with recorded edits that are still defined.
    pub(crate) fn kept(&self) -> Layers {
        self.kept.clone()
    }

    /// Returns true if there are no edits.
    pub(crate) fn is_empty(&self) -> bool {
        self.defined.is_empty() && self.orphans.is_empty()
    }

    /// Returns the entities, given the other entities by path. A file that is declared or has resource files cannot be edited.
    pub(crate) fn into_entities(self, neighbours: &BTreeMap<PathBuf, Vec<Neighbour>>, host: &Host) -> Vec<FoundEdit> {
        let inspection = Inspection::open(host).ok();
        let entries = Paths::new(host);
        // Resolve each path once, because most edits are in few files.
        let mut paths: HashMap<PathBuf, PathBuf> = HashMap::new();
        let mut canonical = |path: &Path| {
            if let Some(found) = paths.get(path) {
                return found.clone();
            }
            let found = inspection.as_ref().and_then(|inspection| inspection.canonical(path).ok());
            paths.entry(path.to_owned()).or_insert_with(|| found.unwrap_or_else(|| path.to_owned())).clone()
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
        let mut orphans: HashMap<PathBuf, Vec<String>> = HashMap::new();
        for (report, path) in &self.orphans {
            orphans.entry(path.clone()).or_default().push(report.id.to_string());
        }
        let mut files: HashMap<PathBuf, File> = HashMap::new();
        let mut edits = Vec::new();
        for (id, path, Defined { definition, common }) in defined {
            let around = neighbours.get(&path).map(Vec::as_slice).unwrap_or_default();
            let entry = entries.canonical(definition.path());
            let replacing = || {
                let others = neighbours.get(&entry).filter(|_| entry != path).into_iter().flatten();
                Some((others.filter(|other| other.makes_file).find(|other| !other.is_orphan)?, entry.clone()))
            };
            let living = around.iter().find(|other| !other.is_orphan).map(|other| (other, path.clone()));
            let living = living.or_else(replacing).filter(|_| common.skipped.is_none());
            let disputed = living.as_ref().map_or_else(|| path.clone(), |(_, disputed)| disputed.clone());
            let problem = living.map(|(other, _)| other).map(|other| {
                let shown = shown(&id, &common);
                format!("{shown} edits the file that {} is about; one of both has to go", other.shown)
            });
            let file = files.entry(path.clone()).or_insert_with(|| {
                let gone: Vec<String> =
                    around.iter().filter(|other| other.is_orphan).map(|other| other.id.clone()).collect();
                let orphans = orphans.get(&path).map(Vec::as_slice).unwrap_or_default();
                File {
                    orphans: gone.iter().chain(orphans).cloned().collect(),
                    after: gone.iter().chain(orphans.last()).cloned().collect(),
                    sensitive: secret.contains(&path),
                    in_place: in_place.contains(&path),
                }
            });
            let entity = EditEntity {
                path: definition.path().to_owned(),
                entry,
                file: path.clone(),
                definition: Some(definition),
                timeout: common.keys.timeout,
                made_in: self.made_in.get(&id).cloned(),
                orphans: Arc::clone(&file.orphans),
                after: file.after.clone(),
                report: None,
                sensitive: file.sensitive,
                in_place: file.in_place,
                run: Arc::clone(&run),
                fingerprint: OnceLock::new(),
                id,
            };
            edits.push(FoundEdit { edit: Declared::new(entity, common), path: disputed, problem });
        }
        for (mut report, path) in self.orphans {
            let around = neighbours.get(&path).into_iter().flatten().filter(|other| !other.is_orphan);
            report.edges.before.extend(around.map(|other| other.id.as_str().into()));
            // Edges between all orphans and all defined edits would take quadratic time. So the defined ones come after the last orphan only, and
            // that one after all others, because an edge between orphans is reversed.
            if let Some((last, others)) = orphans.get(&path).and_then(|orphans| orphans.split_last())
                && report.id == *last
            {
                report.edges.before.extend(others.iter().map(|id| id.as_str().into()));
            }
            report.inform("take back in", host.below_root(&path).display().to_string());
            let entity = EditEntity {
                id: report.id.to_string(),
                definition: None,
                timeout: None,
                made_in: Some(path.clone()),
                orphans: Arc::default(),
                after: Vec::new(),
                report: Some(report),
                sensitive: secret.contains(&path),
                in_place: in_place.contains(&path),
                run: Arc::clone(&run),
                fingerprint: OnceLock::new(),
                path: path.clone(),
                entry: path.clone(),
                file: path.clone(),
            };
            edits.push(FoundEdit { edit: Declared::orphan(entity), path, problem: None });
        }
        edits
    }
}

/// The properties that all edits of a file share.
struct File {
    orphans: Arc<[String]>,
    after: Vec<String>,
    sensitive: bool,
    in_place: bool,
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

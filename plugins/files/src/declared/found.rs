//! The declared files of a scan and their entities.

use super::declaration::{Declaration, find_contradictions, nested_absences, publish};
use super::entity::{ACCESS, Nesting};
use super::{FileDefinition, access};
use crate::declared::entity::DeclaredFile;
use crate::known_files::Paths;
use crate::overlay::{FileEntity, PREFIX};
use bstr::ByteSlice;
use holo_change::base_store::Remembered;
use holo_change::claims::Claim;
use holo_change::tracked::{State, Tracker, Tracks};
use holo_plugin::declared::Declared;
use holo_plugin::definitions::Definitions;
use holo_plugin::index::Table;
use holo_plugin::{Entity, EntityReport, Host, Output, ScanError};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

/// The declarations and records of a scan.
pub(crate) struct DeclaredScan {
    definitions: Definitions<FileDefinition>,
    records: BTreeMap<String, Remembered<Tracks>>,
}

/// A file with two conflicting declarations, which is left alone.
pub(crate) struct Contradicted {
    pub(crate) report: EntityReport,
    /// The message that names both.
    pub(crate) reason: String,
}

/// Managed files that are declared, were declared, or conflict with a declared file.
#[derive(Default)]
pub(crate) struct Files {
    #[expect(clippy::vec_box, reason = "they are large, stay where they are from here on, and there may be very many")]
    pub(crate) declared: Vec<Box<Declared<DeclaredFile>>>,
    /// Formerly declared files that have an overlay now.
    pub(crate) leaving: BTreeMap<PathBuf, DeclaredFile>,
    pub(crate) contradicted: Vec<Contradicted>,
}

/// Returns the claim of an entity whose definition is invalid. Its file is left alone by others, too.
fn claim_of(id: &str, paths: &Paths, host: &Host) -> Option<Claim> {
    let path = paths.canonical(&id.as_bytes().strip_prefix(PREFIX)?.to_path_lossy());
    let mut claim = Claim::new(id, &path, &[]);
    claim.is_directory = host.below_root(&path).is_dir();
    Some(claim)
}

impl DeclaredScan {
    /// Reads the records of all declared files; in a limited scan, only those of orphans.
    pub(crate) fn new(
        definitions: Definitions<FileDefinition>,
        host: &Host,
        output: &mut Output<'_>,
    ) -> Result<DeclaredScan, ScanError> {
        let store = Tracker::records(host.locations());
        let read = match definitions.is_whole() {
            true => store.all(output),
            false => store.ids().and_then(|ids| {
                let orphans = ids.into_iter().filter(|id| !definitions.is_defined(id));
                let orphans = orphans.map(|id| Ok(store.recall(&id)?.map(|record| (id, record))));
                orphans.filter_map(Result::transpose).collect()
            }),
        };
        // Without its record, a managed file would be taken for an original one.
        let records = read.map_err(|error| {
            output.error(error.to_string());
            ScanError
        })?;
        Ok(DeclaredScan { definitions, records })
    }

    /// Returns the locations of declarations by entity ID.
    pub(crate) fn locations(&self) -> BTreeMap<String, String> {
        let defined = self.definitions.valid.iter();
        defined.map(|(id, defined)| (id.clone(), defined.common.location.to_string())).collect()
    }

    /// Returns true if there are neither declarations nor records of them.
    pub(crate) fn is_empty(&self) -> bool {
        self.definitions.valid.is_empty() && self.definitions.is_whole() && self.records.is_empty()
    }

    /// Creates the entities, given those that have an overlay. If a path changes between overlay and declaration, its new entity also
    /// removes the former one: an orphaned overlay is scrubbed before the declared file is provisioned, and vice versa. If a path has both,
    /// it is left alone.
    pub(crate) fn into_entities(
        self,
        overlays: &mut BTreeMap<PathBuf, FileEntity>,
        host: &Host,
        output: &mut Output<'_>,
    ) -> Files {
        let mut files = Files::default();
        let is_whole = self.definitions.is_whole();
        let paths = Paths::new(host);
        let overlaid: HashMap<PathBuf, PathBuf> =
            overlays.keys().map(|path| (paths.canonical(path), path.clone())).collect();
        let orphans: Vec<&Remembered<Tracks>> =
            self.records.values().filter(|record| self.definitions.is_orphan(&record.id)).collect();
        // Its base would be the declared file.
        let is_invalid = |id: &str| {
            let is_kept = self.records.contains_key(id) && !self.definitions.is_orphan(id);
            self.definitions.is_broken(id) || (is_kept && !self.definitions.is_defined(id))
        };
        let living = overlays.iter().filter(|(_, overlay)| !overlay.is_orphan());
        let over_invalid = living.filter(|(_, overlay)| is_invalid(&overlay.id().to_str_lossy()));
        let invalid: Vec<(PathBuf, String)> = over_invalid
            .map(|(path, overlay)| {
                let problem = format!(
                    "{} has resource files ({}), and was declared in a definition that is invalid; remove or correct it",
                    overlay.id(),
                    overlay.shown_resources()
                );
                (path.clone(), problem)
            })
            .collect();
        let unusable: Vec<Claim> = self
            .definitions
            .unusable(self.records.keys())
            .into_iter()
            .filter_map(|id| claim_of(id, &paths, host))
            .collect();
        let mut declarations = Table::new();
        for (id, defined) in self.definitions.valid {
            let path = defined.definition.path().to_owned();
            let (canonical, symlinks) = (paths.canonical(&path), paths.symlinks(&path));
            declarations.push(Declaration { id, canonical, symlinks, path, defined, problem: None });
        }
        find_contradictions(&mut declarations, host);
        let records = is_whole.then_some(&self.records);
        publish((&declarations, unusable), &orphans, records, host, output);
        let mut nested = nested_absences(&declarations);
        let (mut contradicted, mut said) = (BTreeSet::new(), BTreeSet::new());
        for mut declaration in declarations {
            let overlay_path = overlaid.get(&declaration.canonical);
            if let Some(overlay) = overlay_path.and_then(|path| overlays.get(path))
                && !overlay.is_orphan()
                && declaration.is_effective()
            {
                let shown = declaration.claim().shown();
                let resources = overlay.shown_resources();
                let problem =
                    format!("{shown} is declared and has resource files too ({resources}); one of both has to go");
                contradicted.insert((overlay.path.clone(), problem.clone()));
                declaration.problem = Some(problem);
            }
            let overlay = overlay_path.filter(|_| declaration.problem.is_none() && declaration.is_effective());
            let overlay = overlay.cloned().and_then(|path| overlays.remove(&path));
            let problem = declaration.problem.take();
            let nesting = nested.remove(&declaration.id).unwrap_or_default();
            let entity = declaration.into_entity(overlay, nesting, host);
            match problem {
                None => files.declared.push(Box::new(entity)),
                Some(reason) => {
                    if said.insert(reason.clone()) {
                        output.error(&reason);
                    }
                    let mut report = entity.report();
                    // The conflict has already been reported.
                    report.edges.owns.clear();
                    files.contradicted.push(Contradicted { report, reason });
                }
            }
        }
        for (path, reason) in contradicted {
            let Some(overlay) = overlays.remove(&path) else { continue };
            let report = overlay.to_report();
            if files.contradicted.iter().all(|contradicted| contradicted.report.id != report.id) {
                files.contradicted.push(Contradicted { report, reason });
            }
        }
        for (path, reason) in invalid {
            let Some(overlay) = overlays.remove(&path) else { continue };
            output.error(&reason);
            files.contradicted.push(Contradicted { report: overlay.to_report(), reason });
        }
        let ids: HashSet<String> = orphans.iter().map(|orphan| orphan.id.clone()).collect();
        let changed_below = if ids.is_empty() { BTreeSet::new() } else { access::changed_below(host, &ids) };
        for remembered in orphans {
            let Some(path) = remembered.id.as_bytes().strip_prefix(PREFIX) else { continue };
            let path = path.to_path_lossy().into_owned();
            let mut report = remembered.orphan_report();
            // Others must not take the permissions that it has set for the original ones.
            let has_changed = changed_below.contains(&remembered.id);
            report.edges.owns.retain(|own| own.kind != ACCESS);
            for own in report.edges.owns.iter_mut().filter(|own| has_changed && own.kind == "path") {
                own.kind = ACCESS.into();
            }
            let was_absent = remembered.base.get(&path).is_some_and(|track| track.base == State::Absent);
            report.inform(if was_absent { "delete" } else { "restore" }, host.below_root(&path).display().to_string());
            let entity = DeclaredFile {
                canonical: path.clone(),
                path: path.clone(),
                sources: Vec::new(),
                template: None,
                timeout: None,
                definition: None,
                nesting: Nesting::default(),
                configures: None,
                overlay: None,
                orphan: Some(Box::new(report)),
            };
            if overlays.contains_key(&path) {
                files.leaving.insert(path, entity);
            } else if files.contradicted.iter().all(|contradicted| contradicted.report.id != remembered.id) {
                files.declared.push(Box::new(Declared::orphan(entity)));
            }
        }
        files
    }
}

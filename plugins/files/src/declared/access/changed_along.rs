//! Paths whose permissions were changed by a directory with `recurse`, and that have a declaration of their own now. The declaration restores
//! the original permissions before it inspects its path. It cannot leave that to the directory, which may be applied later if an orphan is
//! scrubbed between them.

use super::{AccessTracks, Others, Plan, Step, is_recursive, records};
use crate::declared::entity::DeclaredFile;
use crate::declared::inspection::Inspection;
use crate::declared::wanted::DeclaredError;
use holo_change::access::Access;
use holo_change::base_store::Remembered;
use holo_plugin::{Host, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// These permissions, with their records.
pub(in crate::declared) struct ChangedAlong {
    records: BTreeMap<String, Remembered<AccessTracks>>,
    /// The entities that have changed them.
    by: BTreeMap<PathBuf, String>,
}

impl ChangedAlong {
    pub(in crate::declared) fn read(host: &Host) -> Result<ChangedAlong, DeclaredError> {
        let (store, mut records, mut by) = (records(host), BTreeMap::new(), BTreeMap::new());
        for id in store.ids()? {
            let Some(record) = store.recall::<AccessTracks>(&id)?.filter(is_recursive) else { continue };
            by.extend(record.base.iter().map(|(path, _)| (path, id.clone())));
            records.insert(id, record);
        }
        Ok(ChangedAlong { records, by })
    }

    /// Returns the paths that this declaration covers now, each with the ID of the entity that changed its permissions.
    fn of(&self, entity: &DeclaredFile, inspection: &Inspection<'_>) -> Result<Vec<(&str, PathBuf)>, DeclaredError> {
        let Some(definition) = entity.definition.as_ref().filter(|_| !self.by.is_empty()) else {
            return Ok(Vec::new());
        };
        let (path, own) = (inspection.tracker.canonical(&entity.path)?, entity.id());
        let others = definition.recurse.then(|| Others::new(inspection.claims(), &own, &path));
        let is_ours = |below: &Path| match &others {
            _ if below == path => true,
            Some(others) => !others.decide(below) && !others.decide_around(below, &path),
            None => false,
        };
        let from = self.by.range(path.clone()..).take_while(|(below, _)| below.starts_with(&path));
        let from = from.filter(|(below, by)| **by != own && is_ours(below));
        Ok(from.map(|(below, by)| (by.as_str(), below.clone())).collect())
    }

    /// Returns the step that restores the original permissions of a path, if it is to be taken.
    fn step(&self, by: &str, path: &Path, inspection: &Inspection<'_>) -> Result<Option<Step>, DeclaredError> {
        let Some(track) = self.records.get(by).and_then(|record| record.base.get(path)) else { return Ok(None) };
        Step::releasing(path, inspection.tracker.place(path), track, &[])
    }

    /// Returns the steps for a declaration, and the paths that other entities need not record any longer. Orphans are left out: they have
    /// restored what they changed by then.
    fn released(
        &self,
        entity: &DeclaredFile,
        inspection: &Inspection<'_>,
    ) -> Result<(Plan, Vec<(String, PathBuf)>), DeclaredError> {
        let (mut plan, mut paths) = (Plan::default(), Vec::new());
        for (by, path) in self.of(entity, inspection)? {
            if inspection.claims().has(by) {
                plan.released.extend(self.step(by, &path, inspection)?);
                paths.push((by.to_owned(), path));
            }
        }
        Ok((plan, paths))
    }

    /// Restores the original permissions of the paths that declarations cover now, so that these record the original state. `began` is called
    /// for each declaration before anything is changed. Returns the changes, or the error, by the index of the declaration.
    pub(in crate::declared) fn give_up(
        mut self,
        entities: &[(usize, &DeclaredFile)],
        inspection: &Inspection<'_>,
        began: &mut dyn FnMut(usize),
    ) -> Result<BTreeMap<usize, Result<Vec<String>, DeclaredError>>, DeclaredError> {
        let (mut changes, mut given_up) = (BTreeMap::new(), Vec::new());
        for &(index, entity) in entities {
            match self.released(entity, inspection) {
                Ok((plan, paths)) => {
                    given_up.extend(paths);
                    if !plan.released.is_empty() {
                        began(index);
                        let shown = inspection.host.below_root(&entity.path);
                        changes.insert(index, plan.take().map(|()| plan.changes(("", "restored"), &shown)));
                    }
                }
                Err(error) => {
                    changes.insert(index, Err(error));
                }
            }
        }
        let mut touched = BTreeSet::new();
        for (by, path) in given_up {
            if let Some(record) = self.records.get_mut(&by) {
                record.base.remove(&path);
                touched.insert(by);
            }
        }
        let store = records(inspection.host);
        for record in touched.iter().filter_map(|id| self.records.get(id)) {
            store.keep(record)?;
        }
        Ok(changes)
    }

    /// Returns the verdict on an entity that is found in its desired state. If another entity changed its permissions, they are restored
    /// first: by the declaration itself or, if the other entity is an orphan, by that.
    pub(in crate::declared) fn verdict(
        &self,
        entity: &DeclaredFile,
        inspection: &Inspection<'_>,
    ) -> Result<Verdict, DeclaredError> {
        let Some(definition) = &entity.definition else { return Ok(Verdict::InDesiredState) };
        let (mut plan, mut changes) = (Plan::default(), Vec::new());
        for (by, path) in self.of(entity, inspection)? {
            let Some(step) = self.step(by, &path, inspection)? else { continue };
            if inspection.claims().has(by) {
                plan.released.push(step);
                continue;
            }
            let declared = Access {
                mode: step.missing.mode.filter(|_| definition.mode.is_some()),
                uid: step.missing.uid.filter(|_| definition.owner.is_some()),
                gid: step.missing.gid.filter(|_| definition.group.is_some()),
                ..Access::default()
            };
            if !declared.is_empty() {
                changes.push(format!("would change {} of {}", declared.parts(), step.place.shown().display()));
            }
        }
        let restored = plan.changes(("", "would restore"), &inspection.host.below_root(&entity.path));
        changes.splice(0..0, restored);
        Ok(if changes.is_empty() { Verdict::InDesiredState } else { Verdict::WouldChange(changes) })
    }
}

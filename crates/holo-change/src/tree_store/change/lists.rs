//! The lists on disk during a change: possible states of paths, and their owners.

use super::TreeChange;
use crate::base_store::RecordChange;
use crate::error::Result;
use crate::manifest::Manifest;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

impl TreeChange {
    /// Returns a manifest of the old and the new version.
    pub(super) fn union(&mut self) -> Manifest {
        let mut union = self.manifest.take().unwrap_or_default();
        let plan = &self.plan;
        let is_wanted = |path: &PathBuf| self.staged.as_ref().is_some_and(|staged| staged.entries.contains_key(path));
        union.unfinished = true;
        union.dropped.retain(|path| !plan.foreign.contains(path) && !plan.adopted.contains_key(path));
        union.leaving = union.entries.keys().filter(|path| !is_wanted(path)).cloned().collect();
        let orphaned =
            plan.orphaned.iter().flat_map(|(path, (_, states))| states.iter().map(move |state| (path, state)));
        let adopted = plan.adopted.iter().filter_map(|(path, (_, current))| Some((path, current.as_ref()?)));
        for (path, state) in orphaned.chain(adopted).chain(&plan.entries) {
            let states = union.entries.entry(path.clone()).or_default();
            if !states.contains(state) {
                states.push(state.clone());
            }
        }
        for path in plan.orphaned.keys().chain(plan.adopted.keys()) {
            union.entries.entry(path.clone()).or_default();
        }
        union
    }

    /// Returns the changes that remove the paths taken over from the manifests of orphans, so that the orphans do not
    /// remove them.
    pub(super) fn take_from_orphans(&self) -> Result<Vec<RecordChange>> {
        let mut changes = Vec::new();
        let location = &self.location;
        let here = location.full(Path::new(""));
        let ids: BTreeSet<&String> = self.plan.orphaned.values().flat_map(|(ids, _)| ids).collect();
        for id in ids {
            for tree in self.owners.trees_of(id) {
                let theirs = location.store.manifest(id, tree);
                let Some(mut manifest) = theirs.load()? else { continue };
                let listed = manifest.entries.len();
                manifest.entries.retain(|path, _| {
                    let full = tree.join(path);
                    let path = full.strip_prefix(&here);
                    !path.is_ok_and(|path| self.plan.orphaned.get(path).is_some_and(|(ids, _)| ids.contains(id)))
                });
                if manifest.entries.len() < listed {
                    changes.push(theirs.saved(&manifest)?);
                }
            }
        }
        Ok(changes)
    }
}

//! The lists on disk during a change: possible states of paths, and their owners.

use super::TreeChange;
use crate::error::Result;
use crate::manifest::{Manifest, ManifestEntry};
use crate::table::Table;
use std::collections::BTreeSet;
use std::path::Path;

impl TreeChange {
    /// Returns a manifest of the old and the new version.
    pub(super) fn union(&mut self) -> Result<Manifest> {
        let spill = self.location.spill();
        let mut union = self.manifest.take().unwrap_or_default();
        let plan = &self.plan;
        let none = Table::default();
        let wanted = self.staged.as_ref().map_or(&none, |staged| &staged.entries);
        union.unfinished = true;
        union.dropped.retain(|path| !plan.foreign.contains(path) && !plan.adopted.contains_key(path));
        union.leaving = Table::new(&spill);
        for row in union.entries.join(wanted) {
            if let (path, Some(_), None) = row? {
                union.leaving.insert(&path, ())?;
            }
        }
        let mut entries: Table<Vec<ManifestEntry>> = Table::new(&spill);
        for row in union.entries.join(&plan.entries) {
            let (path, states, new) = row?;
            entries.insert(&path, self.states(&path, states, new))?;
        }
        // They may be in neither of the lists.
        for path in plan.orphaned.keys().chain(plan.adopted.keys()) {
            if !entries.contains(path)? {
                entries.insert(path, self.states(path, None, None))?;
            }
        }
        union.entries = entries;
        Ok(union)
    }

    /// Returns the possible states of a path from now on.
    fn states(
        &self,
        path: &Path,
        states: Option<Vec<ManifestEntry>>,
        new: Option<ManifestEntry>,
    ) -> Vec<ManifestEntry> {
        let orphaned = self.plan.orphaned.get(path).into_iter().flat_map(|(_, states)| states);
        let adopted = self.plan.adopted.get(path).and_then(|(_, current)| current.as_ref());
        let mut states = states.unwrap_or_default();
        for entry in orphaned.chain(adopted).cloned().chain(new) {
            if !states.contains(&entry) {
                states.push(entry);
            }
        }
        states
    }

    /// Removes paths that we have taken over from the manifests of orphans, so that the orphans do not remove them.
    pub(super) fn take_from_orphans(&self) -> Result<()> {
        let location = &self.location;
        let here = location.full(Path::new(""));
        let ids: BTreeSet<&String> = self.plan.orphaned.values().flat_map(|(ids, _)| ids).collect();
        for id in ids {
            for tree in self.owners.trees_of(id) {
                let theirs = location.store.manifest(id, tree);
                let Some(mut manifest) = Manifest::load(&theirs)? else { continue };
                let has_changed = manifest.retain(|path| {
                    let full = tree.join(path);
                    let path = full.strip_prefix(&here);
                    !path.is_ok_and(|path| self.plan.orphaned.get(path).is_some_and(|(ids, _)| ids.contains(id)))
                })?;
                if has_changed {
                    manifest.save(&theirs)?;
                }
            }
        }
        Ok(())
    }
}

//! The steps of a change, in order; the last removes bases that are no longer needed.

use super::TreeChange;
use super::places::{is_in, remove_obstacle};
use crate::error::Result;
use crate::group::{Store, Unsynced};
use crate::manifest::{Manifest, ManifestEntry};
use crate::path_handle::{Durability, TEMPORARY, Touched};
use crate::tree_store::location::TreeLocation;
use crate::tree_store::owners::PathOwners;
use crate::tree_store::{TreeError, TreeStore};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

impl Store for TreeStore {
    type Change = TreeChange;
    type Error = TreeError;

    fn reopen(&self) -> Result<TreeStore> {
        Ok(TreeStore { root: self.root.reopen()?, state: self.state.reopen()?, ..self.clone() })
    }

    fn forget_directories(&self) {
        TreeStore::forget_directories(self);
    }

    fn files(&self, change: &TreeChange) -> usize {
        change.plan.moved.len().max(change.plan.gone.len())
    }

    fn stage(&self, change: &mut TreeChange) -> std::result::Result<Unsynced, TreeError> {
        if let Some(manifest) = &mut change.manifest {
            sweep_bases(&change.location, manifest, &change.owners)?;
        }
        let plan = &change.plan;
        let needs_bases = !plan.foreign.is_empty() || !plan.adopted.is_empty();
        let Some(directory) = change.location.directory.clone().filter(|_| needs_bases) else {
            return Ok(Unsynced::default());
        };
        let paths: Vec<PathBuf> = plan.foreign.iter().map(|path| change.location.full(path)).collect();
        paths.iter().try_for_each(|path| self.reject_edited(path))?;
        // If this run is killed before files are replaced, the next run removes the bases.
        let manifest = change.manifest.get_or_insert_default();
        manifest.dropped.extend(plan.foreign.iter().chain(plan.adopted.keys()).cloned());
        change.location.manifest.save(manifest)?;
        let files = plan.foreign.iter().map(|path| change.location.at(&directory, path));
        self.bases.save(paths.iter().map(PathBuf::as_path).zip(files))?;
        for (path, (adoption, _)) in &plan.adopted {
            self.save_adopted_base(&change.location.full(path), adoption)?;
        }
        Ok(Unsynced::default())
    }

    fn keep(&self, change: &mut TreeChange) -> std::result::Result<Unsynced, TreeError> {
        if change.manifest.as_ref().is_some_and(|manifest| manifest.unfinished) {
            self.plugin.tidy_others()?;
        }
        if let Some(directory) = &change.location.directory {
            for (path, _) in change.plan.adopted.iter().filter(|(_, (adoption, _))| adoption.was_interrupted()) {
                change.location.at(directory, path).temporary(TEMPORARY).remove()?;
            }
        }
        let union = change.union();
        let mut changes = vec![change.location.manifest.saved(&union)?];
        changes.extend(change.take_from_orphans()?);
        self.record_takeover(changes, change.plan.adopted.values().map(|(adoption, _)| adoption))?;
        change.manifest = Some(union);
        // They are already in the manifest, so that other entities do not remove them as unneeded.
        let _locked = self.lock_directories();
        let directories = change.plan.entries.iter().filter(|(_, entry)| entry.is_directory());
        self.claim_directories(directories.map(|(path, _)| change.location.full(path)))?;
        Ok(Unsynced::default())
    }

    fn prepare(&self, change: &mut TreeChange) -> std::result::Result<Unsynced, TreeError> {
        let Some(staged) = &change.staged else { return Ok(Unsynced::default()) };
        for path in &change.plan.directories {
            if is_in(path, &change.plan.whole) {
                change.plan.give_properties(path, &staged.tree().place(path))?;
            }
        }
        // All files are on one file system, which is synced as a whole if there are many.
        let files = change.plan.moved.iter().take(Durability::MANY).map(|path| staged.tree().place(path)).collect();
        Ok(Unsynced { files, names: Vec::new() })
    }

    fn replace(&self, change: &mut TreeChange) -> std::result::Result<Unsynced, TreeError> {
        change.has_begun.set(true);
        let Some(directory) = change.location.directory.clone() else { return Ok(Unsynced::default()) };
        let plan = &change.plan;
        for path in plan.orphaned.keys() {
            self.bases.tidy_beside(&directory.place(path))?;
        }
        for path in &plan.in_the_way {
            remove_obstacle(&directory.place(path))?;
        }
        let whole = change.make_directories(&directory)?;
        let mut touched = Touched::default();
        change.move_files(&directory, &whole, &mut touched)?;
        for path in &plan.directories {
            touched.add(directory.place(path))?;
        }
        touched.sync()?;
        change.remove_files(&directory)?;
        change.remove_directories(&directory)?;
        Ok(Unsynced { files: Vec::new(), names: vec![directory.place(Path::new("x"))] })
    }

    fn record(&self, change: &mut TreeChange) -> std::result::Result<Unsynced, TreeError> {
        let plan = std::mem::take(&mut change.plan);
        let waiting: BTreeSet<PathBuf> = plan.waiting.keys().cloned().collect();
        let entries = plan.entries.into_iter().map(|(path, entry)| (path, vec![entry]));
        let entries = entries.chain(plan.waiting).collect();
        let dropped = change.dropped(&entries)?;
        let is_needed = change.staged.is_some() || !waiting.is_empty() || !dropped.is_empty();
        let recipe = std::mem::take(&mut change.recipe);
        let manifest = Manifest { recipe, entries, dropped, waiting, ..Manifest::default() };
        if is_needed {
            change.location.manifest.save(&manifest)?;
        }
        change.manifest = Some(manifest);
        Ok(Unsynced::default())
    }

    fn confirm(&self, change: &mut TreeChange) -> std::result::Result<Unsynced, TreeError> {
        let Some(manifest) = &mut change.manifest else { return Ok(Unsynced::default()) };
        let has_dropped = !manifest.dropped.is_empty();
        sweep_bases(&change.location, manifest, &change.owners)?;
        if change.staged.is_none() && manifest.entries.is_empty() {
            change.manifest = None;
            change.location.manifest.remove()?;
        } else if has_dropped {
            change.location.manifest.save(manifest)?;
        }
        if let Some(staged) = &change.staged {
            staged.remove()?;
        }
        Ok(Unsynced::default())
    }

    /// The next run continues from here.
    fn abandon(&self, _: &mut TreeChange, _: &TreeError) {}
}

impl TreeChange {
    /// Returns the paths whose bases are no longer needed, including those that a killed run has not removed.
    pub(super) fn dropped(&self, entries: &BTreeMap<PathBuf, Vec<ManifestEntry>>) -> Result<Vec<PathBuf>> {
        let Some(manifest) = &self.manifest else { return Ok(Vec::new()) };
        let is_gone = |path: &&PathBuf| !entries.contains_key(*path);
        let mut dropped: Vec<PathBuf> = manifest.dropped.iter().filter(is_gone).cloned().collect();
        if self.location.store.bases.are_any()? {
            for path in manifest.entries.keys().filter(is_gone) {
                // The base is kept if another entity has this path now.
                if self.location.has_base(path)?
                    && !dropped.contains(path)
                    && !self.owners.has(&self.location.full(path))?
                {
                    dropped.push(path.clone());
                }
            }
        }
        Ok(dropped)
    }
}

/// Removes the bases of paths that no longer belong to the entity. The manifest on disk still lists them.
pub(super) fn sweep_bases(location: &TreeLocation, manifest: &mut Manifest, owners: &PathOwners) -> Result<()> {
    let dropped = std::mem::take(&mut manifest.dropped);
    // Another entity that has created the path in the meantime has saved its own base.
    for path in dropped.iter().map(|path| location.full(path)) {
        if !owners.has(&path)? {
            location.store.bases.remove(&path)?;
        }
    }
    Ok(())
}

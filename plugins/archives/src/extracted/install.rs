//! The steps that put a version into place.

use super::ExtractedTree;
use super::plan::Plan;
use super::staging::StagedTree;
use crate::entry::{EntryKind, ManifestEntry};
use crate::error::{ArchiveError, InstallError};
use crate::manifest::Manifest;
use crate::owners::PathOwners;
use crate::record::ArchiveRecord;
use crate::store::Store;
use holo_change::base_store::Remembered;
use holo_change::bases::replace_by_copy;
use holo_change::{Durability, Kind, PathHandle, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The suffix of a file before it is moved to its path.
const TEMPORARY: &str = ".holonew";

impl ExtractedTree<'_> {
    /// Puts a version into place; without one, everything that we installed is removed. Returns the orphans that paths were taken over from.
    ///
    /// # Errors
    /// If changes of a user would be lost and `force` is not given, another archive has brought the same, or something fails. Then, unless
    /// files were being moved already, nothing has been touched.
    pub(crate) fn install(
        &mut self,
        staged: Option<&StagedTree>,
        recipe: &str,
        force: bool,
    ) -> Result<BTreeSet<String>, InstallError> {
        let none = BTreeMap::new();
        let wanted = staged.map_or(&none, |staged| &staged.entries);
        let owners = self.owners()?;
        let plan = self.plan(wanted, &owners)?;
        if !force && !plan.losses.is_empty() {
            return Err(InstallError::LosesChanges(plan.losses));
        }
        self.sweep_bases(&owners)?;
        self.save_bases(&plan)?;
        let union = self.union(wanted, &plan);
        union.save(&self.manifest_path)?;
        self.manifest = Some(union);
        self.claim(&plan)?;
        let orphans = self.take_from_orphans(&plan)?;
        self.store.has_changed.set(true);
        if let Some(directory) = self.directory.clone() {
            self.carry_out(&plan, &directory, staged)?;
        }
        if let Some(staged) = staged {
            staged.remove()?;
        }
        self.finish(plan, recipe, staged.is_some(), &owners)?;
        Ok(orphans)
    }

    /// Returns a manifest of the old version and the new one.
    fn union(&mut self, wanted: &BTreeMap<PathBuf, ManifestEntry>, plan: &Plan) -> Manifest {
        let mut union = self.manifest.take().unwrap_or_default();
        union.unfinished = true;
        union.dropped.retain(|path| !plan.foreign.contains(path));
        union.leaving = union.entries.keys().filter(|path| !wanted.contains_key(*path)).cloned().collect();
        let orphaned = plan.orphaned.iter().map(|(path, (_, states))| (path, &states[..]));
        let new = plan.entries.iter().map(|(path, entry)| (path, std::slice::from_ref(entry)));
        for (path, more) in orphaned.chain(new) {
            let states = union.entries.entry(path.clone()).or_default();
            for entry in more {
                if !states.contains(entry) {
                    states.push(entry.clone());
                }
            }
        }
        union
    }

    /// Records directories that are going to be made. They are on the manifest already, which keeps them from being removed as unneeded.
    fn claim(&self, plan: &Plan) -> Result<(), InstallError> {
        let _locked = self.store.shared.lock_directories();
        Ok(self.store.claim_directories(plan.directories.iter().map(|path| self.full(path)))?)
    }

    /// Takes paths that are ours from now on off the manifests of orphans, so that those do not remove them.
    fn take_from_orphans(&self, plan: &Plan) -> Result<BTreeSet<String>, InstallError> {
        let ids: BTreeSet<String> = plan.orphaned.values().flat_map(|(ids, _)| ids).cloned().collect();
        for id in &ids {
            let Some(orphan): Option<Remembered<ArchiveRecord>> = self.store.memory.recall(id)? else { continue };
            let here = self.full(Path::new(""));
            for tree in orphan.base.trees.iter().map(Path::new).filter(|tree| *id != self.id || *tree != here) {
                let location = self.store.manifest(id, tree);
                let Some(mut manifest) = Manifest::load(&location)? else { continue };
                let before = manifest.entries.len();
                manifest.entries.retain(|path, _| {
                    let full = tree.join(path);
                    let path = full.strip_prefix(&here);
                    !path.is_ok_and(|path| plan.orphaned.get(path).is_some_and(|(ids, _)| ids.contains(id)))
                });
                if manifest.entries.len() < before {
                    manifest.save(&location)?;
                }
            }
        }
        Ok(ids)
    }

    /// Step 2.
    fn save_bases(&mut self, plan: &Plan) -> Result<(), InstallError> {
        let Some(directory) = self.directory.clone() else { return Ok(()) };
        if plan.foreign.is_empty() {
            return Ok(());
        }
        // If this run is killed before anything is replaced, the next one removes the bases.
        let manifest = self.manifest.get_or_insert_default();
        manifest.dropped.extend_from_slice(&plan.foreign);
        manifest.save(&self.manifest_path)?;
        let paths: Vec<PathBuf> = plan.foreign.iter().map(|path| self.full(path)).collect();
        let files = plan.foreign.iter().map(|path| self.at(&directory, path));
        Ok(self.store.bases.save(paths.iter().map(PathBuf::as_path).zip(files))?)
    }

    /// Step 4.
    fn carry_out(&self, plan: &Plan, directory: &Arc<Tree>, staged: Option<&StagedTree>) -> Result<(), InstallError> {
        if let Some(staged) = staged {
            let files: Vec<PathHandle> = plan.moved.iter().map(|path| staged.tree.place(path)).collect();
            Durability::of(files.len()).sync(&files, [])?;
        }
        for path in plan.orphaned.keys() {
            self.store.bases.tidy_beside(&directory.place(path))?;
        }
        for path in &plan.in_the_way {
            remove_obstacle(&directory.place(path))?;
        }
        make_directories(plan, directory)?;
        let mut touched = match staged {
            Some(staged) => self.move_files(plan, directory, staged)?,
            None => Vec::new(),
        };
        touched.extend(plan.directories.iter().map(|path| directory.place(path)));
        Durability::of(touched.len()).sync([], &touched)?;
        self.remove_files(plan, directory)?;
        self.remove_directories(plan, directory)
    }

    /// Returns the paths of the files.
    fn move_files(
        &self,
        plan: &Plan,
        directory: &Arc<Tree>,
        staged: &StagedTree,
    ) -> Result<Vec<PathHandle>, InstallError> {
        let mut moved = Vec::new();
        for path in &plan.moved {
            let (from, to) = (staged.tree.place(path), self.at(directory, path));
            if self.is_overlaid(path) {
                replace_by_copy(&from, &self.overlay_base_on_its_way(), &to)?;
            } else {
                move_file(&from, &to)?;
            }
            moved.push(to);
        }
        Ok(moved)
    }

    fn remove_files(&self, plan: &Plan, directory: &Arc<Tree>) -> Result<(), InstallError> {
        let mut removed = Vec::new();
        for path in &plan.gone {
            let file = directory.place(path);
            if self.has_base(path)? {
                self.restore_base(path, &file)?;
            } else {
                file.remove()?;
            }
            removed.push(file);
        }
        // If the directory is gone too, there is nothing to be synced.
        let left: Vec<&PathHandle> = removed.iter().filter(|file| file.exists().unwrap_or(false)).collect();
        Ok(Durability::of(left.len()).sync([], left)?)
    }

    fn remove_directories(&self, plan: &Plan, directory: &Arc<Tree>) -> Result<(), InstallError> {
        for path in &plan.gone_directories {
            let place = directory.place(path);
            let is_gone = place.remove_directory()?;
            // A directory of ours may be where a file was before.
            if self.has_base(path)? {
                if !is_gone {
                    let obstacle = "a directory that is not empty";
                    return Err(ArchiveError::BaseNotRestored { path: place.shown(), obstacle }.into());
                }
                self.restore_base(path, &place)?;
                Durability::Each.sync([], [&place])?;
            }
        }
        Ok(())
    }

    /// Step 5.
    fn finish(&mut self, plan: Plan, recipe: &str, is_version: bool, owners: &PathOwners) -> Result<(), InstallError> {
        let mut entries: BTreeMap<PathBuf, Vec<ManifestEntry>> =
            plan.entries.into_iter().map(|(path, entry)| (path, vec![entry])).collect();
        let waiting: BTreeSet<PathBuf> = plan.waiting.keys().cloned().collect();
        entries.extend(plan.waiting);
        let is_left = is_version || !waiting.is_empty();
        if let Some(directory) = &self.directory {
            Durability::Each.sync([], [&directory.place(Path::new("x"))])?;
        }
        let dropped = self.dropped(&entries, owners)?;
        if is_left || !dropped.is_empty() {
            let manifest = Manifest { recipe: recipe.to_owned(), entries, dropped, waiting, ..Manifest::default() };
            manifest.save(&self.manifest_path)?;
            self.manifest = Some(manifest);
            self.remove_dropped_bases()?;
        }
        if !is_left {
            Store::remove(&self.manifest_path)?;
            self.manifest = None;
        }
        Ok(())
    }

    /// Returns the paths whose bases are not needed any more, including those that a killed run has not come to removing.
    fn dropped(
        &self,
        entries: &BTreeMap<PathBuf, Vec<ManifestEntry>>,
        owners: &PathOwners,
    ) -> Result<Vec<PathBuf>, InstallError> {
        let earlier = self.manifest.iter().flat_map(|manifest| &manifest.dropped);
        let mut dropped: Vec<PathBuf> = earlier.filter(|path| !entries.contains_key(*path)).cloned().collect();
        if self.store.bases.are_any()? {
            for path in self.manifest.iter().flat_map(|manifest| manifest.entries.keys()) {
                // A base stays if another archive has brought something there by now.
                if !entries.contains_key(path)
                    && !dropped.contains(path)
                    && !owners.has(&self.full(path))
                    && self.has_base(path)?
                {
                    dropped.push(path.clone());
                }
            }
        }
        Ok(dropped)
    }

    /// Removes bases that are not needed any more. From here on, other archives cannot take over the paths that this version does not have.
    pub(crate) fn remove_dropped_bases(&mut self) -> Result<(), InstallError> {
        let is_done = |manifest: &Manifest| manifest.dropped.is_empty() && manifest.leaving.is_empty();
        if self.manifest.as_ref().is_none_or(|manifest| manifest.unfinished || is_done(manifest)) {
            return Ok(());
        }
        if self.manifest.as_ref().is_some_and(|manifest| !manifest.dropped.is_empty()) {
            self.sweep_bases(&self.owners()?)?;
        }
        if let Some(manifest) = &mut self.manifest {
            manifest.leaving.clear();
            manifest.save(&self.manifest_path)?;
        }
        Ok(())
    }

    /// Removes the bases of paths that are not ours. The manifest on disk still lists them.
    fn sweep_bases(&mut self, owners: &PathOwners) -> Result<(), InstallError> {
        let dropped = self.manifest.as_mut().map(|manifest| std::mem::take(&mut manifest.dropped)).unwrap_or_default();
        // Another archive that has brought something to the path since has saved a base of its own.
        let unneeded = dropped.iter().map(|path| self.full(path)).filter(|path| !owners.has(path));
        unneeded.into_iter().try_for_each(|path| Ok(self.store.bases.remove(&path)?))
    }
}

fn remove_obstacle(path: &PathHandle) -> Result<(), InstallError> {
    match path.stat()?.map(|stat| stat.kind) {
        None => Ok(()),
        Some(Kind::Directory) if !path.remove_directory()? => Err(ArchiveError::DirectoryNotEmpty(path.shown()).into()),
        Some(Kind::Directory) => Ok(()),
        Some(_) => Ok(path.remove()?),
    }
}

fn make_directories(plan: &Plan, directory: &Arc<Tree>) -> Result<(), InstallError> {
    for path in &plan.directories {
        let place = directory.place(path);
        place.create_directory(0o700)?;
        if let Some(ManifestEntry { kind: EntryKind::Directory { mode }, owner }) = plan.entries.get(path) {
            place.give_to(owner.uid, owner.gid)?;
            place.change_mode(*mode)?;
        }
    }
    Ok(())
}

/// Moves a file in one step; if another file system is mounted in between, by a copy.
fn move_file(from: &PathHandle, to: &PathHandle) -> Result<(), InstallError> {
    match from.rename_to(to) {
        Err(error) if error.error.kind() == std::io::ErrorKind::CrossesDevices => {
            Ok(replace_by_copy(from, &to.temporary(TEMPORARY), to)?)
        }
        other => Ok(other?),
    }
}

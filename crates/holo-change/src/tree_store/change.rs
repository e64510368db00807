//! The steps that put a version into place.

use super::location::TreeLocation;
use super::owned_tree::OwnedTree;
use super::owners::PathOwners;
use super::plan::Plan;
use super::staging::StagedTree;
use super::{TreeError, TreeStore};
use crate::bases::replace_by_copy;
use crate::claims::Claims;
use crate::error::{PathError, Result};
use crate::group::{Store, Unsynced, commit};
use crate::manifest::{EntryKind, Manifest, ManifestEntry};
use crate::path_handle::{Durability, Kind, PathHandle, TEMPORARY, Touched, Tree};
use crate::table::Table;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// A version that is put into place.
#[derive(Default)]
pub struct NewVersion {
    /// The staged version; without one, everything that the entity has made is removed.
    pub staged: Option<StagedTree>,
    /// Everything that decides about the version.
    pub recipe: String,
    /// The claims of entities of other plugins.
    pub claims: Claims,
    /// True if changes of a user may be lost.
    pub force: bool,
}

/// A change of a tree, as the steps need it.
pub struct TreeChange {
    location: TreeLocation,
    manifest: Option<Manifest>,
    staged: Option<StagedTree>,
    recipe: String,
    plan: Plan,
    owners: Rc<PathOwners>,
    has_begun: Rc<Cell<bool>>,
}

impl OwnedTree {
    /// Puts a version into place. Returns the entities that paths were taken over from. `has_begun` is set as soon as anything may have been
    /// changed.
    ///
    /// # Errors
    /// If changes of a user would be lost, another entity has the same path, or something fails. Then, unless files were being moved already,
    /// nothing has been touched.
    pub fn install(
        &mut self,
        version: NewVersion,
        owners: &Rc<PathOwners>,
        has_begun: &Rc<Cell<bool>>,
    ) -> std::result::Result<BTreeSet<String>, TreeError> {
        let none = Table::default();
        let wanted = version.staged.as_ref().map_or(&none, |staged| &staged.entries);
        let mut plan = Plan::new(&self.location, self.manifest.as_ref(), wanted, owners, &version.claims)?;
        if !version.force && !plan.losses.is_empty() {
            return Err(TreeError::LosesChanges(plan.losses));
        }
        if version.staged.as_ref().is_some_and(StagedTree::inherits) {
            plan.whole.clear();
        }
        let adopted = plan.adopted.values().map(|(adoption, _)| adoption.from().to_owned());
        let taken = plan.orphaned.values().flat_map(|(ids, _)| ids).cloned().chain(adopted).collect();
        let mut changes = [TreeChange {
            location: self.location.clone(),
            manifest: self.manifest.take(),
            staged: version.staged,
            recipe: version.recipe,
            plan,
            owners: Rc::clone(owners),
            has_begun: Rc::clone(has_begun),
        }];
        let results = commit(&self.location.store, &mut changes);
        let [change] = changes;
        self.manifest = change.manifest;
        results.into_iter().collect::<std::result::Result<(), TreeError>>()?;
        Ok(taken)
    }

    /// Removes everything that the entity has made, except files under overlays. Returns true if there was anything to remove.
    ///
    /// # Errors
    /// As [`OwnedTree::install`]; also if bases cannot be restored, because the directory is somewhere else by now.
    pub fn remove(
        &mut self,
        force: bool,
        owners: &Rc<PathOwners>,
        claims: Claims,
        has_begun: &Rc<Cell<bool>>,
    ) -> std::result::Result<bool, TreeError> {
        let Some(manifest) = &self.manifest else {
            // A killed run may have left an empty folder.
            self.location.manifest.remove_empty_folders(Path::new(""));
            return Ok(false);
        };
        let listed = manifest.entries.inserted();
        let has_bases = self.location.has_bases(manifest)?;
        let here = self.location.full(Path::new(""));
        let is_elsewhere = self.location.store.root().canonical(&here, true)? != here;
        if is_elsewhere || (self.location.directory.is_none() && self.location.path.exists()?) {
            if has_bases {
                let obstacle = "not a directory any more, or behind a symlink";
                return Err(TreeError::BaseNotRestored { path: self.location.path.shown(), obstacle });
            }
            self.location.directory = None;
        } else if self.location.directory.is_none() && has_bases {
            self.location.path.create_folder()?;
            self.location.path.create_directory(0o755)?;
            self.location.enter()?;
        }
        self.install(NewVersion { force, claims, ..NewVersion::default() }, owners, has_begun)?;
        Ok(listed == 0 || self.manifest.as_ref().is_none_or(|manifest| manifest.entries.inserted() < listed))
    }

    /// Removes bases that are not needed any more. From here on, other entities cannot take over the paths that this version does not have.
    /// The owners are needed only if there are such bases.
    ///
    /// # Errors
    /// If a base cannot be removed, or the owners are not known.
    pub fn remove_dropped_bases<E: From<PathError>>(
        &mut self,
        owners: impl FnOnce() -> std::result::Result<PathOwners, E>,
    ) -> std::result::Result<(), E> {
        let Some(manifest) = &mut self.manifest else { return Ok(()) };
        if manifest.unfinished || (manifest.dropped.is_empty() && manifest.leaving.is_empty()) {
            return Ok(());
        }
        if !manifest.dropped.is_empty() {
            sweep_bases(&self.location, manifest, &owners()?)?;
        }
        manifest.leaving = Table::default();
        Ok(manifest.save(&self.location.manifest)?)
    }
}

impl TreeLocation {
    fn has_bases(&self, manifest: &Manifest) -> Result<bool> {
        if !self.store.bases.are_any()? {
            return Ok(false);
        }
        for path in manifest.entries.paths() {
            if self.has_base(&path?)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

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
        change.plan.moved.inserted().max(change.plan.gone.inserted())
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
        // If this run is killed before anything is replaced, the next one removes the bases.
        let manifest = change.manifest.get_or_insert_with(|| Manifest::new(&change.location.spill()));
        manifest.dropped.extend(plan.foreign.iter().chain(plan.adopted.keys()).cloned());
        manifest.save(&change.location.manifest)?;
        let paths: Vec<PathBuf> = plan.foreign.iter().map(|path| change.location.full(path)).collect();
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
        let union = change.union()?;
        union.save(&change.location.manifest)?;
        change.manifest = Some(union);
        {
            // They are on the manifest already, which keeps other entities from removing them as unneeded.
            let _locked = self.lock_directories();
            let mut directories = Vec::new();
            for row in change.plan.entries.iter() {
                let (path, entry) = row?;
                directories.extend(entry.is_directory().then(|| change.location.full(&path)));
            }
            self.claim_directories(directories)?;
        }
        change.take_from_orphans()?;
        self.release(change.plan.adopted.values().map(|(adoption, _)| adoption))?;
        Ok(Unsynced::default())
    }

    fn prepare(&self, change: &mut TreeChange) -> std::result::Result<Unsynced, TreeError> {
        let Some(staged) = &change.staged else { return Ok(Unsynced::default()) };
        for path in change.plan.directories.paths() {
            let path = path?;
            if is_in(&path, &change.plan.whole) {
                change.plan.give_properties(&path, &staged.tree().place(&path))?;
            }
        }
        // All are on one file system: if there are many, that is synced as a whole.
        let files = change.plan.moved.paths().take(Durability::MANY);
        let files = files.map(|path| path.map(|path| staged.tree().place(&path))).collect::<Result<_>>()?;
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
        for path in plan.directories.paths() {
            touched.add(directory.place(&path?))?;
        }
        touched.sync()?;
        change.remove_files(&directory)?;
        change.remove_directories(&directory)?;
        Ok(Unsynced { files: Vec::new(), names: vec![directory.place(Path::new("x"))] })
    }

    fn record(&self, change: &mut TreeChange) -> std::result::Result<Unsynced, TreeError> {
        let plan = std::mem::take(&mut change.plan);
        let mut entries = Table::new(&change.location.spill());
        entries.extend(plan.entries.iter().map(|row| row.map(|(path, entry)| (path, vec![entry]))))?;
        let waiting: BTreeSet<PathBuf> = plan.waiting.keys().cloned().collect();
        entries.extend(plan.waiting.into_iter().map(Ok))?;
        let dropped = change.dropped(&entries)?;
        let is_needed = change.staged.is_some() || !waiting.is_empty() || !dropped.is_empty();
        let recipe = std::mem::take(&mut change.recipe);
        let manifest = Manifest { recipe, entries, dropped, waiting, ..Manifest::default() };
        if is_needed {
            manifest.save(&change.location.manifest)?;
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
            Durability::Each.sync([], [&change.location.manifest])?;
            change.location.manifest.remove_empty_folders(Path::new(""));
        } else if has_dropped {
            manifest.save(&change.location.manifest)?;
        }
        if let Some(staged) = &change.staged {
            staged.remove()?;
        }
        Ok(Unsynced::default())
    }

    /// The next run takes up where this one has stopped.
    fn abandon(&self, _: &mut TreeChange, _: &TreeError) {}
}

impl TreeChange {
    /// Returns a manifest of the old version and the new one.
    fn union(&mut self) -> Result<Manifest> {
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
        // They may be neither on the list nor on the new one.
        for path in plan.orphaned.keys().chain(plan.adopted.keys()) {
            if !entries.contains(path)? {
                entries.insert(path, self.states(path, None, None))?;
            }
        }
        union.entries = entries;
        Ok(union)
    }

    /// Returns the states that a path may have from now on.
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

    /// Takes paths that are ours from now on off the manifests of orphans, so that those do not remove them.
    fn take_from_orphans(&self) -> Result<()> {
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

    /// Makes the new directories, and moves those that are moved as a whole; returns these.
    fn make_directories(&self, directory: &Arc<Tree>) -> Result<BTreeSet<PathBuf>> {
        let mut moved = BTreeSet::new();
        for path in self.plan.directories.paths() {
            let path = &path?;
            let place = directory.place(path);
            if is_in(path, &moved) {
                continue;
            }
            if let Some(staged) = self.staged.as_ref().filter(|_| self.plan.whole.contains(path))
                && move_directory(&staged.tree().place(path), &place)?
            {
                moved.insert(path.clone());
                continue;
            }
            place.create_directory(0o700)?;
            self.plan.give_properties(path, &place)?;
        }
        Ok(moved)
    }

    /// Moves all files but those that were moved with their directories.
    fn move_files(
        &self,
        directory: &Arc<Tree>,
        whole: &BTreeSet<PathBuf>,
        touched: &mut Touched,
    ) -> std::result::Result<(), TreeError> {
        let Some(staged) = &self.staged else { return Ok(()) };
        for path in self.plan.moved.paths() {
            let path = &path?;
            let (from, to) = (staged.tree().place(path), self.location.at(directory, path));
            if is_in(path, whole) {
                // It is there already.
            } else if self.location.is_overlaid(path) {
                replace_by_copy(&from, &self.location.overlay_base_on_its_way(), &to)?;
            } else {
                move_file(&from, &to)?;
            }
            touched.add(to)?;
        }
        Ok(())
    }

    fn remove_files(&self, directory: &Arc<Tree>) -> std::result::Result<(), TreeError> {
        let mut restored = Touched::default();
        let has_bases = self.location.store.bases.are_any()?;
        for path in self.plan.gone.paths() {
            let path = &path?;
            let file = directory.place(path);
            if has_bases && self.location.has_base(path)? {
                self.location.restore_base(path, &file)?;
                restored.add(file)?;
            } else {
                file.remove()?;
            }
        }
        Ok(restored.sync()?)
    }

    fn remove_directories(&self, directory: &Arc<Tree>) -> std::result::Result<(), TreeError> {
        for row in self.plan.gone_directories.backwards() {
            let (path, ()) = &row?;
            let place = directory.place(path);
            let is_gone = place.remove_directory()?;
            // A directory of ours may be where a file was before.
            if self.location.has_base(path)? {
                if !is_gone {
                    let obstacle = "a directory that is not empty";
                    return Err(TreeError::BaseNotRestored { path: place.shown(), obstacle });
                }
                self.location.restore_base(path, &place)?;
                Durability::Each.sync([], [&place])?;
            }
        }
        Ok(())
    }

    /// Returns the paths whose bases are not needed any more, including those that a killed run has not come to removing.
    fn dropped(&self, entries: &Table<Vec<ManifestEntry>>) -> Result<Vec<PathBuf>> {
        let mut dropped = Vec::new();
        let Some(manifest) = &self.manifest else { return Ok(dropped) };
        for path in &manifest.dropped {
            if !entries.contains(path)? {
                dropped.push(path.clone());
            }
        }
        if self.location.store.bases.are_any()? {
            for row in manifest.entries.join(entries) {
                let (path, Some(_), None) = row? else { continue };
                // A base stays if another entity has made something there by now.
                if self.location.has_base(&path)?
                    && !dropped.contains(&path)
                    && !self.owners.has(&self.location.full(&path))?
                {
                    dropped.push(path);
                }
            }
        }
        Ok(dropped)
    }
}

/// Removes the bases of paths that are not ours any more. The manifest on disk still lists them.
fn sweep_bases(location: &TreeLocation, manifest: &mut Manifest, owners: &PathOwners) -> Result<()> {
    let dropped = std::mem::take(&mut manifest.dropped);
    // Another entity that has made something at the path since has saved a base of its own.
    for path in dropped.iter().map(|path| location.full(path)) {
        if !owners.has(&path)? {
            location.store.bases.remove(&path)?;
        }
    }
    Ok(())
}

fn remove_obstacle(path: &PathHandle) -> std::result::Result<(), TreeError> {
    match path.stat()?.map(|stat| stat.kind) {
        None => Ok(()),
        Some(Kind::Directory) if !path.remove_directory()? => Err(TreeError::DirectoryNotEmpty(path.shown())),
        Some(Kind::Directory) => Ok(()),
        Some(_) => Ok(path.remove()?),
    }
}

impl Plan {
    /// Gives a new directory its owner and its mode.
    fn give_properties(&self, path: &Path, place: &PathHandle) -> Result<()> {
        let Some(ManifestEntry { kind: EntryKind::Directory { mode }, owner }) = self.entries.get(path)? else {
            return Ok(());
        };
        place.give_to(owner.uid, owner.gid)?;
        place.change_mode(mode)
    }
}

/// Returns true if a path is one of these directories, or in one of them. None of them is in another.
fn is_in(path: &Path, directories: &BTreeSet<PathBuf>) -> bool {
    directories
        .range::<Path, _>((Bound::Unbounded, Bound::Included(path)))
        .next_back()
        .is_some_and(|directory| path.starts_with(directory))
}

/// Moves a directory with everything in it, in one step; returns false if it has to be made anew.
fn move_directory(from: &PathHandle, to: &PathHandle) -> Result<bool> {
    match from.rename_to_free(to) {
        Err(error) if error.error.kind() == std::io::ErrorKind::CrossesDevices => Ok(false),
        other => other,
    }
}

/// Moves a file in one step; if another file system is mounted in between, by a copy.
fn move_file(from: &PathHandle, to: &PathHandle) -> std::result::Result<(), TreeError> {
    match from.rename_to(to) {
        Err(error) if error.error.kind() == std::io::ErrorKind::CrossesDevices => {
            Ok(replace_by_copy(from, &to.temporary(TEMPORARY), to)?)
        }
        other => Ok(other?),
    }
}

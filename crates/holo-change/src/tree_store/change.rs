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
use crate::path_handle::{Durability, Kind, PathHandle, TEMPORARY, Tree};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
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
        let none = BTreeMap::new();
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
        let listed = manifest.entries.len();
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
        Ok(listed == 0 || self.manifest.as_ref().is_none_or(|manifest| manifest.entries.len() < listed))
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
        manifest.leaving.clear();
        Ok(manifest.save(&self.location.manifest)?)
    }
}

impl TreeLocation {
    fn has_bases(&self, manifest: &Manifest) -> Result<bool> {
        for path in manifest.entries.keys() {
            if self.has_base(path)? {
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
        // If this run is killed before anything is replaced, the next one removes the bases.
        let manifest = change.manifest.get_or_insert_default();
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
        let union = change.union();
        union.save(&change.location.manifest)?;
        change.manifest = Some(union);
        {
            // They are on the manifest already, which keeps other entities from removing them as unneeded.
            let _locked = self.lock_directories();
            let directories = change.plan.entries.iter().filter(|(_, entry)| entry.is_directory());
            self.claim_directories(directories.map(|(path, _)| change.location.full(path)))?;
        }
        change.take_from_orphans()?;
        self.release(change.plan.adopted.values().map(|(adoption, _)| adoption))?;
        Ok(Unsynced::default())
    }

    fn prepare(&self, change: &mut TreeChange) -> std::result::Result<Unsynced, TreeError> {
        let Some(staged) = &change.staged else { return Ok(Unsynced::default()) };
        for path in change.plan.directories_in(&change.plan.whole) {
            change.plan.give_properties(path, &staged.tree().place(path))?;
        }
        let files = change.plan.moved.iter().map(|path| staged.tree().place(path)).collect();
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
        let mut touched = change.move_files(&directory, &whole)?;
        touched.extend(plan.directories.iter().map(|path| directory.place(path)));
        Durability::of(touched.len()).sync([], &touched)?;
        change.remove_files(&directory)?;
        change.remove_directories(&directory)?;
        Ok(Unsynced { files: Vec::new(), names: vec![directory.place(Path::new("x"))] })
    }

    fn record(&self, change: &mut TreeChange) -> std::result::Result<Unsynced, TreeError> {
        let plan = std::mem::take(&mut change.plan);
        let mut entries: BTreeMap<PathBuf, Vec<ManifestEntry>> =
            plan.entries.into_iter().map(|(path, entry)| (path, vec![entry])).collect();
        let waiting: BTreeSet<PathBuf> = plan.waiting.keys().cloned().collect();
        entries.extend(plan.waiting);
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
    fn union(&mut self) -> Manifest {
        let mut union = self.manifest.take().unwrap_or_default();
        let plan = &self.plan;
        let is_wanted = |path: &PathBuf| self.staged.as_ref().is_some_and(|staged| staged.entries.contains_key(path));
        union.unfinished = true;
        union.dropped.retain(|path| !plan.foreign.contains(path) && !plan.adopted.contains_key(path));
        union.leaving = union.entries.keys().filter(|path| !is_wanted(path)).cloned().collect();
        let orphaned = plan.orphaned.iter().map(|(path, (_, states))| (path, &states[..]));
        let new = plan.entries.iter().map(|(path, entry)| (path, std::slice::from_ref(entry)));
        let adopted = plan.adopted.iter().map(|(path, (_, current))| (path, current.as_slice()));
        for (path, more) in orphaned.chain(adopted).chain(new) {
            let states = union.entries.entry(path.clone()).or_default();
            for entry in more {
                if !states.contains(entry) {
                    states.push(entry.clone());
                }
            }
        }
        union
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
                let before = manifest.entries.len();
                manifest.entries.retain(|path, _| {
                    let full = tree.join(path);
                    let path = full.strip_prefix(&here);
                    !path.is_ok_and(|path| self.plan.orphaned.get(path).is_some_and(|(ids, _)| ids.contains(id)))
                });
                if manifest.entries.len() < before {
                    manifest.save(&theirs)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the new directories, and moves those that are moved as a whole; returns these.
    fn make_directories(&self, directory: &Arc<Tree>) -> Result<BTreeSet<PathBuf>> {
        let mut moved = BTreeSet::new();
        for path in &self.plan.directories {
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

    /// Moves all files but those that were moved with their directories. Returns all new paths.
    fn move_files(
        &self,
        directory: &Arc<Tree>,
        whole: &BTreeSet<PathBuf>,
    ) -> std::result::Result<Vec<PathHandle>, TreeError> {
        let Some(staged) = &self.staged else { return Ok(Vec::new()) };
        let mut moved = Vec::new();
        for path in &self.plan.moved {
            let (from, to) = (staged.tree().place(path), self.location.at(directory, path));
            if is_in(path, whole) {
                // It is there already.
            } else if self.location.is_overlaid(path) {
                replace_by_copy(&from, &self.location.overlay_base_on_its_way(), &to)?;
            } else {
                move_file(&from, &to)?;
            }
            moved.push(to);
        }
        Ok(moved)
    }

    fn remove_files(&self, directory: &Arc<Tree>) -> std::result::Result<(), TreeError> {
        let mut removed = Vec::new();
        for path in &self.plan.gone {
            let file = directory.place(path);
            if self.location.has_base(path)? {
                self.location.restore_base(path, &file)?;
            } else {
                file.remove()?;
            }
            removed.push(file);
        }
        // If the directory is gone too, there is nothing to be synced.
        let left: Vec<&PathHandle> = removed.iter().filter(|file| file.exists().unwrap_or(false)).collect();
        Ok(Durability::of(left.len()).sync([], left)?)
    }

    fn remove_directories(&self, directory: &Arc<Tree>) -> std::result::Result<(), TreeError> {
        for path in &self.plan.gone_directories {
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
    fn dropped(&self, entries: &BTreeMap<PathBuf, Vec<ManifestEntry>>) -> Result<Vec<PathBuf>> {
        let earlier = self.manifest.iter().flat_map(|manifest| &manifest.dropped);
        let mut dropped: Vec<PathBuf> = earlier.filter(|path| !entries.contains_key(*path)).cloned().collect();
        if self.location.store.bases.are_any()? {
            for path in self.manifest.iter().flat_map(|manifest| manifest.entries.keys()) {
                // A base stays if another entity has made something there by now.
                if !entries.contains_key(path)
                    && !dropped.contains(path)
                    && !self.owners.has(&self.location.full(path))
                    && self.location.has_base(path)?
                {
                    dropped.push(path.clone());
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
    let unneeded = dropped.iter().map(|path| location.full(path)).filter(|path| !owners.has(path));
    unneeded.into_iter().try_for_each(|path| location.store.bases.remove(&path))
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
    /// Returns those new directories that are among these, or in them.
    fn directories_in(&self, whole: &BTreeSet<PathBuf>) -> impl Iterator<Item = &PathBuf> {
        self.directories.iter().filter(move |path| is_in(path, whole))
    }

    /// Gives a new directory its owner and its mode.
    fn give_properties(&self, path: &Path, place: &PathHandle) -> Result<()> {
        let Some(ManifestEntry { kind: EntryKind::Directory { mode }, owner }) = self.entries.get(path) else {
            return Ok(());
        };
        place.give_to(owner.uid, owner.gid)?;
        place.change_mode(*mode)
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

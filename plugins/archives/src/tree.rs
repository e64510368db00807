//! A directory that an archive is extracted to: what of it is ours, and how it gets from one version to another.
//!
//! The steps are in an order that a kill at any moment does no harm to; each is on disk before the next one is begun:
//!
//! 1. The new version is extracted into a staging directory. Nothing else has been touched yet.
//! 2. What was there before us, and is about to be replaced, is kept.
//! 3. The manifest lists what may be there from now on: the old version and the new one. Whoever finds a file that is either, or is what was
//!    kept, knows that it is no person's work. Directories that are going to be made are listed, and what was an orphan's until now is
//!    taken off the orphan's manifest.
//! 4. Files are moved into place one by one, each in one step; then those go that the new version does not have.
//! 5. The manifest lists the new version alone, and of what went that something is still kept; then that goes too.
//!
//! Several archives may be extracted to one directory, or one to a directory in another's: each path is on the manifest of one of them, but
//! for directories, which go with the last that has them.
//!
//! If a file of the plugin `files` is laid over a path, the file that is brought there is the base of that, and does not go before that is
//! gone.

mod plan;

use crate::error::ArchiveError;
use crate::made::Made;
use crate::manifest::Manifest;
use crate::owners::Owners;
use crate::record::{Record, copy, is_kept, keep, put_back};
use crate::store::Store;
use holo_change::base_store::Remembered;
use holo_change::error::PathError;
use holo_change::{Durability, FileStat, Kind, PathHandle, Tree, Unmanageable};
use plan::Plan;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that is, or will be, extracted to.
pub(crate) struct Site<'a> {
    store: &'a Store,
    /// The directory, if it exists.
    directory: Option<Arc<Tree>>,
    place: PathHandle,
    id: String,
    manifest_place: PathHandle,
    pub(crate) manifest: Option<Manifest>,
    staging_name: String,
}

/// What has become of what was extracted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Drift {
    /// What a person changed.
    pub(crate) changed: Vec<PathBuf>,
    /// Whether something is missing, or can go by now.
    pub(crate) is_missing: bool,
}

/// What is to be moved into place.
pub(crate) struct Staged {
    pub(crate) tree: Arc<Tree>,
    place: PathHandle,
    pub(crate) made: BTreeMap<PathBuf, Made>,
}

/// Why a version was not put into place.
#[derive(Debug)]
pub(crate) enum MoveError {
    /// A person's work would be lost: these paths.
    NeedsForce(Vec<PathBuf>),
    /// It cannot be done.
    Failed(String),
}

impl From<PathError> for MoveError {
    fn from(error: PathError) -> Self {
        MoveError::Failed(error.to_string())
    }
}

impl From<ArchiveError> for MoveError {
    fn from(stop: ArchiveError) -> Self {
        match stop {
            ArchiveError::Failed(problem) => MoveError::Failed(problem),
            ArchiveError::NeedsForce(_) => MoveError::NeedsForce(Vec::new()),
        }
    }
}

impl From<Unmanageable> for MoveError {
    fn from(error: Unmanageable) -> Self {
        MoveError::Failed(error.to_string())
    }
}

impl<'a> Site<'a> {
    /// The directory with this canonical path.
    pub(crate) fn open(store: &'a Store, id: &str, directory: &Path) -> Result<Site<'a>, PathError> {
        let place = store.root.place(directory);
        let manifest_place = store.manifest(id, directory);
        let manifest = Manifest::load(&manifest_place)?;
        let name: String = crate::checksum::sha256(id.as_bytes()).chars().take(16).collect();
        let staging_name = format!(".holo-{name}");
        let id = id.to_owned();
        let mut site = Site { store, directory: None, place, id, manifest_place, manifest, staging_name };
        site.enter()?;
        Ok(site)
    }

    /// Opens the directory if it exists by now.
    pub(crate) fn enter(&mut self) -> Result<(), PathError> {
        let is_top = self.place.path().as_os_str().is_empty();
        let is_there = || self.place.stat().map(|looks| looks.is_some_and(|looks| looks.kind == Kind::Directory));
        if self.directory.is_none() && (is_top || is_there()?) {
            self.directory = Some(self.place.as_tree()?);
        }
        Ok(())
    }

    /// Whether a version is, or may be, on its way.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.unfinished)
    }

    /// Compares everything that we made with what is there.
    pub(crate) fn drift(&self) -> Result<Drift, PathError> {
        let mut drift = Drift::default();
        let Some(manifest) = &self.manifest else { return Ok(drift) };
        for (path, states) in &manifest.made {
            if !manifest.unfinished && manifest.waiting.contains(path) {
                // What kept it from going may be gone.
                drift.is_missing |= !self.is_overlaid(path);
                continue;
            }
            match &self.directory {
                None => drift.is_missing = true,
                Some(directory) => {
                    let place = self.at(directory, path);
                    if place.stat()?.is_none() {
                        drift.is_missing = true;
                    } else if !self.is_ours(path, &place, states)? {
                        drift.changed.push(path.clone());
                    }
                }
            }
        }
        Ok(drift)
    }

    /// Whether what is at a place is what we made there or, while that is on its way, what was there before.
    fn is_ours(&self, path: &Path, place: &PathHandle, states: &[Made]) -> Result<bool, PathError> {
        for made in states {
            if made.is_at(place, &self.store.known)? {
                return Ok(true);
            }
        }
        Ok(self.is_unfinished() && is_kept(place, &self.kept_at(path))?)
    }

    /// The canonical path of something in the directory.
    fn full(&self, path: &Path) -> PathBuf {
        Path::new("/").join(self.place.path()).join(path)
    }

    /// Returns the place of a file of ours: its path, unless another one is laid over that.
    fn at(&self, directory: &Arc<Tree>, path: &Path) -> PathHandle {
        self.store.overlays.base(&self.full(path)).unwrap_or_else(|| directory.place(path))
    }

    fn is_overlaid(&self, path: &Path) -> bool {
        self.store.overlays.lie_over(&self.full(path))
    }

    /// Returns the files that are to go, and wait for what is laid over them.
    pub(crate) fn waiting(&self) -> Vec<PathBuf> {
        let Some(manifest) = &self.manifest else { return Vec::new() };
        // Another archive may have it by now.
        let is_left = |path: &&PathBuf| manifest.made.contains_key(*path) && self.is_overlaid(path);
        manifest.waiting.iter().filter(is_left).map(|path| self.full(path)).collect()
    }

    /// Returns true if all that is left of what was extracted waits for what is laid over it.
    pub(crate) fn has_nothing_but_waiting(&self) -> bool {
        let waits = |manifest: &Manifest| {
            let is_left = |path: &PathBuf| manifest.waiting.contains(path);
            !manifest.unfinished && !manifest.made.is_empty() && manifest.made.keys().all(is_left)
        };
        self.manifest.as_ref().is_some_and(waits) && !self.waiting().is_empty()
    }

    /// Returns the place of a file on its way that will be the base of what is laid over it.
    fn base_on_its_way(&self) -> PathHandle {
        self.manifest_place.with_suffix(".file")
    }

    fn kept_at(&self, path: &Path) -> PathHandle {
        self.store.kept(&self.full(path))
    }

    /// What the other archives have in the directory.
    fn owners(&self) -> Result<Owners, MoveError> {
        Ok(Owners::in_tree(self.store, &self.id, &self.full(Path::new("")))?)
    }

    /// An empty directory on the file system of the one that is extracted to; whatever an earlier run has left there is removed.
    pub(crate) fn staging(&self) -> Result<Staged, PathError> {
        let place = self.staging_place()?;
        place.remove_all()?;
        place.create_directory(0o700)?;
        Ok(Staged { tree: place.as_tree()?, place, made: BTreeMap::new() })
    }

    /// Beside the directory or, where that is on another file system, in it.
    fn staging_place(&self) -> Result<PathHandle, PathError> {
        let inside = self.store.root.place(&self.place.path().join(&self.staging_name));
        let beside = self.place.sibling(self.staging_name.as_ref());
        if self.place.path().file_name().is_none() {
            return Ok(inside);
        }
        let device = |place: &PathHandle| Ok::<_, PathError>(place.stat()?.map(|looks: FileStat| looks.device));
        let above = self.store.root.place(self.place.path().parent().unwrap_or(Path::new("")));
        match device(&self.place)? {
            // The root itself cannot be looked at by a name.
            Some(device_here) if above.path().file_name().is_some() && device(&above)? != Some(device_here) => {
                Ok(inside)
            }
            Some(_) if above.path().file_name().is_none() && self.is_mount_point() => Ok(inside),
            _ => Ok(beside),
        }
    }

    /// Whether a directory directly below the root is on another file system: nothing can be moved there.
    fn is_mount_point(&self) -> bool {
        let here = self.place.stat().ok().flatten().map(|looks| looks.device);
        let root = std::fs::metadata(self.store.root.place(Path::new("")).shown());
        root.map(|root| std::os::unix::fs::MetadataExt::dev(&root)).ok() != here
    }

    /// Removes what an earlier run may have left.
    pub(crate) fn clear_staging(&self) -> Result<(), PathError> {
        if self.manifest.is_some() {
            self.base_on_its_way().remove()?;
        }
        self.staging_place()?.remove_all()
    }

    /// Puts a version into place; none is that everything goes that we made. The orphans that something was taken over from.
    ///
    /// # Errors
    /// If a person's work would be lost and `force` is not given, another archive has brought the same, or something fails. Then, unless
    /// files were being moved already, nothing has been touched.
    pub(crate) fn install(
        &mut self,
        staged: Option<&Staged>,
        recipe: &str,
        force: bool,
    ) -> Result<BTreeSet<String>, MoveError> {
        let none = BTreeMap::new();
        let wanted = staged.map_or(&none, |staged| &staged.made);
        let owners = self.owners()?;
        let plan = self.plan(wanted, &owners)?;
        if !force && !plan.losses.is_empty() {
            return Err(MoveError::NeedsForce(plan.losses));
        }
        self.keep_bases(&plan)?;
        let old = self.manifest.take().unwrap_or_default();
        let mut union = old.clone();
        union.unfinished = true;
        union.leaving = old.made.keys().filter(|path| !wanted.contains_key(*path)).cloned().collect();
        let orphaned = plan.orphaned.iter().map(|(path, (_, states))| (path, &states[..]));
        let made = plan.made.iter().map(|(path, made)| (path, std::slice::from_ref(made)));
        for (path, new) in orphaned.chain(made) {
            let states = union.made.entry(path.clone()).or_default();
            for made in new {
                if !states.contains(made) {
                    states.push(made.clone());
                }
            }
        }
        union.save(&self.manifest_place)?;
        self.manifest = Some(union);
        self.claim(&plan)?;
        let orphans = self.take_from_orphans(&plan)?;
        self.store.has_changed.set(true);
        if let Some(directory) = self.directory.clone() {
            self.carry_out(&plan, &directory, staged)?;
        }
        if let Some(staged) = staged {
            staged.place.remove_all()?;
        }
        self.finish(plan, recipe, staged.is_some(), &owners)?;
        Ok(orphans)
    }

    /// Has everything taken away that was extracted, but for what something is laid over; whether there was anything.
    ///
    /// # Errors
    /// As [`Site::install`]; also if what was there before cannot be put back, as the directory is somewhere else by now.
    pub(crate) fn remove(&mut self, force: bool) -> Result<bool, MoveError> {
        if self.manifest.is_none() {
            // Whoever was killed may have left empty folders.
            Store::remove(&self.manifest_place)?;
            self.kept_at(Path::new("x")).remove_empty_folders(Path::new(""));
            return Ok(false);
        }
        let here = self.full(Path::new(""));
        let is_elsewhere = self.store.root.canonical(&here, true)? != here;
        if is_elsewhere || (self.directory.is_none() && self.place.exists()?) {
            if self.keeps_anything()? {
                let words = "is no directory any more, or behind a symlink: what was there before cannot be put back";
                return Err(MoveError::Failed(format!("{} {words}", self.place.shown().display())));
            }
            self.directory = None;
        } else if self.directory.is_none() && self.keeps_anything()? {
            self.place.create_folder()?;
            self.place.create_directory(0o755)?;
            self.enter()?;
        }
        let listed = self.manifest.as_ref().map_or(0, |manifest| manifest.made.len());
        self.install(None, "", force)?;
        Ok(listed == 0 || self.manifest.as_ref().is_none_or(|manifest| manifest.made.len() < listed))
    }

    fn keeps_anything(&self) -> Result<bool, PathError> {
        for path in self.manifest.iter().flat_map(|manifest| manifest.made.keys()) {
            if self.kept_at(path).exists()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What of a person's would be lost if everything went that we made.
    pub(crate) fn losses_of_removal(&self) -> Result<Vec<PathBuf>, MoveError> {
        Ok(self.plan(&BTreeMap::new(), &self.owners()?)?.losses)
    }

    /// Takes note of directories. They are on the manifest already: whoever removes those that nobody needs leaves them.
    fn claim(&self, plan: &Plan) -> Result<(), MoveError> {
        let _alone = self.store.shared.directories();
        Ok(self.store.claim_directories(plan.directories.iter().map(|path| self.full(path)))?)
    }

    /// Takes what is ours from now on off the manifests of orphans, lest they take it away.
    fn take_from_orphans(&self, plan: &Plan) -> Result<BTreeSet<String>, MoveError> {
        let ids: BTreeSet<String> = plan.orphaned.values().flat_map(|(ids, _)| ids).cloned().collect();
        for id in &ids {
            let Some(orphan): Option<Remembered<Record>> = self.store.memory.recall(id)? else { continue };
            let here = self.full(Path::new(""));
            for tree in orphan.base.trees.iter().map(Path::new).filter(|tree| *id != self.id || *tree != here) {
                let place = self.store.manifest(id, tree);
                let Some(mut manifest) = Manifest::load(&place)? else { continue };
                let before = manifest.made.len();
                manifest.made.retain(|path, _| {
                    let full = tree.join(path);
                    let path = full.strip_prefix(&here);
                    !path.is_ok_and(|path| plan.orphaned.get(path).is_some_and(|(ids, _)| ids.contains(id)))
                });
                if manifest.made.len() < before {
                    manifest.save(&place)?;
                }
            }
        }
        Ok(ids)
    }

    fn keep_bases(&self, plan: &Plan) -> Result<(), MoveError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        if self.store.has_kept()? {
            // Whoever was killed may have kept something, and not come to bringing anything.
            for path in plan.made.keys().filter(|path| !self.is_known(path) && !plan.foreign.contains(path)) {
                if !plan.orphaned.contains_key(path) {
                    self.store.let_go(&self.full(path))?;
                }
            }
        }
        for path in &plan.foreign {
            keep(&self.at(directory, path), &self.kept_at(path))?;
        }
        let kept: Vec<PathHandle> = plan.foreign.iter().map(|path| self.kept_at(path)).collect();
        Durability::of(kept.len()).sync([], &kept)?;
        Ok(())
    }

    fn is_known(&self, path: &Path) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.made.contains_key(path))
    }

    /// Step 4.
    fn carry_out(&self, plan: &Plan, directory: &Arc<Tree>, staged: Option<&Staged>) -> Result<(), MoveError> {
        if let Some(staged) = staged {
            let places: Vec<PathHandle> = plan.moved.iter().map(|path| staged.tree.place(path)).collect();
            Durability::of(places.len()).sync(&places, [])?;
        }
        for path in &plan.in_the_way {
            self.take_away(&directory.place(path))?;
        }
        for path in &plan.directories {
            let place = directory.place(path);
            place.create_directory(0o700)?;
            if let Some(Made { thing: crate::made::Thing::Directory { mode }, owner }) = plan.made.get(path) {
                place.give_to(owner.uid, owner.gid)?;
                place.change_mode(*mode)?;
            }
        }
        let mut touched = Vec::new();
        if let Some(staged) = staged {
            for path in &plan.moved {
                let (from, place) = (staged.tree.place(path), self.at(directory, path));
                if self.is_overlaid(path) {
                    copy(&from, &self.base_on_its_way(), &place)?;
                } else {
                    move_into(&from, &place)?;
                }
                touched.push(place);
            }
        }
        touched.extend(plan.directories.iter().map(|path| directory.place(path)));
        Durability::of(touched.len()).sync([], &touched)?;
        let mut left = Vec::new();
        for path in &plan.gone {
            let (place, kept) = (directory.place(path), self.kept_at(path));
            if kept.exists()? {
                put_back(&kept, &place)?;
            } else {
                place.remove()?;
            }
            left.push(place);
        }
        // What cannot be looked at any more, as its directory went too, needs no syncing.
        let left: Vec<&PathHandle> = left.iter().filter(|place| place.exists().unwrap_or(false)).collect();
        Durability::of(left.len()).sync([], left)?;
        for path in &plan.gone_directories {
            let (place, kept) = (directory.place(path), self.kept_at(path));
            let is_gone = place.remove_directory()?;
            // A directory of ours may stand where a file was before.
            if kept.exists()? {
                if !is_gone {
                    let words = "is a directory that is not empty: what was there before cannot be put back";
                    return Err(MoveError::Failed(format!("{} {words}", place.shown().display())));
                }
                put_back(&kept, &place)?;
                Durability::Each.sync([], [&place])?;
            }
        }
        Ok(())
    }

    fn take_away(&self, place: &PathHandle) -> Result<(), MoveError> {
        match place.stat()?.map(|looks| looks.kind) {
            None => Ok(()),
            Some(Kind::Directory) if !place.remove_directory()? => {
                Err(MoveError::Failed(format!("{} is a directory that is not empty", place.shown().display())))
            }
            Some(Kind::Directory) => Ok(()),
            Some(_) => Ok(place.remove()?),
        }
    }

    /// Step 5.
    fn finish(&mut self, plan: Plan, recipe: &str, is_version: bool, owners: &Owners) -> Result<(), MoveError> {
        let mut made: BTreeMap<PathBuf, Vec<Made>> =
            plan.made.into_iter().map(|(path, made)| (path, vec![made])).collect();
        let waiting: BTreeSet<PathBuf> = plan.waiting.keys().cloned().collect();
        made.extend(plan.waiting);
        let is_left = is_version || !waiting.is_empty();
        if let Some(directory) = &self.directory {
            Durability::Each.sync([], [&directory.place(Path::new("x"))])?;
        }
        // Those that a killed run has not come to removing, too.
        let earlier = self.manifest.iter().flat_map(|manifest| &manifest.dropped);
        let mut dropped: Vec<PathBuf> = earlier.filter(|path| !made.contains_key(*path)).cloned().collect();
        if self.store.has_kept()? {
            for path in self.manifest.iter().flat_map(|manifest| manifest.made.keys()) {
                // What another archive has brought there by now is in the place of what is kept.
                if !made.contains_key(path)
                    && !dropped.contains(path)
                    && !owners.has(&self.full(path))
                    && self.kept_at(path).exists()?
                {
                    dropped.push(path.clone());
                }
            }
        }
        if is_left || !dropped.is_empty() {
            let manifest = Manifest { recipe: recipe.to_owned(), made, dropped, waiting, ..Manifest::default() };
            manifest.save(&self.manifest_place)?;
            self.manifest = Some(manifest);
            self.sweep()?;
        }
        if !is_left {
            Store::remove(&self.manifest_place)?;
            self.manifest = None;
        }
        Ok(())
    }

    /// Removes what is kept and was put back. What is on the manifest is ours alone from here on.
    pub(crate) fn sweep(&mut self) -> Result<(), PathError> {
        let is_swept = |manifest: &Manifest| manifest.dropped.is_empty() && manifest.leaving.is_empty();
        let Some(manifest) = self.manifest.as_mut().filter(|manifest| !manifest.unfinished && !is_swept(manifest))
        else {
            return Ok(());
        };
        manifest.leaving.clear();
        let dropped = std::mem::take(&mut manifest.dropped);
        dropped.iter().try_for_each(|path| self.store.let_go(&self.full(path)))?;
        self.manifest.iter().try_for_each(|manifest| manifest.save(&self.manifest_place))
    }
}

/// Moves a file, in one step; where another file system is mounted in between, by a copy.
fn move_into(from: &PathHandle, to: &PathHandle) -> Result<(), MoveError> {
    match from.rename_to(to) {
        Err(error) if error.error.kind() == std::io::ErrorKind::CrossesDevices => {
            put_back(from, to)?;
            Ok(())
        }
        other => Ok(other?),
    }
}

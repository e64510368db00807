//! A directory that an archive is extracted to: what of it is ours, and how it gets from one version to another.
//!
//! The steps are in an order that a kill at any moment does no harm to; each is on disk before the next one is begun:
//!
//! 1. The new version is extracted into a staging directory. Nothing else has been touched yet.
//! 2. What was there before us, and is about to be replaced, is kept.
//! 3. The manifest lists what may be there from now on: the old version and the new one. Whoever finds a file that is either, or is what was
//!    kept, knows that it is no person's work.
//! 4. Files are moved into place one by one, each in one step; then those go that the new version does not have.
//! 5. The manifest lists the new version alone.

mod plan;

use crate::made::Made;
use crate::manifest::Manifest;
use crate::record::{Store, is_kept, keep, put_back};
use holo_plugin::error::PathError;
use holo_plugin::{Durability, Kind, Looks, Place, Tree, Unmanageable};
use plan::Plan;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that is, or will be, extracted to.
pub(crate) struct Site<'a> {
    store: &'a Store,
    /// The directory, if it exists.
    directory: Option<Arc<Tree>>,
    place: Place,
    manifest_place: Place,
    kept: Place,
    pub(crate) manifest: Option<Manifest>,
    staging_name: String,
}

/// What has become of what was extracted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Drift {
    /// What a person changed.
    pub(crate) changed: Vec<PathBuf>,
    /// Whether something is missing.
    pub(crate) is_missing: bool,
}

/// What is to be moved into place.
pub(crate) struct Staged {
    pub(crate) tree: Arc<Tree>,
    place: Place,
    pub(crate) made: BTreeMap<PathBuf, Made>,
}

/// Why a version was not put into place.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A person's work would be lost: these paths.
    NeedsForce(Vec<PathBuf>),
    /// It cannot be done.
    Failed(String),
}

impl From<PathError> for Refusal {
    fn from(error: PathError) -> Self {
        Refusal::Failed(error.to_string())
    }
}

impl From<Unmanageable> for Refusal {
    fn from(error: Unmanageable) -> Self {
        Refusal::Failed(error.to_string())
    }
}

impl<'a> Site<'a> {
    pub(crate) fn open(store: &'a Store, id: &str, directory: &str) -> Result<Site<'a>, PathError> {
        let place = store.root.place(Path::new(directory)).followed()?;
        let manifest_place = store.manifest(id, directory);
        let manifest = Manifest::load(&manifest_place)?;
        let name: String = crate::checksum::sha256(id.as_bytes()).chars().take(16).collect();
        let staging_name = format!(".holo-{name}");
        let kept = store.kept(id, directory);
        let mut site = Site { store, directory: None, place, manifest_place, kept, manifest, staging_name };
        site.enter()?;
        Ok(site)
    }

    /// Opens the directory if it exists by now.
    pub(crate) fn enter(&mut self) -> Result<(), PathError> {
        let is_top = self.place.path().as_os_str().is_empty();
        if self.directory.is_none() && (is_top || self.place.exists()?) {
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
            match &self.directory {
                None => drift.is_missing = true,
                Some(directory) => {
                    let place = directory.place(path);
                    if place.looks()?.is_none() {
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
    fn is_ours(&self, path: &Path, place: &Place, states: &[Made]) -> Result<bool, PathError> {
        for made in states {
            if made.is_at(place, &self.store.known)? {
                return Ok(true);
            }
        }
        Ok(self.is_unfinished() && is_kept(place, &self.kept_at(path))?)
    }

    fn kept_at(&self, path: &Path) -> Place {
        self.store.below(&self.kept, path)
    }

    /// An empty directory on the file system of the one that is extracted to; whatever an earlier run has left there is removed.
    pub(crate) fn staging(&self) -> Result<Staged, PathError> {
        let place = self.staging_place()?;
        place.remove_all()?;
        place.create_directory(0o700)?;
        Ok(Staged { tree: place.as_tree()?, place, made: BTreeMap::new() })
    }

    /// Beside the directory or, where that is on another file system, in it.
    fn staging_place(&self) -> Result<Place, PathError> {
        let inside = self.store.root.place(&self.place.path().join(&self.staging_name));
        let beside = self.place.sibling(self.staging_name.as_ref());
        if self.place.path().file_name().is_none() {
            return Ok(inside);
        }
        let device = |place: &Place| Ok::<_, PathError>(place.looks()?.map(|looks: Looks| looks.device));
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
        let here = self.place.looks().ok().flatten().map(|looks| looks.device);
        let root = std::fs::metadata(self.store.root.place(Path::new("")).shown());
        root.map(|root| std::os::unix::fs::MetadataExt::dev(&root)).ok() != here
    }

    /// Removes what an earlier run may have left.
    pub(crate) fn clear_staging(&self) -> Result<(), PathError> {
        self.staging_place()?.remove_all()
    }

    /// Puts a version into place; none is that everything goes that we made.
    ///
    /// # Errors
    /// If a person's work would be lost and `force` is not given, or something fails. Then, unless files were being moved already, nothing
    /// has been touched.
    pub(crate) fn install(&mut self, staged: Option<&Staged>, recipe: &str, force: bool) -> Result<(), Refusal> {
        let none = BTreeMap::new();
        let wanted = staged.map_or(&none, |staged| &staged.made);
        let plan = self.plan(wanted)?;
        if !force && !plan.losses.is_empty() {
            return Err(Refusal::NeedsForce(plan.losses));
        }
        self.keep_bases(&plan)?;
        let old = self.manifest.take().unwrap_or_default();
        let mut union = old.clone();
        union.unfinished = true;
        for (path, made) in &plan.made {
            let states = union.made.entry(path.clone()).or_default();
            if !states.contains(made) {
                states.push(made.clone());
            }
        }
        union.save(&self.manifest_place)?;
        self.manifest = Some(union);
        if let Some(directory) = self.directory.clone() {
            self.carry_out(&plan, &directory, staged)?;
        }
        if let Some(staged) = staged {
            staged.place.remove_all()?;
        }
        self.finish(plan, recipe, staged.is_some())?;
        Ok(())
    }

    /// What of a person's would be lost if everything went that we made.
    pub(crate) fn losses_of_removal(&self) -> Result<Vec<PathBuf>, Refusal> {
        Ok(self.plan(&BTreeMap::new())?.losses)
    }

    fn keep_bases(&self, plan: &Plan) -> Result<(), Refusal> {
        let Some(directory) = &self.directory else { return Ok(()) };
        for path in &plan.foreign {
            keep(&directory.place(path), &self.kept_at(path))?;
        }
        let kept: Vec<Place> = plan.foreign.iter().map(|path| self.kept_at(path)).collect();
        Durability::of(kept.len()).sync([], &kept)?;
        Ok(())
    }

    /// Step 4.
    fn carry_out(&self, plan: &Plan, directory: &Arc<Tree>, staged: Option<&Staged>) -> Result<(), Refusal> {
        if let Some(staged) = staged {
            let places: Vec<Place> = plan.moved.iter().map(|path| staged.tree.place(path)).collect();
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
                let place = directory.place(path);
                move_into(&staged.tree.place(path), &place)?;
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
        let left: Vec<&Place> = left.iter().filter(|place| place.exists().unwrap_or(false)).collect();
        Durability::of(left.len()).sync([], left)?;
        for path in &plan.gone_directories {
            directory.place(path).remove_directory()?;
        }
        Ok(())
    }

    fn take_away(&self, place: &Place) -> Result<(), Refusal> {
        match place.looks()?.map(|looks| looks.kind) {
            None => Ok(()),
            Some(Kind::Directory) if !place.remove_directory()? => {
                Err(Refusal::Failed(format!("{} is a directory that is not empty", place.shown().display())))
            }
            Some(Kind::Directory) => Ok(()),
            Some(_) => Ok(place.remove()?),
        }
    }

    /// Step 5.
    fn finish(&mut self, plan: Plan, recipe: &str, is_version: bool) -> Result<(), Refusal> {
        let mut made: BTreeMap<PathBuf, Vec<Made>> =
            plan.made.into_iter().map(|(path, made)| (path, vec![made])).collect();
        if let Some(directory) = &self.directory {
            Durability::Each.sync([], [&directory.place(Path::new("x"))])?;
            // Directories that somebody has put something into are still ours, to be removed when they are empty.
            for path in &plan.gone_directories {
                if let Some(states) = self.manifest.as_ref().and_then(|manifest| manifest.made.get(path))
                    && directory.place(path).looks()?.is_some_and(|looks| looks.kind == Kind::Directory)
                {
                    made.insert(
                        path.clone(),
                        states.iter().filter(|made| made.is_directory()).take(1).cloned().collect(),
                    );
                }
            }
        }
        if is_version {
            let manifest = Manifest { recipe: recipe.to_owned(), unfinished: false, made };
            manifest.save(&self.manifest_place)?;
            self.manifest = Some(manifest);
            self.sweep()?;
        } else {
            Store::let_go(&self.manifest_place)?;
            self.manifest = None;
            Store::let_go(&self.kept)?;
        }
        Ok(())
    }

    /// Removes what is kept and was put back.
    pub(crate) fn sweep(&self) -> Result<(), PathError> {
        if self.is_unfinished() || !self.kept.exists()? {
            return Ok(());
        }
        let made = self.manifest.as_ref().map(|manifest| &manifest.made);
        let mut open = vec![PathBuf::new()];
        while let Some(folder) = open.pop() {
            let inside = self.kept_at(&folder.join("x"));
            let names = inside.siblings()?;
            if names.is_empty() {
                inside.remove_empty_folders(Path::new(""));
            }
            for name in names {
                let path = folder.join(name);
                let kept = self.kept_at(&path);
                if kept.looks()?.is_some_and(|looks| looks.kind == Kind::Directory) {
                    open.push(path);
                } else if made.is_none_or(|made| !made.contains_key(&path)) {
                    Store::let_go(&kept)?;
                }
            }
        }
        Ok(())
    }
}

/// Moves a file, in one step; where another file system is mounted in between, by a copy.
fn move_into(from: &Place, to: &Place) -> Result<(), Refusal> {
    match from.rename_to(to) {
        Err(error) if error.error.kind() == std::io::ErrorKind::CrossesDevices => {
            put_back(from, to)?;
            Ok(())
        }
        other => Ok(other?),
    }
}

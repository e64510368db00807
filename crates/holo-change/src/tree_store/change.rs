//! A change that installs a version, which is created in a staging directory.

mod places;
mod steps;

use super::location::TreeLocation;
use super::owners::PathOwners;
use super::plan::Plan;
use super::{OwnedTree, TreeError};
use crate::claims::Claims;
use crate::error::{PathError, Result};
use crate::group::commit;
use crate::manifest::{Manifest, ManifestEntry};
use crate::path_handle::{FileStat, PathHandle, Tree};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use steps::sweep_bases;

/// A version to be installed.
#[derive(Default)]
pub struct NewVersion {
    /// The staged version; `None` if the tree is to be removed.
    pub staged: Option<StagedTree>,
    /// All inputs that determine the version.
    pub recipe: String,
    /// The claims of entities of other plugins.
    pub claims: Arc<Claims>,
    /// True if manual changes may be overwritten.
    pub force: bool,
}

/// The data for the steps of a change.
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
    /// Installs a version. Returns the entities from which paths were taken over. `has_begun` is set as soon as files
    /// may have been changed.
    ///
    /// # Errors
    /// If manual changes would be lost, another entity has one of the paths, or an operation fails. No file has been
    /// changed in this case, unless files were already being moved.
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

    /// Removes the tree, except for files with overlays. Returns true if there were files to remove.
    ///
    /// # Errors
    /// Those of [`OwnedTree::install`]; also if bases cannot be restored because the directory has moved.
    pub fn remove(
        &mut self,
        force: bool,
        owners: &Rc<PathOwners>,
        claims: Arc<Claims>,
        has_begun: &Rc<Cell<bool>>,
    ) -> std::result::Result<bool, TreeError> {
        let Some(manifest) = &self.manifest else {
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

    /// Removes bases that are no longer needed. Afterwards, other entities can no longer take over the paths that this
    /// version does not contain. The owners are only read if there are such bases.
    ///
    /// # Errors
    /// If a base cannot be removed, or the owners cannot be read.
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
        manifest.leaving = BTreeSet::new();
        Ok(self.location.manifest.save(manifest)?)
    }
}

impl TreeLocation {
    fn has_bases(&self, manifest: &Manifest) -> Result<bool> {
        if !self.store.bases.are_any()? {
            return Ok(false);
        }
        for path in manifest.entries.keys() {
            if self.has_base(path)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A version in its staging directory.
pub struct StagedTree {
    tree: Arc<Tree>,
    path: PathHandle,
    /// The entries of the version, by path.
    pub entries: BTreeMap<PathBuf, ManifestEntry>,
}

impl StagedTree {
    /// Returns the directory.
    #[must_use]
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// Returns true if files in the directory inherit their group or an ACL from it.
    pub(super) fn inherits(&self) -> bool {
        self.tree.place(Path::new("x")).inherits()
    }

    pub(super) fn remove(&self) -> Result<()> {
        self.path.remove_all()
    }
}

impl OwnedTree {
    /// Creates an empty staging directory on the file system of the target directory. That of an earlier run is
    /// removed.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn staging(&self) -> Result<StagedTree> {
        let path = self.staging_path()?;
        path.remove_all()?;
        path.create_directory(0o700)?;
        Ok(StagedTree { tree: path.as_tree()?, path, entries: BTreeMap::new() })
    }

    /// Removes the staging directory of an earlier run.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn clear_staging(&self) -> Result<()> {
        if self.manifest().is_some() {
            self.location.overlay_base_on_its_way().remove()?;
        }
        self.staging_path()?.remove_all()
    }

    /// Returns a path next to the directory or, if its parent is on another file system, in the directory.
    fn staging_path(&self) -> Result<PathHandle> {
        let (root, path) = (self.location.store.root(), &self.location.path);
        let name = self.location.staging_name();
        let inside = root.place(&path.path().join(&name));
        let beside = path.sibling(name.as_ref());
        if path.path().file_name().is_none() {
            return Ok(inside);
        }
        let device = |path: &PathHandle| Ok(path.stat()?.map(|stat: FileStat| stat.device));
        let above = root.place(path.path().parent().unwrap_or(Path::new("")));
        match device(path)? {
            // The root itself has no name for a stat call.
            Some(device_here) if above.path().file_name().is_some() && device(&above)? != Some(device_here) => {
                Ok(inside)
            }
            Some(_) if above.path().file_name().is_none() && self.is_mount_point() => Ok(inside),
            _ => Ok(beside),
        }
    }

    /// Returns true if a directory directly below the root is on another file system.
    fn is_mount_point(&self) -> bool {
        let here = self.location.path.stat().ok().flatten().map(|stat| stat.device);
        let root = std::fs::metadata(self.location.store.root().place(Path::new("")).shown());
        root.map(|root| std::os::unix::fs::MetadataExt::dev(&root)).ok() != here
    }
}

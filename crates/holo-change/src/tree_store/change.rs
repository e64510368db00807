//! A change that installs a version.

mod places;
mod steps;

use super::TreeError;
use super::location::TreeLocation;
use super::owned_tree::OwnedTree;
use super::owners::PathOwners;
use super::plan::Plan;
use super::staging::StagedTree;
use crate::claims::Claims;
use crate::error::{PathError, Result};
use crate::group::commit;
use crate::manifest::Manifest;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use steps::sweep_bases;

/// A version to be installed.
#[derive(Default)]
pub struct NewVersion {
    /// The staged version; `None` if the tree is to be removed.
    pub staged: Option<StagedTree>,
    /// All inputs that determine the version.
    pub recipe: String,
    /// The claims of entities of other plugins.
    pub claims: Claims,
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
        claims: Claims,
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

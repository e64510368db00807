//! The plan of a change: the required operations, and the manual changes that they would overwrite. Files that belong to the user are not
//! touched, and a preview lists the paths that would change.

use super::location::{TreeError, TreeLocation};
use super::owners::{Adoption, PathOwners};
use super::{Drift, OwnedTree};
use crate::claims::{Claim, Claims};
use crate::error::PathError;
use crate::image::Stamp;
use crate::manifest::{Manifest, ManifestEntry};
use crate::path_handle::{Kind, PathHandle, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The operations in a directory, by paths relative to it.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The entries of the resulting manifest.
    pub(super) entries: BTreeMap<PathBuf, ManifestEntry>,
    /// Files and symlinks to be moved from the staging directory.
    pub(super) moved: BTreeSet<PathBuf>,
    /// Directories to be created.
    pub(super) directories: BTreeSet<PathBuf>,
    /// Those directories that can be moved from the staging directory with all of their contents, because they do not
    /// exist yet.
    pub(super) whole: BTreeSet<PathBuf>,
    /// Paths to be removed before all other operations, deepest first.
    pub(super) in_the_way: Vec<PathBuf>,
    /// Files and symlinks that the new version does not contain.
    pub(super) gone: BTreeSet<PathBuf>,
    /// Directories that the new version does not contain.
    pub(super) gone_directories: BTreeSet<PathBuf>,
    /// Files that are only kept because of an overlay, and their parent directories.
    pub(super) waiting: BTreeMap<PathBuf, Vec<ManifestEntry>>,
    /// Original files that become bases.
    pub(super) foreign: Vec<PathBuf>,
    /// Paths that are taken over from orphans: the orphans, and the possible states of the path.
    pub(super) orphaned: BTreeMap<PathBuf, (Vec<String>, Vec<ManifestEntry>)>,
    /// Paths that are taken over from entities of other plugins, and their current states.
    pub(super) adopted: BTreeMap<PathBuf, (Adoption, Option<ManifestEntry>)>,
    /// Paths with manual changes that would be lost.
    pub(super) losses: Vec<PathBuf>,
}

/// The current and the desired tree.
struct Planning<'a> {
    location: &'a TreeLocation,
    directory: &'a Arc<Tree>,
    is_unfinished: bool,
    wanted: &'a BTreeMap<PathBuf, ManifestEntry>,
    /// The most recent directory that was missing; no path below it can exist.
    missing: Option<PathBuf>,
    claims: &'a Claims,
    plan: Plan,
}

impl Plan {
    /// Plans the change of a tree with this manifest to a version with these entries.
    pub(super) fn new(
        location: &TreeLocation,
        manifest: Option<&Manifest>,
        wanted: &BTreeMap<PathBuf, ManifestEntry>,
        owners: &PathOwners,
        claims: &Claims,
    ) -> Result<Plan, TreeError> {
        reject_conflicts(location, wanted, owners, claims)?;
        let Some(directory) = &location.directory else { return Ok(Plan::default()) };
        let none = BTreeMap::new();
        let listed = manifest.map_or(&none, |manifest| &manifest.entries);
        let is_unfinished = manifest.is_some_and(|manifest| manifest.unfinished);
        let plan = Plan::default();
        let mut planning = Planning { location, directory, is_unfinished, wanted, claims, missing: None, plan };
        let made_directories = location.store.made_directories()?;
        for (path, entry) in wanted {
            let mut states = listed.get(path).cloned();
            let full = location.full(path);
            for orphaned in owners.orphaned_at(&full)? {
                let (ids, all) = planning.plan.orphaned.entry(path.clone()).or_default();
                ids.push(orphaned.id.clone());
                all.extend_from_slice(&orphaned.states);
                states.get_or_insert_default().extend_from_slice(&orphaned.states);
            }
            let is_adopted = states.is_none() && planning.plan_adopted(path, entry.is_directory())?;
            planning.plan_wanted(path, entry, states.as_deref(), is_adopted || made_directories.contains(&full))?;
        }
        for (path, states) in listed.iter().filter(|(path, _)| !wanted.contains_key(*path)) {
            let full = location.full(path);
            if location.is_overlaid(path) {
                planning.plan_waiting(path, states)?;
            } else if !owners.has(&full)? {
                planning.plan_gone(path, states)?;
            }
        }
        Ok(planning.finish(listed))
    }
}

/// Fails if another entity owns or claims one of the paths.
fn reject_conflicts(
    location: &TreeLocation,
    wanted: &BTreeMap<PathBuf, ManifestEntry>,
    owners: &PathOwners,
    claims: &Claims,
) -> Result<(), TreeError> {
    let (mut conflict, mut more) = (None, 0);
    for (path, entry) in wanted {
        let path = location.full(path);
        let rival = location.store.rival(&path, claims)?.filter(|_| !entry.is_directory());
        let claimed = || claims.conflict(&path, entry.is_directory()).or(rival).map(Claim::shown);
        let owner = owners.conflict(&path, entry.is_directory())?.or_else(claimed);
        let edit = || location.store.edit_of(&path).filter(|_| !entry.is_directory()).map(str::to_owned);
        let edit = if owner.is_none() { edit() } else { None };
        match conflict {
            _ if owner.is_none() && edit.is_none() => {}
            None => conflict = Some((path, owner, edit)),
            Some(_) => more += 1,
        }
    }
    let id = || location.id.clone();
    Err(match conflict {
        Some((path, Some(first), _)) => TreeError::BroughtByBoth { path, first, second: id(), more },
        Some((path, None, Some(edit))) => TreeError::Edited { path, edit, by: id(), more },
        Some((_, None, None)) | None => return Ok(()),
    })
}

impl Planning<'_> {
    /// Plans to take over a path from an entity of another plugin, if one holds it. Returns true if it is a directory
    /// that such an entity has created.
    fn plan_adopted(&mut self, path: &Path, is_directory_wanted: bool) -> Result<bool, TreeError> {
        let location = self.location;
        let Some(adoption) = location.store.adoption(&location.id, &location.full(path), false)? else {
            return Ok(false);
        };
        let file = location.at(self.directory, path);
        let is_directory = file.stat()?.is_some_and(|stat| stat.kind == Kind::Directory);
        // A directory that was created belongs to the last entity with files in it.
        if is_directory && (adoption.was_directory || (is_directory_wanted && !adoption.has_base())) {
            return Ok(false);
        }
        if adoption.was_directory {
            return Err(TreeError::IsDirectory(file.shown()));
        }
        if adoption.loses_changes {
            self.plan.losses.push(path.to_owned());
        }
        let current = ManifestEntry::of(&file, &*location.store.digests)?;
        self.plan.adopted.insert(path.to_owned(), (adoption, current));
        Ok(is_directory)
    }

    fn plan_wanted(
        &mut self,
        path: &Path,
        entry: &ManifestEntry,
        listed: Option<&[ManifestEntry]>,
        is_own_directory: bool,
    ) -> Result<(), TreeError> {
        let file = self.location.at(self.directory, path);
        if entry.is_directory() && self.location.is_overlaid(path) {
            return Err(TreeError::HasOverlay(self.location.full(path)));
        }
        let is_overlaid = self.location.is_overlaid(path);
        let stamp = if !is_overlaid && self.is_below_missing(path) { None } else { Stamp::of(&file)? };
        match stamp.as_ref().map(|stamp| (stamp.stat().kind, stamp)) {
            // An existing directory does not belong to the entity.
            Some((Kind::Directory, _)) if entry.is_directory() => {
                if is_own_directory {
                    self.plan.entries.insert(path.to_owned(), entry.clone());
                    // A killed run may not have set its mode yet.
                    if self.is_unfinished {
                        self.plan.directories.insert(path.to_owned());
                    }
                }
                return Ok(());
            }
            Some((Kind::Directory, _)) if is_own_directory => self.plan.in_the_way.push(path.to_owned()),
            Some((Kind::Directory, _)) => return Err(TreeError::IsDirectory(file.shown())),
            Some((Kind::Other, _)) => return Err(TreeError::NotManageable(file.shown())),
            None if entry.is_directory() => self.plan_missing(path),
            None => {}
            Some((_, stamp)) => self.plan_replaced((&file, stamp), path, entry, listed)?,
        }
        self.plan.entries.insert(path.to_owned(), entry.clone());
        if entry.is_directory() {
            self.plan.directories.insert(path.to_owned());
            return Ok(());
        }
        if is_overlaid {
            // Its parent directories must be created individually.
            self.plan.whole.retain(|whole| !path.starts_with(whole));
        }
        let is_there = stamp.map(|stamp| entry.matches(&file, &stamp, &*self.location.store.digests));
        if !is_there.transpose()?.unwrap_or(false) {
            self.plan.moved.insert(path.to_owned());
        }
        Ok(())
    }

    fn is_below_missing(&self, path: &Path) -> bool {
        self.missing.as_ref().is_some_and(|missing| path.starts_with(missing))
    }

    /// Plans a directory that does not exist.
    fn plan_missing(&mut self, path: &Path) {
        if self.is_below_missing(path) {
            return;
        }
        self.missing = Some(path.to_owned());
        // A moved directory would not inherit from its parent.
        if !self.directory.place(path).inherits() {
            self.plan.whole.insert(path.to_owned());
        }
    }

    /// Plans the removal of a file after its overlay was removed.
    fn plan_waiting(&mut self, path: &Path, states: &[ManifestEntry]) -> Result<(), TreeError> {
        if is_below_file(path, self.wanted) {
            return Err(TreeError::HasOverlay(self.location.full(path)));
        }
        self.plan.waiting.insert(path.to_owned(), states.to_vec());
        Ok(())
    }

    /// Plans the replacement of an existing file or symlink.
    fn plan_replaced(
        &mut self,
        (file, stamp): (&PathHandle, &Stamp),
        path: &Path,
        entry: &ManifestEntry,
        listed: Option<&[ManifestEntry]>,
    ) -> Result<(), TreeError> {
        if entry.is_directory() {
            self.plan.in_the_way.push(path.to_owned());
        }
        match listed {
            Some(states) => {
                // A killed orphan may have restored the base, which is kept.
                let is_orphaned = self.plan.orphaned.contains_key(path);
                let is_restored = || Ok::<_, PathError>(is_orphaned && self.location.is_base(path, file)?);
                if !self.location.is_ours(path, (file, stamp), states, self.is_unfinished)?
                    && !entry.matches(file, stamp, &*self.location.store.digests)?
                    && !is_restored()?
                {
                    self.plan.losses.push(path.to_owned());
                }
            }
            None if self.plan.adopted.contains_key(path) => {}
            None => {
                // A killed run may have already saved the same base, which is harmless.
                self.plan.foreign.push(path.to_owned());
                // The files behind a symlink would no longer be accessible through this path.
                if entry.is_directory() {
                    self.plan.losses.push(path.to_owned());
                }
            }
        }
        Ok(())
    }

    fn plan_gone(&mut self, path: &Path, states: &[ManifestEntry]) -> Result<(), TreeError> {
        // In a check, the overlay on it may be about to be removed.
        let file = &self.location.at(self.directory, path);
        let stamp = Stamp::of(file)?;
        match stamp.as_ref().map(|stamp| (stamp.stat().kind, stamp)) {
            None if self.location.has_base(path)? => drop(self.plan.gone.insert(path.to_owned())),
            None => {}
            Some((Kind::Directory, _)) if self.is_claimed(path) => {}
            Some((Kind::Directory, _)) if states.iter().any(ManifestEntry::is_directory) => {
                self.plan.gone_directories.insert(path.to_owned());
            }
            Some((Kind::Directory, _)) if self.location.has_base(path)? => {
                let obstacle = "a directory by now";
                return Err(TreeError::BaseNotRestored { path: file.shown(), obstacle });
            }
            // A directory that has replaced our file belongs to the user.
            Some((Kind::Directory, _)) => {}
            Some(_) if self.is_unfinished && self.location.is_base(path, file)? => {}
            Some((_, stamp)) => {
                if !self.location.is_ours(path, (file, stamp), states, self.is_unfinished)? {
                    self.plan.losses.push(path.to_owned());
                }
                self.plan.gone.insert(path.to_owned());
            }
        }
        Ok(())
    }

    /// Returns true if an entity of another plugin claims the path itself.
    fn is_claimed(&self, path: &Path) -> bool {
        self.claims.conflict(&self.location.full(path), false).is_some()
    }

    fn finish(self, listed: &BTreeMap<PathBuf, Vec<ManifestEntry>>) -> Plan {
        let mut plan = self.plan;
        if !plan.waiting.is_empty() {
            let is_needed = |path: &PathBuf| plan.waiting.keys().any(|waits| waits.starts_with(path));
            let (needed, gone): (BTreeSet<PathBuf>, _) =
                std::mem::take(&mut plan.gone_directories).into_iter().partition(is_needed);
            plan.gone_directories = gone;
            for path in needed {
                let states = listed.get(&path).cloned().unwrap_or_default();
                plan.waiting.insert(path, states);
            }
        }
        order_obstacles(&mut plan, self.wanted);
        plan
    }
}

/// Moves paths that conflict with new ones, or are below them, to the list of those that are removed first, deepest
/// first.
fn order_obstacles(plan: &mut Plan, wanted: &BTreeMap<PathBuf, ManifestEntry>) {
    let mut first: BTreeSet<PathBuf> = plan.in_the_way.drain(..).collect();
    for list in [&mut plan.gone, &mut plan.gone_directories] {
        let (obstacles, others): (BTreeSet<PathBuf>, _) =
            std::mem::take(list).into_iter().partition(|path| is_below_file(path, wanted));
        first.extend(obstacles);
        *list = others;
    }
    plan.in_the_way = first.into_iter().rev().collect();
}

/// Returns true if a parent of a path is not going to be a directory.
fn is_below_file(path: &Path, wanted: &BTreeMap<PathBuf, ManifestEntry>) -> bool {
    path.ancestors().skip(1).any(|above| wanted.get(above).is_some_and(|entry| !entry.is_directory()))
}

impl OwnedTree {
    /// Removes changed files from the manifest and from the drift. They belong to the user from now on, and their bases
    /// are no longer needed.
    pub fn leave_changed(&mut self, drift: &mut Drift, is_left: impl Fn(&Path) -> bool) {
        let Some(manifest) = &mut self.manifest else { return };
        let (left, changed): (Vec<PathBuf>, _) = drift.changed.drain(..).partition(|path| is_left(path));
        drift.changed = changed;
        for path in left {
            manifest.entries.remove(&path);
            manifest.dropped.push(path);
        }
    }

    /// Returns true if a path is a file or symlink that neither this entity nor one that it could take over from has
    /// created.
    ///
    /// # Errors
    /// If the path or the records cannot be read.
    pub fn is_foreign(&self, path: &Path, owners: &PathOwners) -> Result<bool, PathError> {
        let location = &self.location;
        let Some(directory) = &location.directory else { return Ok(false) };
        let stat = location.at(directory, path).stat()?;
        if !stat.is_some_and(|stat| matches!(stat.kind, Kind::File | Kind::Symlink)) {
            return Ok(false);
        }
        if self.manifest.as_ref().is_some_and(|manifest| manifest.entries.contains_key(path)) {
            return Ok(false);
        }
        let (store, full) = (&location.store, location.full(path));
        let is_held = store.holder(&full, &location.id, false)?.is_some();
        Ok(!is_held && owners.orphaned_at(&full)?.is_empty())
    }
}

impl OwnedTree {
    /// Fails if another entity owns, claims or edits one of the paths that the tree has already.
    ///
    /// # Errors
    /// The error names both.
    pub fn reject_conflicts(&self, owners: &PathOwners, claims: &Claims) -> Result<(), TreeError> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let last = |(path, states): (&PathBuf, &Vec<ManifestEntry>)| Some((path.clone(), states.last()?.clone()));
        reject_conflicts(&self.location, &manifest.entries.iter().filter_map(last).collect(), owners, claims)
    }
}

/// A path that a version would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingEntry {
    /// The canonical path.
    pub path: PathBuf,
    /// The current entry; `None` if the path does not exist, or is a special file.
    pub before: Option<ManifestEntry>,
    /// The resulting entry.
    pub after: Option<ManifestEntry>,
}

impl OwnedTree {
    /// Returns the paths that the installation of a version with these entries would change, including those with
    /// manual changes. The system is not changed.
    ///
    /// # Errors
    /// If the version could not be installed, or a path cannot be read.
    pub fn pending(
        &self,
        wanted: &BTreeMap<PathBuf, ManifestEntry>,
        owners: &PathOwners,
        claims: &Claims,
    ) -> Result<Vec<PendingEntry>, TreeError> {
        let location = &self.location;
        let plan = Plan::new(location, self.manifest.as_ref(), wanted, owners, claims)?;
        let Some(directory) = &location.directory else {
            let added = |(path, entry): (&PathBuf, &ManifestEntry)| PendingEntry {
                path: location.full(path),
                before: None,
                after: Some(entry.clone()),
            };
            return Ok(wanted.iter().map(added).collect());
        };
        let mut paths: BTreeMap<PathBuf, Option<ManifestEntry>> = BTreeMap::new();
        for path in plan.gone {
            let base = base(location, &path)?;
            paths.insert(path, base);
        }
        for path in plan.in_the_way {
            paths.insert(path, None);
        }
        for path in plan.gone_directories.into_iter().rev() {
            // Directories that are not empty are kept.
            let goes = |name: &OsString| paths.get(&path.join(name)).is_some_and(Option::is_none);
            if directory.place(&path.join("x")).siblings()?.iter().all(goes) {
                paths.insert(path, None);
            }
        }
        for path in plan.moved.into_iter().chain(plan.directories) {
            let after = wanted.get(&path).cloned();
            paths.insert(path, after);
        }
        let pending = paths.into_iter().map(|(path, after)| {
            let before = location.store.entry(&location.at(directory, &path))?;
            Ok(PendingEntry { path: location.full(&path), before, after })
        });
        pending.collect()
    }
}

/// Returns the entry that is restored when a path is removed from the tree.
fn base(location: &TreeLocation, path: &Path) -> Result<Option<ManifestEntry>, PathError> {
    if !location.has_base(path)? {
        return Ok(None);
    }
    location.store.entry(&location.store.bases.location(&location.full(path)))
}

//! The plan of an installation: what has to be done, and which changes of a user would be lost by that.

use super::ExtractedTree;
use crate::entry::ManifestEntry;
use crate::error::{ArchiveError, InstallError};
use crate::owners::PathOwners;
use holo_change::claims::Claim;
use holo_change::error::PathError;
use holo_change::{Kind, PathHandle, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The changes of a directory, by paths below it.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The entries of the manifest in the end.
    pub(super) entries: BTreeMap<PathBuf, ManifestEntry>,
    /// Files and symlinks that are to be moved from the staging directory.
    pub(super) moved: Vec<PathBuf>,
    /// Directories that are to be made, the topmost first.
    pub(super) directories: Vec<PathBuf>,
    /// Paths that have to be removed before anything else, the deepest first.
    pub(super) in_the_way: Vec<PathBuf>,
    /// Files and symlinks that the new version does not have.
    pub(super) gone: Vec<PathBuf>,
    /// Directories that the new version does not have, the deepest first.
    pub(super) gone_directories: Vec<PathBuf>,
    /// Files that would be removed if no overlay lay over them; and the directories in which they are.
    pub(super) waiting: BTreeMap<PathBuf, Vec<ManifestEntry>>,
    /// Files that were there before us, and become bases.
    pub(super) foreign: Vec<PathBuf>,
    /// Paths that orphans have brought and are ours from now on: the orphans, and the states that the paths may have.
    pub(super) orphaned: BTreeMap<PathBuf, (Vec<String>, Vec<ManifestEntry>)>,
    /// Paths with changes of a user that would be lost.
    pub(super) losses: Vec<PathBuf>,
}

impl ExtractedTree<'_> {
    pub(super) fn plan(
        &self,
        wanted: &BTreeMap<PathBuf, ManifestEntry>,
        owners: &PathOwners,
    ) -> Result<Plan, InstallError> {
        let mut plan = Plan::default();
        self.reject_conflicts(wanted, owners)?;
        let Some(directory) = &self.directory else { return Ok(plan) };
        let none = BTreeMap::new();
        let listed = self.manifest.as_ref().map_or(&none, |manifest| &manifest.entries);
        let own_directories = self.store.own_directories()?;
        for (path, entry) in wanted {
            let mut states = listed.get(path).cloned();
            for orphaned in owners.orphaned_at(&self.full(path)) {
                let (ids, all) = plan.orphaned.entry(path.clone()).or_default();
                ids.push(orphaned.id.clone());
                all.extend_from_slice(&orphaned.states);
                states.get_or_insert_default().extend_from_slice(&orphaned.states);
            }
            let is_own_directory = own_directories.contains(&self.full(path));
            self.plan_wanted(&mut plan, directory, path, entry, states.as_deref(), is_own_directory)?;
        }
        for (path, states) in listed.iter().filter(|(path, _)| !wanted.contains_key(*path)) {
            if self.is_overlaid(path) {
                self.plan_waiting(&mut plan, path, states, wanted)?;
            } else if !owners.has(&self.full(path)) {
                self.plan_gone(&mut plan, &directory.place(path), path, states)?;
            }
        }
        let (above, gone): (Vec<_>, Vec<_>) =
            plan.gone_directories.drain(..).partition(|path| plan.waiting.keys().any(|waits| waits.starts_with(path)));
        plan.gone_directories = gone;
        for path in above {
            let states = listed.get(&path).cloned().unwrap_or_default();
            plan.waiting.insert(path, states);
        }
        plan.gone_directories.reverse();
        order_obstacles(&mut plan, wanted);
        Ok(plan)
    }

    /// Fails if another archive has brought one of the paths, or an entity of another plugin claims it.
    fn reject_conflicts(
        &self,
        wanted: &BTreeMap<PathBuf, ManifestEntry>,
        owners: &PathOwners,
    ) -> Result<(), InstallError> {
        let claims = if wanted.is_empty() { Vec::new() } else { self.store.claims() };
        let mut conflicts = wanted.iter().filter_map(|(path, entry)| {
            let path = self.full(path);
            let claims_it = |claim: &&Claim| claim.covers(&path) && !(claim.is_directory && entry.is_directory());
            let claimed = || claims.iter().find(claims_it).map(Claim::shown);
            let other = owners.conflict(&path, entry.is_directory()).map(str::to_owned).or_else(claimed)?;
            Some((path, other))
        });
        let Some((path, first)) = conflicts.next() else { return Ok(()) };
        let more = conflicts.count();
        Err(ArchiveError::BroughtByBoth { path, first, second: self.id.clone(), more }.into())
    }

    fn plan_wanted(
        &self,
        plan: &mut Plan,
        directory: &Arc<Tree>,
        path: &Path,
        entry: &ManifestEntry,
        known: Option<&[ManifestEntry]>,
        is_own_directory: bool,
    ) -> Result<(), InstallError> {
        let file = self.at(directory, path);
        if entry.is_directory() && self.is_overlaid(path) {
            return Err(ArchiveError::HasOverlay(self.full(path)).into());
        }
        match file.stat()?.map(|stat| stat.kind) {
            // A directory that was there before us is not ours.
            Some(Kind::Directory) if entry.is_directory() => {
                if is_own_directory {
                    plan.entries.insert(path.to_owned(), entry.clone());
                    // A killed run may not have come to changing its mode.
                    if self.is_unfinished() {
                        plan.directories.push(path.to_owned());
                    }
                }
                return Ok(());
            }
            Some(Kind::Directory) if is_own_directory => plan.in_the_way.push(path.to_owned()),
            Some(Kind::Directory) => return Err(ArchiveError::IsDirectory(file.shown()).into()),
            Some(Kind::Other) => return Err(ArchiveError::NotManageable(file.shown()).into()),
            None => {}
            Some(_) => self.plan_replaced(plan, &file, path, entry, known)?,
        }
        plan.entries.insert(path.to_owned(), entry.clone());
        if entry.is_directory() {
            plan.directories.push(path.to_owned());
        } else if !entry.is_at(&file, &self.store.checksums)? {
            plan.moved.push(path.to_owned());
        }
        Ok(())
    }

    /// Plans the removal of a file as soon as no overlay lies over it.
    fn plan_waiting(
        &self,
        plan: &mut Plan,
        path: &Path,
        states: &[ManifestEntry],
        wanted: &BTreeMap<PathBuf, ManifestEntry>,
    ) -> Result<(), InstallError> {
        if path.ancestors().skip(1).any(|above| wanted.get(above).is_some_and(|entry| !entry.is_directory())) {
            return Err(ArchiveError::HasOverlay(self.full(path)).into());
        }
        plan.waiting.insert(path.to_owned(), states.to_vec());
        Ok(())
    }

    /// Plans the replacement of an existing file or symlink.
    fn plan_replaced(
        &self,
        plan: &mut Plan,
        file: &PathHandle,
        path: &Path,
        entry: &ManifestEntry,
        known: Option<&[ManifestEntry]>,
    ) -> Result<(), InstallError> {
        if entry.is_directory() {
            plan.in_the_way.push(path.to_owned());
        }
        match known {
            Some(states) => {
                // An orphan that was killed may have restored the base, which stays where it is.
                let is_restored = || Ok::<_, PathError>(plan.orphaned.contains_key(path) && self.is_base(path, file)?);
                if !self.is_ours(path, file, states)? && !entry.is_at(file, &self.store.checksums)? && !is_restored()? {
                    plan.losses.push(path.to_owned());
                }
            }
            None => {
                // A killed run may have saved the same base already, which does no harm.
                plan.foreign.push(path.to_owned());
                // The files behind a symlink could not be reached by this path any more.
                if entry.is_directory() {
                    plan.losses.push(path.to_owned());
                }
            }
        }
        Ok(())
    }

    fn plan_gone(
        &self,
        plan: &mut Plan,
        file: &PathHandle,
        path: &Path,
        states: &[ManifestEntry],
    ) -> Result<(), InstallError> {
        match file.stat()?.map(|stat| stat.kind) {
            None if self.has_base(path)? => plan.gone.push(path.to_owned()),
            None => {}
            Some(Kind::Directory) if states.iter().any(ManifestEntry::is_directory) => {
                plan.gone_directories.push(path.to_owned());
            }
            Some(Kind::Directory) if self.has_base(path)? => {
                let obstacle = "a directory by now";
                return Err(ArchiveError::BaseNotRestored { path: file.shown(), obstacle }.into());
            }
            // A directory that a user has put in the place of our file is not ours.
            Some(Kind::Directory) => {}
            Some(_) if self.is_unfinished() && self.is_base(path, file)? => {}
            Some(_) => {
                if !self.is_ours(path, file, states)? {
                    plan.losses.push(path.to_owned());
                }
                plan.gone.push(path.to_owned());
            }
        }
        Ok(())
    }
}

/// Moves what is at, or above, a path of something else to the paths that are removed first, the deepest of them first.
fn order_obstacles(plan: &mut Plan, wanted: &BTreeMap<PathBuf, ManifestEntry>) {
    let blocks = |path: &PathBuf| {
        path.ancestors().skip(1).any(|parent| wanted.get(parent).is_some_and(|entry| !entry.is_directory()))
    };
    let mut first: BTreeSet<PathBuf> = plan.in_the_way.drain(..).collect();
    for list in [&mut plan.gone, &mut plan.gone_directories] {
        let (blocking, others) = std::mem::take(list).into_iter().partition(|path| blocks(path));
        first.extend(Vec::from_iter::<Vec<PathBuf>>(blocking));
        *list = others;
    }
    plan.in_the_way = first.into_iter().rev().collect();
}

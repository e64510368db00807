//! Extracting a download to its directory.

use super::Deployment;
use super::fetch::LocalArchive;
use super::state::{CurrentState, DownloadState};
use super::takeover::warn_of_takeover;
use crate::error::ArchiveError;
use crate::extract::{Extraction, Selection, extract, formats};
use crate::removal::{RemovedTree, explain, pending_removal, remove_tree, warn_of_waiting};
use holo_change::manifest::Ownership;
use holo_change::tree_store::{Drift, NewVersion, OwnedTree, PathOwners, StagedTree};
use holo_change::{Durability, PathHandle};
use holo_plugin::Output;
use std::io::Seek;
use std::path::Path;
use std::sync::Arc;

/// The mode of the target directory if it is created.
const DIRECTORY_MODE: u32 = 0o755;

impl Deployment<'_> {
    /// Returns true if the directory does not match an extraction of the local download. Unknown, and therefore true,
    /// if the download is missing.
    pub(super) fn must_extract(&self, state: &CurrentState) -> bool {
        let Some(extracted) = &state.extracted else { return false };
        let recipe = match (&state.current, state.download) {
            (Some(current), DownloadState::Present) => self.recipe(&current.digests.sha256).ok(),
            (_, DownloadState::CleanedUp) => return false,
            _ => return true,
        };
        recipe.is_none_or(|recipe| must_make(extracted, &recipe, &state.drift))
    }

    /// Returns all inputs that determine the extracted tree.
    pub(super) fn recipe(&self, sha256: &str) -> Result<String, ArchiveError> {
        let Ownership { uid, gid } = self.owner()?;
        let mut recipe = format!("sha256:{sha256} strip={}", self.archive.strip_components);
        for (key, id) in [("uid", uid), ("gid", gid)] {
            if let Some(id) = id {
                recipe += &format!(" {key}={id}");
            }
        }
        for (key, globs) in [("include", &self.archive.include), ("exclude", &self.archive.exclude)] {
            if !globs.is_empty() {
                recipe += &format!(" {key}={globs:?}");
            }
        }
        if self.archive.mode.is_some() && formats::name(Path::new(&self.archive.path)).is_some() {
            recipe += &format!(" mode={:o}", self.archive.mode());
        }
        Ok(recipe)
    }

    /// Returns the options for an extraction to a directory.
    pub(super) fn extraction<'e>(
        &'e self,
        directory: &'e str,
        selection: &'e Selection<'e>,
    ) -> Result<Extraction<'e>, ArchiveError> {
        Ok(Extraction {
            top: Path::new(directory),
            strip: self.archive.strip_components,
            selection,
            download: Path::new(&self.archive.path),
            mode: self.archive.mode(),
            limits: self.archive.limits(),
            owner: self.owner()?,
            checksums: &self.store.checksums,
        })
    }

    pub(super) fn extract(
        &self,
        state: &mut CurrentState,
        local: &mut LocalArchive,
        force: bool,
        changes: &mut Vec<String>,
        output: &mut Output<'_>,
    ) -> Result<(), ArchiveError> {
        let Some(directory) = &self.archive.extract_to else { return Ok(()) };
        if !self.must_extract(state) {
            if let Some(extracted) = &mut state.extracted {
                self.store.wait_for_turn(self.id);
                extracted.reject_conflicts(&PathOwners::default(), self.store.claims())?;
                self.remove_dropped_bases(extracted)?;
                extracted.clear_staging()?;
            }
            return Ok(());
        }
        self.prepare(state)?;
        self.store.wait_for_turn(self.id);
        let recipe = self.recipe(&local.sha256)?;
        let owner = self.owner()?;
        let Some(extracted) = &mut state.extracted else { return Ok(()) };
        let top = self.store.trees.root().place(Path::new(directory));
        top.create_folder()?;
        let failed = |extracted: &OwnedTree, error: ArchiveError| {
            let _ = extracted.clear_staging();
            error.extracting(state.path.shown())
        };
        // Another archive may have created the directory while this one was waiting.
        extracted.reopen()?;
        let owners = self.store.owners_in_tree(self.id, Path::new(&self.tree()?.unwrap_or_default()))?;
        let mut staged = extracted.staging()?;
        let is_users = |path: &Path| extracted.is_foreign(path, &owners);
        let selection = Selection::new(self.archive, &is_users);
        let into_staging = self
            .extraction(directory, &selection)
            .and_then(|extraction| self.extract_into_staging(&mut staged, local, extraction, output));
        into_staging.map_err(|error| failed(extracted, error))?;
        let made = top.followed().map_err(ArchiveError::from).and_then(|top| make_top(&top, owner));
        made.map_err(|error| failed(extracted, error))?;
        extracted.reopen()?;
        let waited = extracted.waiting();
        if self.host.keeps_changes()
            && let Ok(pending) = extracted.pending(&staged.entries, &owners, self.store.claims())
        {
            pending.into_iter().for_each(|pending| self.note_change(pending));
        }
        if force {
            let losses = extracted.losses(&staged.entries, &owners, self.store.claims());
            let losses = losses.map_err(|error| explain(error, directory, output));
            let kept = losses.and_then(|losses| self.store.keep_edited(self.id, losses, output));
            kept.map_err(|error| failed(extracted, error))?;
        }
        let version = NewVersion { staged: Some(staged), recipe, claims: Arc::clone(self.store.claims()), force };
        let installed = extracted.install(version, &owners, &self.store.has_changed);
        let orphans = installed.map_err(|error| failed(extracted, explain(error, directory, output)))?;
        let mut waiting = extracted.waiting();
        waiting.retain(|path| !waited.contains(path));
        warn_of_waiting(&waiting, output);
        orphans.iter().filter(|orphan| *orphan != self.id).for_each(|orphan| warn_of_takeover(self.id, orphan, output));
        changes.push(format!("extracted {} to {directory}", self.archive.path));
        Ok(())
    }

    pub(super) fn remove_dropped_bases(&self, extracted: &mut OwnedTree) -> Result<(), ArchiveError> {
        let directory = self.tree()?.unwrap_or_default();
        extracted.remove_dropped_bases(|| self.store.read_owners_in_tree(self.id, Path::new(&directory)))
    }

    fn extract_into_staging(
        &self,
        staged: &mut StagedTree,
        local: &mut LocalArchive,
        extraction: Extraction<'_>,
        output: &mut Output<'_>,
    ) -> Result<(), ArchiveError> {
        local.file.rewind()?;
        extract(&mut local.file, staged, extraction, output)?;
        let (path, tree) = (self.path()?, self.tree()?);
        let own = tree.and_then(|tree| Path::new(&path).strip_prefix(tree).ok().map(Path::to_owned));
        match own {
            Some(own) if staged.entries.contains_key(&own) => Err(ArchiveError::ContainsItself),
            _ => Ok(()),
        }
    }

    /// Removes trees in directories that are no longer in the definition.
    pub(super) fn remove_other_trees(
        &self,
        state: &mut CurrentState,
        force: bool,
        changes: &mut Vec<String>,
        output: &mut Output<'_>,
    ) -> Result<(), ArchiveError> {
        let wanted = self.tree()?;
        for directory in state.record.trees.clone() {
            if Some(&directory) != wanted.as_ref() {
                self.store.wait_for_turn(self.id);
                state.record.untidy = true;
                self.save_record(state)?;
                if self.host.keeps_changes()
                    && let Ok(pending) = pending_removal(self.store, (self.id, &state.record), &directory)
                {
                    pending.into_iter().for_each(|pending| self.changed.borrow_mut().add_leftover(pending));
                }
                let own = (self.id, &state.record);
                let RemovedTree { has_changed, waits } = remove_tree(self.store, own, &directory, force, output)?;
                if has_changed {
                    changes.push(format!("removed the files extracted to {directory}"));
                }
                state.record.trees.retain(|tree| waits || *tree != directory);
            }
        }
        Ok(())
    }
}

/// Returns true if a tree does not match an extraction with this recipe.
pub(super) fn must_make(extracted: &OwnedTree, recipe: &str, drift: &Drift) -> bool {
    let is_same = extracted.manifest().is_some_and(|manifest| manifest.recipe == recipe);
    !is_same || extracted.is_unfinished() || drift.is_missing || !drift.changed.is_empty()
}

fn make_top(top: &PathHandle, owner: Ownership) -> Result<(), ArchiveError> {
    if top.path().file_name().is_some() && top.create_directory(DIRECTORY_MODE)? {
        top.change_mode(DIRECTORY_MODE)?;
        top.give_to(owner.uid, owner.gid)?;
        Durability::Each.sync([], [top])?;
    }
    Ok(())
}

//! Restoring bases, as safely as they were replaced, recovery after a killed run, and removal of data that is no longer needed.

#[cfg(test)]
mod tests;

use super::contents::StagedContent;
use super::state::{State, Unmanaged};
use super::steps::{self, Progress, Step};
use super::tracks::{HasTracks, Track, Tracks};
use super::{Tracker, UNTIDY};
use crate::base_store::{Remembered, readable};
use crate::error::{Notices, PathError, Result};
use crate::image::Stamp;
use crate::path_handle::{Durability, PathHandle};
use crate::paths::path_bytes;
use crate::shares::{self, SHARE};
use bstr::ByteSlice;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// The states of paths on which the decision to restore them was based.
pub type Found = BTreeMap<PathBuf, State>;

/// The files that are going to replace ours, if they are already stored next to them.
#[derive(Debug, Default)]
pub(super) struct Restoration(BTreeMap<PathBuf, PathHandle>);

impl Restoration {
    pub(super) fn discard(&mut self) {
        // The next apply finds files that cannot be removed.
        std::mem::take(&mut self.0).values().for_each(|temporary| drop(temporary.remove()));
    }
}

impl Tracker {
    /// Records that the bases of these paths are about to be restored, so that a kill is recognized. Files that are
    /// written in place are stored first.
    pub(super) fn intend_bases(
        &self,
        tracks: &mut Tracks,
        paths: &[PathBuf],
        staged: &mut Vec<StagedContent>,
    ) -> std::result::Result<(), Unmanaged> {
        for path in paths {
            let Some(track) = tracks.0.get_mut(&path_bytes(path)) else { continue };
            if track.in_place && track.base.content().is_some() {
                let current = self.state(path)?;
                if current.content().is_some() {
                    staged.extend(self.contents.stage_file(&self.place(path))?);
                    track.over = Some(current);
                }
            }
            track.intent = Some(track.base.clone());
        }
        Ok(())
    }

    /// Writes the bases to temporary files, for paths that are expected to be replaced. Returns these files.
    pub(super) fn prepare_restoration(
        &self,
        tracks: &Tracks,
        paths: &[PathBuf],
        found: &Found,
        restoration: &mut Restoration,
    ) -> std::result::Result<Vec<PathHandle>, Unmanaged> {
        for path in paths {
            let Some(track) = tracks.get(path) else { continue };
            let comes_back = matches!(track.base, State::File { .. } | State::Symlink { .. });
            if !comes_back || self.is_cut_off(tracks, path)? || !self.place(path).has_folder()? {
                continue;
            }
            let current = found.get(path).map_or_else(|| self.state(path), |found| Ok(found.clone()))?;
            let track = track.beside(&current);
            if current != track.base && step_back(path, current, None, &track).is_replaced() {
                let temporary = self.temporary(path);
                track.write_base(&temporary, &self.contents)?;
                restoration.0.insert(path.clone(), temporary);
            }
        }
        Ok(restoration.0.values().cloned().collect())
    }

    /// Restores the bases of these paths, and forgets their tracks. Files that were created in a directory are removed
    /// before it, and original files are restored after it. Symlinks that have replaced a directory are not followed.
    /// Returns the paths that have changed.
    ///
    /// Directories that we created remain while they are not empty.
    pub(super) fn restore(
        &self,
        tracks: &mut Tracks,
        paths: &[PathBuf],
        restoration: &mut Restoration,
        found: &Found,
        progress: &Progress,
    ) -> std::result::Result<Vec<PathHandle>, Unmanaged> {
        let mut paths: Vec<&PathBuf> = paths.iter().filter(|path| tracks.get(path).is_some()).collect();
        paths.sort();
        let is_gone = |path: &PathBuf| tracks.get(path).is_some_and(|track| track.base == State::Absent);
        let (gone, back): (Vec<&PathBuf>, Vec<&PathBuf>) = paths.iter().copied().partition(|path| is_gone(path));
        // Files contain no other paths, so their order is irrelevant.
        let was_file = |path: &PathBuf| {
            let provisioned = tracks.get(path).and_then(|track| track.provisioned.as_ref());
            provisioned.is_some_and(|state| matches!(state, State::File { .. }))
        };
        let (files, others): (Vec<&PathBuf>, Vec<&PathBuf>) = gone.into_iter().rev().partition(|path| was_file(path));
        // A file of another process is not the one that we created.
        let remove = |tracker: &Tracker, path: &PathBuf| {
            if tracker.is_cut_off(tracks, path)? {
                Ok(None)
            } else {
                tracker.remove_own(path, found.get(path), progress)
            }
        };
        let mut changed = self.with_each(&files, &remove)?;
        for path in others {
            changed.extend(remove(self, path)?);
        }
        for path in back {
            changed.extend(self.bring_back(tracks, path, restoration, found.get(path), progress)?);
        }
        restoration.discard();
        for path in paths {
            tracks.0.remove(&path_bytes(path));
        }
        Ok(changed)
    }

    /// Calls a function for each path, with several threads if there are many, and returns the paths that have changed.
    fn with_each(
        &self,
        paths: &[&PathBuf],
        act: &(impl Fn(&Tracker, &PathBuf) -> std::result::Result<Option<PathHandle>, Unmanaged> + Sync),
    ) -> std::result::Result<Vec<PathHandle>, Unmanaged> {
        let work = |tracker: &Tracker, share: &[&PathBuf]| {
            share.iter().filter_map(|path| act(tracker, path).transpose()).collect::<std::result::Result<Vec<_>, _>>()
        };
        let reopen = || self.reopen().ok();
        let done = shares::work_on(
            (paths.len(), shares::threads_to_free(paths.len())),
            paths.chunks(SHARE),
            (self, reopen),
            work,
        );
        Ok(done.into_iter().collect::<std::result::Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// Restores a path. Returns it if it has changed.
    fn bring_back(
        &self,
        tracks: &Tracks,
        path: &Path,
        restoration: &mut Restoration,
        found: Option<&State>,
        progress: &Progress,
    ) -> std::result::Result<Option<PathHandle>, Unmanaged> {
        let Some(track) = tracks.get(path) else { return Ok(None) };
        if self.is_cut_off(tracks, path)? {
            let words = "a directory above it is none any more";
            return Err(PathError::new("restore", self.place_itself(path).shown(), io::Error::other(words)).into());
        }
        if matches!(track.base, State::Directory { .. }) {
            // It is part of the original state, even if another entity has created it again.
            progress.take_directory(path)?;
        }
        let (current, stamp) = self.stamped(path)?;
        let track = track.beside(&current);
        if current == track.base {
            return Ok(None);
        }
        self.check_found(path, &current, found)?;
        let mut step = step_back(path, current, stamp, &track);
        step.temporary = restoration.0.remove(path);
        self.take_step_back(step).map(Some)
    }

    /// Removes a file that we created where none existed. Returns its path.
    fn remove_own(
        &self,
        path: &Path,
        found: Option<&State>,
        progress: &Progress,
    ) -> std::result::Result<Option<PathHandle>, Unmanaged> {
        let (current, stamp) = self.stamped(path)?;
        match current {
            State::Absent => Ok(None),
            State::Directory { .. } => {
                let place = self.place(path);
                if place.remove_directory()? {
                    return Ok(Some(place));
                }
                // It may contain files of other entities that are processed later.
                progress.change_directories(|made| made.add([path.to_owned()]))?;
                Ok(None)
            }
            current => {
                self.check_found(path, &current, found)?;
                let nothing = Track::new(State::Absent);
                self.take_step(&mut step_back(path, current, stamp, &nothing)).map(Some)
            }
        }
    }

    fn take_step_back(&self, mut step: Step) -> std::result::Result<PathHandle, Unmanaged> {
        let place = self.place(&step.path);
        let becomes_directory = matches!(step.desired, State::Directory { .. })
            && matches!(step.current, State::File { .. } | State::Symlink { .. });
        if becomes_directory {
            // A file cannot be replaced by a directory atomically.
            let desired = std::mem::replace(&mut step.desired, State::Absent);
            self.take_step_alone(&mut step)?;
            self.forget_directories();
            step = Step { current: State::Absent, stamp: None, desired, ..step };
        }
        if becomes_directory || (step.is_replaced() && step.temporary.is_none()) {
            self.take_step_alone(&mut step)?;
            return Ok(place);
        }
        let taken = self.take_step(&mut step);
        step.discard();
        taken
    }

    /// Fails if the state of a path has changed since the decision to restore it.
    fn check_found(&self, path: &Path, current: &State, found: Option<&State>) -> std::result::Result<(), Unmanaged> {
        if found.is_none_or(|found| found == current) {
            return Ok(());
        }
        Err(Unmanaged::Meanwhile(self.place(path).shown().display().to_string()))
    }

    /// Removes empty parent directories that were created by our plugins.
    pub(super) fn remove_own_directories(&self, among: Option<&BTreeSet<PathBuf>>) -> Result<()> {
        self.directories()?.remove_empty(|path| self.place_itself(path), among)
    }
}

/// Returns the step that restores the base of a path.
fn step_back(path: &Path, current: State, stamp: Option<Stamp>, track: &Track) -> Step {
    Step {
        path: path.to_owned(),
        current,
        stamp,
        desired: track.base.clone(),
        extended: track.extended.clone(),
        in_place: track.in_place,
        temporary: None,
    }
}

impl Tracker {
    /// Recovers the changes of a killed run: those that were made are recorded, the others are forgotten.
    ///
    /// # Errors
    /// If the state cannot be determined or recorded.
    pub fn recover_intents<T: Serialize + HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
    ) -> std::result::Result<(), Unmanaged> {
        if !remembered.base.tracks().have_intents() {
            return Ok(());
        }
        self.begin()?;
        let mut recovered = remembered.base.tracks().clone();
        let mut found_anew = Vec::new();
        for (path, track) in &mut recovered.0 {
            let path = path.to_path_lossy().into_owned();
            let Some(intent) = track.intent.take() else { continue };
            self.temporary(&path).remove()?;
            let current = self.state_of(remembered.base.tracks(), &path)?;
            let over = track.over.take();
            // Its permissions may have been changed since.
            let is_made = current.content().is_some()
                && current.content() == intent.content()
                && current.content() != track.base.content();
            let is_half_done = is_made
                || is_on_the_way(track.provisioned.as_ref().unwrap_or(&track.base), &current, &intent)
                || over.is_some_and(|over| steps::is_torn(&self.place(&path), &over, &intent, &self.contents));
            if current == intent || is_half_done {
                if matches!(intent, State::Directory { .. }) {
                    self.directories()?.take(&path)?;
                }
                track.set_provisioned(current);
            } else if track.provisioned.is_none() {
                // The path was not changed yet, so its state at the next change is the base.
                if track.base == State::Absent && matches!(current, State::Directory { .. }) {
                    self.directories()?.add([path.clone()])?;
                }
                found_anew.push(path);
            }
        }
        found_anew.iter().for_each(|path| recovered.forget(path));
        *remembered.base.tracks() = recovered;
        Ok(self.bases.keep(remembered)?)
    }

    /// Removes data that is no longer needed: contents, directories, and the records of restored entities for which
    /// `is_ours` returns true; a caller that has listed an entity processes it later. No other process may use the
    /// state directory.
    ///
    /// If there were no changes since the last call, this returns quickly.
    ///
    /// # Errors
    /// If a file cannot be read or removed.
    pub fn tidy<T: DeserializeOwned + HasTracks>(
        &self,
        is_ours: impl Fn(&str) -> bool,
        notices: &mut dyn Notices,
    ) -> Result<()> {
        let untidy = self.untidy_mark();
        if !untidy.exists()? {
            self.own.remove_empty_folders();
            return Ok(());
        }
        self.own.tidy_others()?;
        let mut used = BTreeSet::new();
        let mut gone = Vec::new();
        let all = self.bases.all::<T>(notices)?;
        for (id, mut remembered) in all {
            let tracks = remembered.base.tracks();
            used.extend(tracks.contents());
            if tracks.is_empty() && is_ours(&id) {
                gone.push(id);
            }
        }
        // No record on disk may refer to a content that is removed.
        self.bases.sync()?;
        self.contents.keep_only(&used)?;
        self.remove_own_directories(None)?;
        untidy.remove()?;
        // The records of entities are removed last: as long as one exists, the entity is scrubbed again. Without any,
        // the marker would never be removed.
        if !gone.is_empty() {
            Durability::Each.sync([], [&untidy])?;
        }
        self.bases.forget_all(&gone)?;
        self.own.remove_empty_folders();
        Ok(())
    }

    fn untidy_mark(&self) -> PathHandle {
        self.own.place(UNTIDY)
    }

    /// Creates the marker that requests tidying up.
    pub(super) fn begin(&self) -> Result<()> {
        self.own.mark(UNTIDY)
    }
}

/// A decision on a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No change is needed.
    Nothing,
    /// The path can be changed without losing manual changes.
    Change,
    /// The change would overwrite manual changes.
    NeedsForce,
}

impl Tracker {
    /// Decides on the change of a path.
    ///
    /// # Errors
    /// If the lists of created directories cannot be read.
    pub fn decide(&self, path: &Path, track: Option<&Track>, current: &State, desired: &State) -> Result<Decision> {
        let decision = decide(track, current, desired);
        // What was created as a parent of another path is not a manual change either.
        let is_on_the_way = decision == Decision::NeedsForce && self.has_made(path, current)?;
        Ok(if is_on_the_way { Decision::Change } else { decision })
    }

    /// Returns true if a path is a directory that was created as a parent of another path. It is not part of the original state.
    ///
    /// # Errors
    /// If the lists of created directories cannot be read.
    pub fn has_made(&self, path: &Path, current: &State) -> Result<bool> {
        let is_directory = matches!(current, State::Directory { .. });
        Ok(is_directory && readable(self.own.database().lock().has_directory(&path_bytes(path)))?)
    }
}

pub(super) fn decide(track: Option<&Track>, current: &State, desired: &State) -> Decision {
    if current == desired {
        return Decision::Nothing;
    }
    // The intended state of a killed run is not a manual change.
    let Some(provisioned) = track.and_then(|track| track.provisioned.as_ref()) else { return Decision::Change };
    let intent = track.and_then(|track| track.intent.as_ref());
    // Nor is a missing file.
    let is_ours = *current == State::Absent || current == provisioned;
    if is_ours || intent.is_some_and(|intent| current == intent || is_on_the_way(provisioned, current, intent)) {
        Decision::Change
    } else {
        Decision::NeedsForce
    }
}

/// Returns true if the state may be the result of a kill during a step.
pub(super) fn is_on_the_way(provisioned: &State, current: &State, intent: &State) -> bool {
    let Some((current_has, intent_has)) = current.attributes().zip(intent.attributes()) else { return false };
    if matches!((current, intent), (State::Directory { .. }, State::Directory { .. }))
        && !matches!(provisioned, State::Directory { .. })
    {
        // A directory is created with a private mode, before its owner and mode are set.
        return true;
    }
    // The owner is set first, which clears bits that the mode may set again.
    let provisioned_mode = provisioned.attributes().map(|attributes| attributes.mode & 0o1777);
    current.content() == intent.content()
        && provisioned.content() == intent.content()
        && provisioned.kind() == intent.kind()
        && (current_has.uid, current_has.gid) == (intent_has.uid, intent_has.gid)
        && Some(current_has.mode & 0o1777) == provisioned_mode
}

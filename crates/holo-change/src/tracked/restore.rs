//! Restoring bases, as safely as they were replaced.

use super::Tracker;
use super::contents::StagedContent;
use super::state::{State, Unmanaged};
use super::steps::{Progress, Step};
use super::tracks::{Track, Tracks};
use crate::error::{PathError, Result};
use crate::image::Stamp;
use crate::path_handle::PathHandle;
use crate::paths::path_bytes;
use crate::shares::{self, SHARE};
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

#[cfg(test)]
mod tests;

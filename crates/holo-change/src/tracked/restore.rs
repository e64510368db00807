//! Putting back what was there before us, as carefully as it was replaced.

use super::{HasTracks, PathChange, State, Step, Tracker, Tracks, Unmanaged};
use crate::base_store::Remembered;
use crate::error::{PathError, Result};
use crate::path_handle::ExtendedAttributes;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// The states of paths when it was decided that their bases may come back.
pub type Found = BTreeMap<PathBuf, State>;

impl Tracks {
    /// Says that these paths are about to be restored: a kill on the way is known as such then.
    fn intend_bases(&mut self, paths: &[PathBuf]) {
        for path in paths {
            if let Some(track) = self.0.get_mut(&crate::paths::path_bytes(path)) {
                track.intent = Some(track.base.clone());
            }
        }
    }
}

impl Tracker {
    /// Puts back everything that was there before the entity, which is forgotten by the next [`Tracker::tidy`].
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn scrub<T: Serialize + HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
        found: &Found,
    ) -> std::result::Result<(), Unmanaged> {
        let paths: Vec<PathBuf> = remembered.base.tracks().iter().map(|(path, _)| path).collect();
        // Without tracks it is nothing but a reason to tidy up.
        self.put_back(remembered, &paths, found)
    }

    /// Puts back what was there before us at some paths, and forgets their tracks. A path that an overlay lies over waits until that is
    /// gone, and is not forgotten.
    ///
    /// # Errors
    /// The first thing that went wrong; that something else is found at a path than was, for one.
    pub fn put_back<T: Serialize + HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
        paths: &[PathBuf],
        found: &Found,
    ) -> std::result::Result<(), Unmanaged> {
        self.begin()?;
        self.forget_taken(remembered)?;
        let paths: Vec<PathBuf> = paths.iter().filter(|path| !self.is_overlaid(path)).cloned().collect();
        for path in &paths {
            if let Some(track) = remembered.base.tracks().0.get_mut(&crate::paths::path_bytes(path))
                && track.in_place
                && track.base.content().is_some()
            {
                let current = self.state(path)?;
                if current.content().is_some() {
                    self.keep(&self.place(path))?;
                    track.over = Some(current);
                }
            }
        }
        remembered.base.tracks().intend_bases(&paths);
        self.remember_all(&mut [&mut *remembered])?;
        if let Err(error) = self.restore(remembered.base.tracks(), &paths, found) {
            if matches!(error, Unmanaged::Meanwhile(_)) {
                self.settle(remembered)?;
            }
            return Err(error);
        }
        self.memory.keep(remembered)?;
        Ok(())
    }

    /// Puts the bases back, and forgets the tracks of these paths: what was made inside of a directory goes before it, what was there comes
    /// back after it. Nothing is restored through a symlink that has taken the place of a directory.
    ///
    /// Directories that we made stay as long as something is in them.
    fn restore(&self, tracks: &mut Tracks, paths: &[PathBuf], found: &Found) -> std::result::Result<(), Unmanaged> {
        self.begin()?;
        let mut directories = self.directories()?;
        let parents = paths.iter().flat_map(|path| path.ancestors().skip(1)).map(Path::to_owned).collect();
        let mut paths: Vec<&PathBuf> = paths.iter().collect();
        paths.sort();
        let bases: Vec<(&PathBuf, PathChange)> = paths
            .into_iter()
            .filter_map(|path| {
                let track = tracks.get(path)?;
                let change = PathChange { in_place: track.in_place, ..PathChange::new(path, track.base.clone()) };
                Some((path, PathChange { found: found.get(path).cloned(), ..change }))
            })
            .collect();
        let (gone, back): (Vec<_>, Vec<_>) = bases.iter().partition(|(_, base)| base.desired == State::Absent);
        for (path, base) in gone.iter().rev() {
            if self.is_cut_off(tracks, path)? {
                // The file at that path is not the one that we made.
                continue;
            }
            let (current, stamp) = self.stamped(path)?;
            match current {
                State::Directory { .. } => {
                    if !self.place(path).remove_directory()? {
                        // Others may have something in it, and are still to come.
                        directories.add([(*path).clone()])?;
                    }
                }
                State::Absent => {}
                current => {
                    let extended = ExtendedAttributes::default();
                    let step = Step { path, current, stamp, desired: &State::Absent, extended, in_place: false };
                    self.take_back(step, base.found.as_ref())?;
                }
            }
        }
        for (path, base) in back {
            if self.is_cut_off(tracks, path)? {
                let words = "a directory above it is none any more";
                return Err(PathError::new("restore", self.place_itself(path).shown(), io::Error::other(words)).into());
            }
            let (current, stamp) = self.stamped(path)?;
            if current == base.desired {
                continue;
            }
            let extended = tracks.get(path).map(|track| track.extended.clone()).unwrap_or_default();
            let in_place = base.in_place;
            let mut step = Step { path, current, stamp, desired: &State::Absent, extended: extended.clone(), in_place };
            if matches!(base.desired, State::Directory { .. })
                && matches!(step.current, State::File { .. } | State::Symlink { .. })
            {
                // It cannot become a directory in one step.
                self.take_back(step, base.found.as_ref())?;
                self.forget_directories();
                let (current, desired) = (State::Absent, &base.desired);
                step = Step { path, current, stamp: None, desired, extended, in_place: false };
                self.change(&[step])?;
            } else {
                step.desired = &base.desired;
                self.take_back(step, base.found.as_ref())?;
            }
        }
        drop(directories);
        self.remove_own_directories(Some(&parents))?;
        for (path, _) in &bases {
            tracks.0.remove(&crate::paths::path_bytes(path));
        }
        Ok(())
    }

    fn take_back(&self, step: Step<'_>, found: Option<&State>) -> std::result::Result<(), Unmanaged> {
        if found.is_some_and(|found| *found != step.current) {
            return Err(Unmanaged::Meanwhile(self.place(step.path).shown().display().to_string()));
        }
        self.change(&[step])
    }

    /// Removes those among these directories that we, or other plugins of ours, have made on the way to something, and that are empty.
    pub(super) fn remove_own_directories(&self, among: Option<&BTreeSet<PathBuf>>) -> Result<()> {
        self.directories()?.remove_empty(|path| self.place_itself(path), among)?;
        if among.is_some() {
            for store in self.own.others() {
                if !store.place(super::DIRECTORIES).exists()? {
                    continue;
                }
                let _held = store.hold()?;
                store.directories()?.remove_empty(|path| self.place_itself(path), among)?;
                store.tidy()?;
            }
        }
        Ok(())
    }
}

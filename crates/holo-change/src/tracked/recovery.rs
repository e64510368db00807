//! Recovery after a killed run, and removal of data that is no longer needed.

use super::decision::is_on_the_way;
use super::state::{State, Unmanaged};
use super::tracks::HasTracks;
use super::{Tracker, UNTIDY, steps};
use crate::base_store::Remembered;
use crate::error::{Notices, Result};
use crate::path_handle::{Durability, PathHandle};
use bstr::ByteSlice;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

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
            let is_half_done = is_on_the_way(track.provisioned.as_ref().unwrap_or(&track.base), &current, &intent)
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
            self.remove_empty_folders();
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
        self.remove_empty_folders();
        Ok(())
    }

    /// Removes the directories of the records if they are empty. A run that was killed after the removal of the last
    /// record may have left them.
    pub fn remove_empty_folders(&self) {
        self.own.remove_empty_folders();
    }

    fn untidy_mark(&self) -> PathHandle {
        self.own.place(UNTIDY)
    }

    /// Creates the marker that requests tidying up.
    pub(super) fn begin(&self) -> Result<()> {
        self.own.mark(UNTIDY)
    }
}

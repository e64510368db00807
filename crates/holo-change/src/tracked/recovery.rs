//! Recovery of what a killed run was at, and the removal of what is not needed any more.

use super::decision::is_on_the_way;
use super::state::{State, Unmanaged};
use super::tracks::HasTracks;
use super::{Tracker, UNTIDY, in_place};
use crate::base_store::Remembered;
use crate::error::Result;
use crate::notices::Notices;
use crate::path_handle::{Durability, PathHandle};
use bstr::ByteSlice;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

impl Tracker {
    /// Recovers the changes that a killed run was at: what it had made is recorded as made, what it had not is forgotten.
    ///
    /// # Errors
    /// If that cannot be told or recorded.
    pub fn recover_intents<T: Serialize + HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
    ) -> std::result::Result<(), Unmanaged> {
        if !remembered.base.tracks().have_intents() {
            return Ok(());
        }
        self.begin()?;
        self.recover_takeovers(remembered)?;
        let mut recovered = remembered.base.tracks().clone();
        let mut found_anew = Vec::new();
        for (path, track) in &mut recovered.0 {
            let path = path.to_path_lossy().into_owned();
            let Some(intent) = track.intent.take() else { continue };
            self.temporary(&path).remove()?;
            if intent == track.base && self.contents.is_lent_to(&intent, &self.place(&path))? {
                found_anew.push(path);
                continue;
            }
            let current = self.state_of(remembered.base.tracks(), &path)?;
            let over = track.over.take();
            let is_half_done = is_on_the_way(track.provisioned.as_ref().unwrap_or(&track.base), &current, &intent)
                || over.is_some_and(|over| in_place::is_torn(&self.place(&path), &over, &intent, &self.contents));
            if current == intent || is_half_done {
                if matches!(intent, State::Directory { .. }) {
                    self.directories()?.take(&path)?;
                }
                track.set_provisioned(current);
            } else if track.provisioned.is_none() {
                // Nothing was made of it yet: what is there when that is done is what was there before us.
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

    /// Removes what is not needed any more: contents, directories, and the records of entities that have been put back and are ours to
    /// forget: a caller that has listed an entity will ask for it. Nobody else may work in the state directory at the same time.
    ///
    /// If nothing was changed since this was done last, that is seen at once.
    ///
    /// # Errors
    /// If something cannot be read or removed.
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
        self.bases.settle()?;
        let mut used = BTreeSet::new();
        let mut gone = Vec::new();
        let mut has_pending = false;
        let mut all = self.bases.all::<T>(notices)?;
        self.recover_linking(all.values_mut().map(|remembered| &*remembered.base.tracks()))?;
        for (id, mut remembered) in all {
            let tracks = remembered.base.tracks();
            used.extend(tracks.contents());
            has_pending |= tracks.have_pending();
            if tracks.is_empty() && is_ours(&id) {
                gone.push(id);
            }
        }
        self.contents.keep_only(&used)?;
        self.remove_own_directories(None)?;
        self.own.directories()?.tidy()?;
        self.own.end_takeovers(has_pending)?;
        self.bases.tidy()?;
        // Records that are not in their places yet are looked for only as long as there is the mark.
        Durability::Each.sync([], [&self.bases.place("x")])?;
        untidy.remove()?;
        // The records of the entities go last: as long as one is there, the entity is scrubbed again. Without any, nobody removes the mark.
        if !gone.is_empty() {
            Durability::Each.sync([], [&untidy])?;
        }
        self.bases.forget_all(&gone)?;
        self.remove_empty_folders();
        Ok(())
    }

    /// Removes the folders of the records if they are empty. A run that was killed after the last record was removed has left them.
    pub fn remove_empty_folders(&self) {
        self.own.remove_empty_folders();
    }

    fn untidy_mark(&self) -> PathHandle {
        self.own.place(UNTIDY)
    }

    /// Notes that something is going to be changed, so that there will be something to tidy up.
    pub(super) fn begin(&self) -> Result<()> {
        self.own.mark(UNTIDY)
    }
}

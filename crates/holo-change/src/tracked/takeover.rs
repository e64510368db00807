//! Taking over paths from entities that had them before, so that the base remains the original state.
//!
//! The order is such that no data is lost if the process is killed at any time: contents are copied; the record of the
//! new owner is written, including the origin of the path; the path is removed from the record of the old owner; the
//! record of the new owner is written without the origin. While both have the path, it belongs to the new owner, unless
//! the old one is defined again.

use super::Tracker;
use super::held::{Held, Taken};
use super::state::State;
use super::tracks::{HasTracks, Origin, Track, Tracks};
use crate::base_store::Remembered;
use crate::claims::{Claim, Claims};
use crate::error::Result;
use crate::paths::path_bytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

impl Tracks {
    /// Returns true if a takeover has not been recorded by the old owner yet.
    pub(super) fn have_pending(&self) -> bool {
        self.0.values().any(|track| track.taken_from.is_some())
    }

    /// Returns the entities from which paths are being taken over, each once.
    #[must_use]
    pub fn taken_over_from(&self) -> Vec<&str> {
        let mut ids: Vec<&str> =
            self.0.values().filter_map(|track| Some(track.taken_from.as_ref()?.id.as_str())).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

impl Tracker {
    /// Adds the tracks of other entities for these paths to those of an entity, in memory only: [`Tracker::make`]
    /// writes them. Returns the previous owners.
    ///
    /// # Errors
    /// If the records of the other entities cannot be read.
    pub fn adopt<T: HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
        paths: impl IntoIterator<Item = PathBuf>,
    ) -> Result<Vec<String>> {
        let id = remembered.id.clone();
        let tracks = remembered.base.tracks();
        let mut from = Vec::new();
        for path in paths {
            if tracks.get(&path).is_some() {
                continue;
            }
            let Some(held) = self.held()?.find(&path, &self.own.plugin, &id) else { continue };
            if !from.contains(&held.origin.id) {
                from.push(held.origin.id.clone());
            }
            let track = held.track(&self.own, self.state(&path).ok())?;
            let track = Track { taken_from: Some(held.origin.clone()), over: None, ..track };
            tracks.0.insert(path_bytes(&path), Box::new(track));
        }
        Ok(from)
    }

    /// Returns the claim of another entity to a path that it holds. Such a path cannot be taken over.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn rival<'c>(&self, path: &Path, id: &str, claims: &'c Claims) -> Result<Option<&'c Claim>> {
        Ok(self.held()?.find(path, &self.own.plugin, id).and_then(|held| held.claim(path, claims)))
    }

    /// Returns the paths below a directory whose entities are no longer defined, or have other paths now.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn held_below(&self, directory: &Path, claims: &Claims) -> Result<Vec<PathBuf>> {
        Ok(self.held()?.free_below(directory, claims))
    }

    fn held(&self) -> Result<&Held> {
        self.held.get(&self.locations, &self.own, &self.canonical)
    }

    /// Stores the contents that are taken over from other plugins.
    pub(super) fn take_contents(&self, tracks: &Tracks) -> Result<()> {
        let pending = || tracks.0.values().filter_map(|track| Some((track, track.taken_from.as_ref()?)));
        if pending().next().is_none() {
            return Ok(());
        }
        self.own.begin_takeover()?;
        for (track, origin) in pending().filter(|(_, origin)| origin.plugin != self.own.plugin) {
            let Some(store) = self.own.store(&origin.plugin) else { continue };
            for (state, is_needed) in [(Some(&track.base), true), (track.provisioned.as_ref(), false)] {
                let Some(digest) = state.and_then(State::content) else { continue };
                // The provisioned content is only used for diffs.
                if !self.contents.share(digest, &store.contents())? && is_needed {
                    self.contents.keep(&store.tree_bases().location(&origin.path()))?;
                }
            }
        }
        Ok(())
    }

    /// Removes the paths from the records of the old owners, and the origins from the tracks in memory.
    pub(super) fn tell_others(&self, tracks: &mut Tracks) -> Result<()> {
        let mut plugins: BTreeMap<String, Vec<Origin>> = BTreeMap::new();
        for track in tracks.0.values() {
            if let Some(origin) = &track.taken_from {
                plugins.entry(origin.plugin.clone()).or_default().push(origin.clone());
            }
        }
        for (plugin, origins) in plugins {
            let Some(store) = self.own.store(&plugin) else { continue };
            let is_other = plugin != self.own.plugin;
            let _held = if is_other { Some(store.hold()?) } else { None };
            for origin in &origins {
                store.release(&origin.id, &origin.path(), false)?;
            }
            if is_other {
                store.tidy()?;
            }
        }
        tracks.0.values_mut().for_each(|track| track.taken_from = None);
        Ok(())
    }

    /// Completes the takeovers of a killed run.
    pub(super) fn recover_takeovers<T: HasTracks>(&self, remembered: &mut Remembered<T>) -> Result<()> {
        let tracks = remembered.base.tracks();
        if !tracks.have_pending() {
            return Ok(());
        }
        let claims = Claims::read(&self.locations);
        let gives_back = |track: &Track| {
            let Some(origin) = &track.taken_from else { return false };
            claims.of(&origin.id, &origin.path()).is_some()
        };
        // The old owner is defined again.
        tracks.0.retain(|_, track| !gives_back(track));
        self.tell_others(tracks)
    }

    /// Returns the paths that others have taken over, without updating the records before they were killed.
    pub(super) fn taken(&self) -> Result<Taken> {
        Taken::read(&self.own)
    }
}

#[cfg(test)]
mod tests;

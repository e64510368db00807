//! An entity takes over from another one that had its path before: the base stays what was there before the first of them.
//!
//! In this order, so that a kill at any moment loses nothing: contents are copied; the new owner's record is written, which says where it
//! has the path from; the path is taken out of the old owner's record; the new owner's record is written without that. As long as both
//! have it, the new one is the owner, unless the old one is defined again.

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
    /// Returns true if something is taken over and that has not been told yet.
    pub(super) fn have_pending(&self) -> bool {
        self.0.values().any(|track| track.taken_from.is_some())
    }

    /// The entities that paths are being taken over from, each once.
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
    /// Takes what other entities know of these paths into an entity's tracks, in memory alone: [`Tracker::make`] is what carries it out.
    /// The entities that had them.
    ///
    /// # Errors
    /// If what others know cannot be read.
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
            let Some(held) = self.held().find(&path, &self.own.plugin, &id) else { continue };
            if !from.contains(&held.origin.id) {
                from.push(held.origin.id.clone());
            }
            let track = held.track(&self.own, self.state(&path).ok())?;
            let track = Track { taken_from: Some(held.origin.clone()), over: None, ..track };
            tracks.0.insert(path_bytes(&path), Box::new(track));
        }
        Ok(from)
    }

    /// Returns the claim of another entity to a path that it holds: nothing is taken over from that.
    #[must_use]
    pub fn rival<'c>(&self, path: &Path, id: &str, claims: &'c Claims) -> Option<&'c Claim> {
        self.held().find(path, &self.own.plugin, id)?.claim(path, claims)
    }

    /// The paths below a directory that entities hold which are not defined any more, or are about something else by now.
    #[must_use]
    pub fn held_below(&self, directory: &Path, claims: &Claims) -> Vec<PathBuf> {
        self.held().free_below(directory, claims)
    }

    fn held(&self) -> &Held {
        self.held.get(&self.locations, &self.own, &self.canonical)
    }

    /// Copies the contents that are taken over from other plugins.
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
                if self.contents.has(digest)? {
                    continue;
                }
                let base = store.tree_bases().location(&origin.path());
                match store.contents().open(digest) {
                    Ok(mut file) => {
                        self.contents.keep_as(digest, &mut file, &store.contents().path(digest))?;
                    }
                    Err(_) if is_needed && base.exists()? => {
                        self.contents.keep(&base)?;
                    }
                    // The content that was made is for differences only.
                    Err(error) if is_needed => return Err(error),
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Tells the entities that paths are taken over from; in memory, that is done with then.
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

    /// Ends what a killed run was about to take over.
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
        // The entity that had it is defined again.
        tracks.0.retain(|_, track| !gives_back(track));
        self.tell_others(tracks)
    }

    /// Returns the paths that other entities have taken over, and could not tell before they were killed.
    pub(super) fn taken(&self) -> Result<Taken> {
        Taken::read(&self.own)
    }
}

#[cfg(test)]
mod tests;

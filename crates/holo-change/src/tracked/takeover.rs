//! An entity takes over from another one that had its path before: the base stays what was there before the first of them.
//!
//! In this order, so that a kill at any moment loses nothing: contents are copied; the new owner's record is written, which says where it
//! has the path from; the path is taken out of the old owner's record; the new owner's record is written without that. As long as both
//! have it, the new one is the owner, unless the old one is defined again.

use super::Tracker;
use super::state::State;
use super::stores::PluginStore;
use super::tracks::{HasTracks, Origin, Track, Tracks};
use crate::base_store::Remembered;
use crate::claims;
use crate::error::Result;
use crate::paths::path_bytes;
use bstr::ByteSlice;
use holo_protocol::Text;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The tracks of entities that others may take over from, by canonical path.
#[derive(Debug, Default)]
pub(super) struct Held(BTreeMap<PathBuf, Vec<(Origin, Track)>>);

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
            let Some((origin, track)) = self.held().find(&path, &self.own.plugin, &id) else { continue };
            if !from.contains(&origin.id) {
                from.push(origin.id.clone());
            }
            let track = Track { taken_from: Some(origin.clone()), over: None, ..track.clone() };
            tracks.0.insert(path_bytes(&path), track);
        }
        Ok(from)
    }

    /// The entity that holds a path, other than this one.
    ///
    /// # Errors
    /// If what others know cannot be read.
    pub fn holder(&self, path: &Path, id: &str) -> Result<Option<Origin>> {
        Ok(self.held().find(path, &self.own.plugin, id).map(|(origin, _)| origin.clone()))
    }

    /// The paths below a directory that entities hold which are not defined any more, or are about something else by now.
    #[must_use]
    pub fn held_below(&self, directory: &Path, claims: &[claims::Claim]) -> Vec<PathBuf> {
        let is_free = |path: &Path, held: &[(Origin, Track)]| {
            held.iter().all(|(origin, _)| !claims.iter().any(|claim| claim.id == origin.id && claim.covers(path)))
        };
        let below = self.held().0.range(directory.to_owned()..).take_while(|(path, _)| path.starts_with(directory));
        below.filter(|(path, held)| is_free(path, held)).map(|(path, _)| path.clone()).collect()
    }

    fn held(&self) -> &Held {
        self.held.get_or_init(|| Held::read(self))
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
                match store.contents().open(digest) {
                    Ok(mut file) => {
                        self.contents.keep_file(&mut file, &store.contents().path(digest))?;
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
                store.release(&origin.id, &origin.path.0.to_path_lossy())?;
            }
            if is_other {
                self.take_directories(&store, &origins)?;
                store.tidy()?;
            }
        }
        tracks.0.values_mut().for_each(|track| track.taken_from = None);
        Ok(())
    }

    /// The directories that another plugin has made on the way to paths are ours to remove, too.
    fn take_directories(&self, store: &PluginStore, origins: &[Origin]) -> Result<()> {
        let theirs = store.directories()?;
        let parents = origins.iter().flat_map(|origin| {
            let path = origin.path.0.to_path_lossy().into_owned();
            path.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>()
        });
        let taken: Vec<PathBuf> = parents.filter(|parent| theirs.contains(parent)).collect();
        if taken.is_empty() { Ok(()) } else { self.directories()?.add(taken) }
    }

    /// Ends what a killed run was about to take over.
    pub(super) fn recover_takeovers<T: HasTracks>(&self, remembered: &mut Remembered<T>) -> Result<()> {
        let tracks = remembered.base.tracks();
        if !tracks.have_pending() {
            return Ok(());
        }
        let claims = claims::all(&self.locations);
        let gives_back = |track: &Track| {
            let Some(origin) = &track.taken_from else { return false };
            claims.iter().any(|claim| claim.id == origin.id && claim.covers(&origin.path.0.to_path_lossy()))
        };
        // The entity that had it is defined again.
        tracks.0.retain(|_, track| !gives_back(track));
        self.tell_others(tracks)
    }

    /// Forgets the paths that other entities have taken over, and could not tell before they were killed.
    pub(super) fn forget_taken<T: HasTracks>(&self, remembered: &mut Remembered<T>) -> Result<()> {
        let mut stores = vec![self.own.clone()];
        stores.extend(self.own.others());
        for store in stores {
            if !store.has_takeovers()? {
                continue;
            }
            for (id, theirs) in store.records() {
                for origin in theirs.0.values().filter_map(|track| track.taken_from.as_ref()) {
                    let is_ours = origin.plugin == self.own.plugin && origin.id == remembered.id && id != remembered.id;
                    if is_ours {
                        remembered.base.tracks().forget(&origin.path.0.to_path_lossy());
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns true if another plugin has made a directory on the way to something.
    pub(super) fn is_directory_of_others(&self, path: &Path) -> Result<bool> {
        for store in self.own.others() {
            if store.directories()?.contains(path) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Held {
    fn read(tracker: &Tracker) -> Held {
        let mut held = Held::default();
        let mut stores = vec![tracker.own.clone()];
        stores.extend(tracker.own.others());
        for store in stores {
            // A plugin that has listed its entities in this run knows which of them there is something to be had from.
            let records = match claims::holders(&tracker.locations, &store.plugin) {
                Some(ids) => store.records_of(&ids),
                None => store.records(),
            };
            for (id, tracks) in records {
                for (path, canonical) in tracker.canonical_of(&tracks) {
                    let Some(track) = tracks.get(&path).cloned() else { continue };
                    let (plugin, path) = (store.plugin.clone(), Text(path_bytes(&path)));
                    let origin = Origin { plugin, id: id.clone(), path };
                    held.0.entry(canonical).or_default().push((origin, track));
                }
            }
        }
        held
    }

    fn find(&self, path: &Path, plugin: &str, id: &str) -> Option<&(Origin, Track)> {
        let held = self.0.get(path)?;
        held.iter().find(|(origin, _)| origin.plugin != plugin || origin.id != id)
    }
}

#[cfg(test)]
mod tests;

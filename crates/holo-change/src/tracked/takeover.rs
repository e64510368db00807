//! Taking over paths from entities that had them before, so that the base remains the original state.
//!
//! One transaction writes the record of the new owner, with its intents, and removes the path from the record of the old
//! one. The new owner's plugin has a share in the contents by then.

use super::Tracker;
use super::held::Held;
use super::state::State;
use super::stores::PluginStore;
use super::tracks::{HasTracks, Origin, Track, Tracks};
use crate::base_store::{RecordChange, Remembered};
use crate::claims::{Claim, Claims};
use crate::error::Result;
use crate::paths::path_bytes;
use holo_state::Durability;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

impl Tracks {
    /// Removes and returns the previous owners of the paths that are being taken over.
    pub(super) fn take_origins(&mut self) -> Vec<Origin> {
        self.0.values_mut().filter_map(|track| track.taken_from.take()).collect()
    }

    /// Returns the entities from which paths are being taken over, each once.
    #[must_use]
    pub fn taken_over_from(&self) -> Vec<&str> {
        let origins = self.0.values().filter_map(|track| track.taken_from.as_ref());
        let mut ids: Vec<&str> = origins.map(|origin| origin.id.as_str()).collect();
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
        let pending = tracks.0.values().filter_map(|track| Some((track, track.taken_from.as_ref()?)));
        for (track, origin) in pending.filter(|(_, origin)| origin.plugin != self.own.plugin) {
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
}

impl PluginStore {
    /// Makes changes of records, and removes paths from the records of their previous owners, in one transaction. When
    /// this returns, the changes are on disk.
    pub(crate) fn record_takeover<'o>(
        &self,
        mut changes: Vec<RecordChange>,
        origins: impl IntoIterator<Item = &'o Origin>,
    ) -> Result<()> {
        let mut plugins: BTreeMap<&str, BTreeMap<&str, Vec<PathBuf>>> = BTreeMap::new();
        for origin in origins {
            plugins.entry(&origin.plugin).or_default().entry(&origin.id).or_default().push(origin.path());
        }
        let mut others = Vec::new();
        for (plugin, paths_by_id) in plugins {
            let Some(store) = self.store(plugin) else { continue };
            let is_own = plugin == self.plugin;
            if !is_own {
                others.push((store.hold()?, store.clone()));
                store.mark_untidy()?;
            }
            for (id, paths) in paths_by_id {
                // Entities of one plugin have the same bases.
                store.release(id, &paths, is_own, &mut changes)?;
            }
        }
        self.bases.write(&changes, Durability::Disk)?;
        others.iter().try_for_each(|(_, store)| store.tidy())
    }
}

#[cfg(test)]
mod tests;

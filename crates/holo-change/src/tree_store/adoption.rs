//! Taking over paths, with their bases, from entities that no longer have them.

use super::TreeStore;
use crate::base_store::RecordChange;
use crate::claims::{Claim, Claims};
use crate::error::Result;
use crate::tracked::{HeldPath, State, Track, Unmanaged};
use std::path::Path;

/// A path that is taken over.
#[derive(Debug)]
pub struct Adoption {
    held: HeldPath,
    track: Track,
    /// True if the path has manual changes.
    pub loses_changes: bool,
    /// True if the original file was a directory, which cannot be a base.
    pub was_directory: bool,
}

impl TreeStore {
    /// Returns the claim of an entity of another plugin to a path that it holds.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn rival<'c>(&self, path: &Path, claims: &'c Claims) -> Result<Option<&'c Claim>> {
        Ok(self.held()?.find_of_others(path, &self.plugin.plugin).and_then(|held| held.claim(path, claims)))
    }

    /// Returns the takeover of a canonical path by an entity, next to its trees or in one; `None` if no other entity
    /// holds the path.
    ///
    /// # Errors
    /// If the path or its base cannot be read.
    pub fn adoption(&self, id: &str, path: &Path, is_beside: bool) -> std::result::Result<Option<Adoption>, Unmanaged> {
        let held = self.held()?;
        let Some(held) = held.find_for_tree(path, &self.plugin.plugin, id, is_beside) else { return Ok(None) };
        let current = State::of(&self.overlays.base(path).unwrap_or_else(|| self.root.place(path)))?;
        let track = held.track(&self.plugin, Some(current.clone()))?;
        let was_directory = matches!(track.base, State::Directory { .. });
        Ok(Some(Adoption { held, loses_changes: !track.may_be(&current), was_directory, track }))
    }

    /// Saves the base of a path that is taken over. When this returns, it is on disk.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save_adopted_base(&self, path: &Path, adoption: &Adoption) -> Result<()> {
        let plugin = &adoption.held.origin.plugin;
        // All entities of a plugin have the same bases.
        let Some(theirs) = self.plugin.store(plugin).filter(|_| *plugin != self.plugin.plugin) else { return Ok(()) };
        match &adoption.track.base {
            State::Absent | State::Directory { .. } => self.bases.remove(path),
            State::File { .. } | State::Symlink { .. } => {
                let contents = theirs.contents();
                self.bases.save_written(path, |place| adoption.track.write_base(place, &contents))
            }
        }
    }

    /// Removes paths from the records of their previous owners, after the takeover was recorded.
    ///
    /// # Errors
    /// If a record cannot be written.
    pub fn release<'a>(&self, adoptions: impl IntoIterator<Item = &'a Adoption>) -> Result<()> {
        self.record_takeover(Vec::new(), adoptions)
    }

    /// Makes changes of records, and removes paths from the records of their previous owners, in one transaction.
    pub(super) fn record_takeover<'a>(
        &self,
        changes: Vec<RecordChange>,
        adoptions: impl IntoIterator<Item = &'a Adoption>,
    ) -> Result<()> {
        self.plugin.record_takeover(changes, adoptions.into_iter().map(|adoption| &adoption.held.origin))
    }
}

impl Adoption {
    /// Returns true if the original file was a regular file or a symlink.
    pub(super) fn has_base(&self) -> bool {
        matches!(self.track.base, State::File { .. } | State::Symlink { .. })
    }

    /// Returns the previous owner.
    #[must_use]
    pub fn from(&self) -> &str {
        &self.held.origin.id
    }
}

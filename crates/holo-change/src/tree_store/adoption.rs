//! Paths that are taken over from entities which are not about them any more, with what was there before them.

use super::TreeStore;
use crate::claims::{Claim, Claims};
use crate::error::Result;
use crate::tracked::{HeldPath, State, Track, Unmanaged};
use std::collections::BTreeMap;
use std::path::Path;

/// A path that is taken over.
#[derive(Debug)]
pub struct Adoption {
    held: HeldPath,
    track: Track,
    /// True if a user has changed what is there.
    pub loses_changes: bool,
    /// True if there was a directory before, which cannot be a base.
    pub was_directory: bool,
}

impl TreeStore {
    /// Returns the claim of an entity of another plugin to a path that it holds.
    #[must_use]
    pub fn rival<'c>(&self, path: &Path, claims: &'c Claims) -> Option<&'c Claim> {
        self.held().find_of_others(path, &self.plugin.plugin)?.claim(path, claims)
    }

    /// Returns what is taken over if an entity gets a canonical path, beside its trees or in one; none if no other entity holds it.
    ///
    /// # Errors
    /// If the path or its base cannot be read.
    pub fn adoption(&self, id: &str, path: &Path, is_beside: bool) -> std::result::Result<Option<Adoption>, Unmanaged> {
        let held = self.held();
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

    /// Tells the entities of other plugins that paths are not theirs any more. What is taken over is on record by now.
    ///
    /// # Errors
    /// If their records cannot be written.
    pub fn release<'a>(&self, adoptions: impl IntoIterator<Item = &'a Adoption>) -> Result<()> {
        let mut by_plugin: BTreeMap<&str, Vec<&Adoption>> = BTreeMap::new();
        for adoption in adoptions {
            by_plugin.entry(&adoption.held.origin.plugin).or_default().push(adoption);
        }
        for (plugin, adoptions) in by_plugin {
            let Some(theirs) = self.plugin.store(plugin) else { continue };
            let _held = if plugin == self.plugin.plugin { None } else { Some(theirs.hold()?) };
            if plugin != self.plugin.plugin {
                theirs.mark_untidy()?;
            }
            for adoption in &adoptions {
                theirs.release(&adoption.held.origin.id, &adoption.held.origin.path(), plugin == self.plugin.plugin)?;
            }
            theirs.tidy()?;
        }
        Ok(())
    }
}

impl Adoption {
    /// Returns true if there was a file or symlink before.
    pub(super) fn has_base(&self) -> bool {
        matches!(self.track.base, State::File { .. } | State::Symlink { .. })
    }

    /// Returns the entity that had the path.
    #[must_use]
    pub fn from(&self) -> &str {
        &self.held.origin.id
    }
}

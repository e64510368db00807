//! Overwriting what a person has edited, where `on_edit = "overwrite"` says so.

use crate::{Host, Mode};
use holo_change::PathHandle;
use holo_change::edited::EditedVersions;
use holo_change::tracked::{State, Unmanaged};
use holo_protocol::OnEdit;
use std::path::Path;

impl Mode<'_> {
    /// Returns true if what a person has edited is overwritten.
    #[must_use]
    pub fn overwrites(&self) -> bool {
        self.force || self.keeps_edited()
    }

    /// Returns true if what a person has edited is overwritten, and must be [kept](Host::keep_edited) before.
    #[must_use]
    pub fn keeps_edited(&self) -> bool {
        !self.force && self.on_edit == OnEdit::Overwrite
    }
}

impl Host {
    /// Keeps what a person has made of a path, right before it is overwritten. When this returns, it is on disk. `path` is
    /// relative to the root, and `place` is where it is read.
    ///
    /// Returns the state that was kept. The path must only be changed while it is in this state.
    ///
    /// # Errors
    /// If the path cannot be read, was changed meanwhile, or its version cannot be kept.
    pub fn keep_edited(
        &self,
        id: impl AsRef<[u8]>,
        path: &Path,
        place: &PathHandle,
        sensitive: bool,
    ) -> Result<State, Unmanaged> {
        EditedVersions::of(self.locations()).keep(id.as_ref(), path, place, sensitive)
    }
}

/// Returns the change that an apply reports after [`Host::keep_edited`].
#[must_use]
pub fn kept(shown: &Path) -> String {
    format!("kept the edited version of {}", shown.display())
}

/// Returns the change that a check reports where an apply would call [`Host::keep_edited`].
#[must_use]
pub fn would_keep(shown: &Path) -> String {
    format!("would keep the edited version of {}", shown.display())
}

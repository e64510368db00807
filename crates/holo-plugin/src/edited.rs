//! Contents that are kept: edited versions, before force, `on_edit = "overwrite"` or the removal of an overlay overwrites
//! them; and the originals of entities that are forgotten.

use crate::{Host, Mode, Output};
use holo_change::PathHandle;
use holo_change::edited::EditedVersions;
use holo_change::tracked::{State, Tracker, Tracks, Unmanaged};
use holo_protocol::OnEdit;
use std::path::{Path, PathBuf};

impl Mode<'_> {
    /// Returns true if an edited version may be overwritten. It must be [kept](Host::keep_edited) first: the history of a run
    /// contains no large files, is written at the end of the run, and can be disabled.
    #[must_use]
    pub fn overwrites(&self) -> bool {
        self.force || self.on_edit == OnEdit::Overwrite
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

    /// Like [`keep_edited`](Self::keep_edited), and tells the user. Directories and special files are not kept.
    ///
    /// # Errors
    /// If the path cannot be read or kept.
    pub fn save_edited(
        &self,
        id: impl AsRef<[u8]>,
        (path, place): (&Path, &PathHandle),
        sensitive: bool,
        output: &mut Output<'_>,
    ) -> Result<(), Unmanaged> {
        if place.is_file_or_symlink()? {
            self.keep_edited(id, path, place, sensitive)?;
            output.print(format!(">> {}\n", kept(&self.below_root(path))));
        }
        Ok(())
    }

    /// Keeps what people have made of tracked files, right before their originals are restored by force. `found` are the
    /// current states of the paths.
    ///
    /// # Errors
    /// If one cannot be read or kept.
    pub fn save_edited_of<'f>(
        &self,
        id: impl AsRef<[u8]>,
        (tracker, tracks): (&Tracker, &Tracks),
        found: impl IntoIterator<Item = (&'f PathBuf, &'f State)>,
        output: &mut Output<'_>,
    ) -> Result<(), Unmanaged> {
        for (path, current) in found {
            let Some(track) = tracks.get(path) else { continue };
            if track.provisioned.as_ref() != Some(current) && track.base != *current {
                self.save_edited(&id, (path, &tracker.place(path)), track.sensitive, output)?;
            }
        }
        Ok(())
    }

    /// Keeps the original of a path, which is at `place` in the state directory, before its entity is forgotten.
    ///
    /// # Errors
    /// If it cannot be read or kept.
    pub fn keep_original(
        &self,
        id: impl AsRef<[u8]>,
        path: &Path,
        place: &PathHandle,
        sensitive: bool,
        output: &mut Output<'_>,
    ) -> Result<(), Unmanaged> {
        if self.keep_edited(id, path, place, sensitive)? != State::Absent {
            self.tell_kept(path, output);
        }
        Ok(())
    }

    /// Keeps the originals of paths in a record, before its entity is forgotten. Those that are in place need not be kept.
    ///
    /// # Errors
    /// If one cannot be read or kept.
    pub fn keep_originals(
        &self,
        id: impl AsRef<[u8]>,
        (tracker, tracks): (&Tracker, &Tracks),
        output: &mut Output<'_>,
    ) -> Result<(), Unmanaged> {
        let kept = EditedVersions::of(self.locations()).keep_bases(id.as_ref(), tracker, tracks)?;
        kept.iter().for_each(|path| self.tell_kept(path, output));
        Ok(())
    }

    fn tell_kept(&self, path: &Path, output: &mut Output<'_>) {
        output.print(format!(">> kept the original of {}\n", self.below_root(path).display()));
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

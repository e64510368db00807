//! Contents that are restored to their paths through a hard link instead of a copy.
//!
//! This is done if only one path needs the content, which is removed from the store afterwards. Until then, the file at
//! the path is the file in the store, and could be modified there after a kill. Therefore a content with two links is
//! not used for other paths, and a path to which a content was lent counts as restored, whatever is written to it
//! later.

use super::contents::{Contents, Digest};
use super::state::{Attributes, State};
use super::tracks::{Track, Tracks};
use crate::error::Result;
use crate::path_handle::{ExtendedAttributes, PathHandle};
use std::collections::HashSet;

/// The mode bit that lets a process without root privileges read its own file.
const OWNER_READS: u32 = 0o400;

/// The contents that more than one path needs.
#[derive(Debug, Default)]
pub(super) struct SharedContents {
    shared: HashSet<Digest>,
}

impl SharedContents {
    /// Finds the shared contents of all records.
    pub(super) fn of<'t>(records: impl IntoIterator<Item = &'t Tracks>) -> SharedContents {
        let (mut seen, mut shared) = (HashSet::new(), HashSet::new());
        for (_, track) in records.into_iter().flat_map(Tracks::iter) {
            for content in track.contents().collect::<HashSet<&Digest>>() {
                if !seen.insert(content.clone()) {
                    shared.insert(content.clone());
                }
            }
        }
        SharedContents { shared }
    }

    /// Writes the base of a path to a temporary path: the content itself, or a copy if other paths need it too.
    pub(super) fn write_back(&self, track: &Track, place: &PathHandle, contents: &Contents) -> Result<()> {
        if let State::File { content, attributes } = &track.base
            && !self.shared.contains(content)
            && contents.lend(content, *attributes, &track.extended, place)?
        {
            return Ok(());
        }
        track.write_base(place, contents)
    }
}

impl Contents {
    /// Links a content to a path, and sets its mode and owner. Returns false if that is impossible, and a copy is
    /// needed.
    fn lend(
        &self,
        content: &Digest,
        attributes: Attributes,
        extended: &ExtendedAttributes,
        place: &PathHandle,
    ) -> Result<bool> {
        if attributes.mode & OWNER_READS == 0 {
            return Ok(false);
        }
        place.remove()?;
        if self.place(content.as_str()).link_to(place).is_err() {
            return Ok(false);
        }
        let lent = place.open().and_then(|file| {
            // Another process could write to it through a third link.
            let is_ours = rustix::fs::fstat(&file).is_ok_and(|stat| stat.st_nlink == 2);
            let can_be = is_ours && ExtendedAttributes::of_open(&file, &place.shown())? == *extended;
            if can_be {
                attributes.give(&file, place)?;
            }
            Ok(can_be)
        });
        if !matches!(lent, Ok(true)) {
            place.remove()?;
        }
        lent
    }

    /// Returns true if the file at a path is the stored content itself.
    pub(super) fn is_lent_to(&self, state: &State, place: &PathHandle) -> Result<bool> {
        state.content().map_or(Ok(false), |content| self.place(content.as_str()).is_same_file(place))
    }
}

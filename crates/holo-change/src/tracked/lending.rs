//! Contents that come back to their paths themselves, by a second name, instead of as copies.
//!
//! That is done with a content that a single path needs, which is forgotten when it has come back. Until the name in the store is removed
//! with everything else that is not needed any more, the file at the path is that in the store. After a kill, somebody may write to it:
//! so a content that has two names counts as none when another path needs the same one, and a path that a content was lent to has come
//! back, whatever was written there since.

use super::contents::{Contents, Digest};
use super::state::{Attributes, State};
use super::tracks::{Track, Tracks};
use crate::error::Result;
use crate::path_handle::{ExtendedAttributes, PathHandle};
use std::collections::HashSet;

/// The bit of a mode by which a file can still be read by us if we are not root.
const OWNER_READS: u32 = 0o400;

/// The contents that more than one path needs.
#[derive(Debug, Default)]
pub(super) struct SharedContents {
    shared: HashSet<Digest>,
}

impl SharedContents {
    /// Returns those of all records.
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

    /// Puts the base of a path to a place beside it: the content itself, or a copy where another path needs it too.
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
    /// Gives a content a second name, mode and owner; returns false if that cannot be, and a copy is needed.
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
            // By a third name, somebody else could write to it.
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

    /// Returns true if the file at a place is that of the content.
    pub(super) fn is_lent_to(&self, state: &State, place: &PathHandle) -> Result<bool> {
        state.content().map_or(Ok(false), |content| self.place(content.as_str()).is_same_file(place))
    }
}

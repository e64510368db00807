//! Files that are written to instead of being replaced, as something is mounted on them.
//!
//! That takes more than one step. What was there and what it becomes are kept before the first byte is written, so that a file that a kill
//! has left in between is known as ours, and written again.

use super::Digest;
use super::contents::Contents;
use super::state::{Attributes, State};
use crate::error::{Result, at};
use crate::overwriting::is_between;
use crate::path_handle::PathHandle;
use std::io::{self, Read};

/// Writes a kept content over the file at a place, and gives it mode and owner. Nobody may read on the way what they may not read in the end.
pub(super) fn write(place: &PathHandle, content: &Digest, attributes: Attributes, contents: &Contents) -> Result<()> {
    let mut from = contents.open(content)?;
    let mut file = place.open_to_write()?;
    attributes.narrow(&file, place)?;
    let written = io::copy(&mut from, &mut file).and_then(|length| file.set_len(length));
    written.map_err(at("write", &place.shown()))?;
    attributes.give(&file, place)?;
    rustix::fs::fsync(&file).map_err(at("sync", &place.shown()))
}

/// Returns true if a kill may have left a file between one content and another: each of its bytes is that of the one or of the other.
pub(super) fn is_torn(place: &PathHandle, over: &State, intent: &State, contents: &Contents) -> bool {
    let bytes = |state: &State| contents.read(state.content()?).ok();
    let (Some(old), Some(new)) = (bytes(over), bytes(intent)) else { return false };
    let Ok(Some(mut file)) = place.open_if_file() else { return false };
    let mut current = Vec::new();
    if file.read_to_end(&mut current).is_err() || current.len() > old.len().max(new.len()) {
        return false;
    }
    is_between(&current, &old, &new)
}

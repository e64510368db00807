//! Files that are written in place instead of being replaced, because they are mount points.
//!
//! This is not atomic. Both contents are stored before the first byte is written, so that a file that a kill has left
//! in between is recognized as ours, and written again.

use super::Digest;
use super::contents::Contents;
use super::state::{Attributes, State};
use crate::error::{Result, at};
use crate::overwriting::is_between;
use crate::path_handle::PathHandle;
use std::io::{self, Read};

/// Writes a stored content to an existing file, and sets its mode and owner. Users without access to the final file
/// never gain access in between.
pub(super) fn write(place: &PathHandle, content: &Digest, attributes: Attributes, contents: &Contents) -> Result<()> {
    let mut from = contents.open(content)?;
    let mut file = place.open_to_write()?;
    attributes.narrow(&file, place)?;
    let written = io::copy(&mut from, &mut file).and_then(|length| file.set_len(length));
    written.map_err(at("write", &place.shown()))?;
    attributes.give(&file, place)?;
    rustix::fs::fsync(&file).map_err(at("sync", &place.shown()))
}

/// Returns true if the content may be the result of a kill during an overwrite: each byte is that of the old or the new
/// content.
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

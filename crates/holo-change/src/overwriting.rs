//! Files that are changed in place instead of being replaced.

use crate::error::{PathError, Result, at};
use crate::path_handle::PathHandle;
use crate::resolution;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::io;

/// Checks that a file can safely be changed in place.
pub(crate) fn check_in_place(stat: &Stat, place: &PathHandle) -> Result<()> {
    let shown = place.shown();
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(PathError::new("chmod", shown, Errno::INVAL));
    }
    let folder = rustix::fs::fstat(place.open_directory()?).map_err(at("stat", &shown))?;
    if stat.st_nlink > 1 && !resolution::is_trusted(folder.st_uid) {
        let words = "it has several names, in a directory of another user";
        return Err(PathError::new("chmod", shown, io::Error::new(io::ErrorKind::PermissionDenied, words)));
    }
    Ok(())
}

/// Returns true if the content may be the result of a kill during an overwrite: each byte is that of the old or the new
/// content.
#[must_use]
pub fn is_between(current: &[u8], old: &[u8], new: &[u8]) -> bool {
    let is_between = |(index, byte): (usize, &u8)| {
        // A block that has not been written to disk is zero.
        new.get(index) == Some(byte) || old.get(index).map_or(*byte == 0, |old| old == byte)
    };
    let lengths = old.len().min(new.len())..=old.len().max(new.len());
    lengths.contains(&current.len()) && current.iter().enumerate().all(is_between)
}

/// Adds a hint to the error for a file that cannot be replaced.
pub(crate) fn with_hint(error: PathError) -> PathError {
    if Errno::from_io_error(&error.error) != Some(Errno::BUSY) {
        return error;
    }
    let words = "something is mounted on it, so that it cannot be replaced; in_place = true writes to it instead";
    PathError::new(error.operation, error.path, io::Error::other(words))
}

//! The record of unmarked keys that a key set has counted as its own. When its file no longer names such a key, the user's line is removed
//! too.

use bstr::{BStr, ByteSlice};
use holo_change::error::{PathError, Result};
use holo_change::{OnDisk, PathHandle, Tree};
use holo_plugin::Host;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const DIRECTORY: &str = ".unmarked";

pub(crate) type SetName<'a> = (&'a str, &'a BStr);

fn place(host: &Host, (user, set): SetName<'_>) -> Result<PathHandle> {
    let path = Path::new(DIRECTORY).join(user).join(OsStr::from_bytes(set));
    Ok(Tree::open(host.state_dir())?.place(&path))
}

/// Reads the recorded key lines, which have no comments.
pub(crate) fn read(host: &Host, set: SetName<'_>) -> Result<Vec<Vec<u8>>> {
    let place = place(host, set)?;
    let mut content = Vec::new();
    if let Some(mut file) = place.open_if_file()? {
        file.read_to_end(&mut content).map_err(|error| PathError::new("read", place.shown(), error))?;
    }
    Ok(content.lines_with_terminator().map(<[u8]>::to_vec).collect())
}

/// Replaces the recorded lines.
pub(crate) fn write(host: &Host, set: SetName<'_>, lines: &[Vec<u8>]) -> Result<()> {
    if read(host, set)? == lines {
        return Ok(());
    }
    let place = place(host, set)?;
    if lines.is_empty() {
        place.remove()?;
        place.remove_empty_folders(Path::new(""));
        return Ok(());
    }
    place.replace(&lines.concat(), 0o644, OnDisk::New)
}

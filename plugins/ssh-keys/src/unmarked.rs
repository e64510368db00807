//! The record of keys that had no mark of ours when a key set came to count them: if its file names one no more, the line goes with it.

use bstr::{BStr, ByteSlice};
use holo_change::error::{PathError, Result};
use holo_change::{OnDisk, PathHandle, Tree};
use holo_plugin::Host;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const DIRECTORY: &str = ".unmarked";

/// The user and the name of a key set.
pub(crate) type Of<'a> = (&'a str, &'a BStr);

fn place(host: &Host, (user, set): Of<'_>) -> Result<PathHandle> {
    let path = Path::new(DIRECTORY).join(user).join(OsStr::from_bytes(set));
    Ok(Tree::open(host.state_dir())?.place(&path))
}

/// Reads the lines of the keys, without their comments.
pub(crate) fn read(host: &Host, set: Of<'_>) -> Result<Vec<Vec<u8>>> {
    let place = place(host, set)?;
    let mut content = Vec::new();
    if let Some(mut file) = place.open_if_file()? {
        file.read_to_end(&mut content).map_err(|error| PathError::new("read", place.shown(), error))?;
    }
    Ok(content.lines_with_terminator().map(<[u8]>::to_vec).collect())
}

/// Records exactly these.
pub(crate) fn write(host: &Host, set: Of<'_>, lines: &[Vec<u8>]) -> Result<()> {
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

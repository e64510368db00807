//! The difference that a task would make, as two files.

use holo_change::Tree;
use holo_change::error::{PathError, Result};
use holo_plugin::{FilePair, Host};
use std::io::Write;
use std::path::Path;

/// Writes the desired and the actual state.
///
/// # Errors
/// If the files cannot be written.
pub(crate) fn write(host: &Host, id: &str, desired: &str, actual: &str) -> Result<FilePair> {
    let cache = Tree::open(host.cache_dir())?;
    let folder = Path::new("difference").join(holo_bridge::digest(&id));
    let write = |name: &str, text: &str| {
        let place = cache.place(&folder.join(name));
        place.create_folder()?;
        let written = place.create()?.write_all(text.as_bytes());
        written.map(|()| place.shown()).map_err(|error| PathError::new("write", place.shown(), error))
    };
    let pair = FilePair::new(write("desired", desired)?, write("actual", actual)?);
    Ok(pair.with_applied_label(id).with_to_label(id.as_bytes()))
}

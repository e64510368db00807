//! Targets that were sensitive when they were applied. They stay sensitive without a definition until they are restored.

use holo_change::PathHandle;
use holo_change::error::{PathError, Result};
use holo_change::image_store::{ImageStore, path_digest};
use holo_plugin::Host;
use std::fs::{self, File};
use std::path::Path;

/// The directory with an empty file for each such target, named by the digest of its path.
const FOLDER: &str = ".sensitive";

/// Returns true if the target at a path was sensitive.
pub(crate) fn is_known(host: &Host, path: &Path) -> bool {
    // In case of an error, assume that it was.
    host.state_dir().join(FOLDER).join(path_digest(path)).try_exists().unwrap_or(true)
}

/// Records that the target at a path is sensitive.
pub(crate) fn remember(path: &Path, images: &ImageStore) -> Result<()> {
    let place = place(images, path);
    if place.exists()? {
        return Ok(());
    }
    place.create_folder()?;
    let created = place.create()?;
    let folder = place.shown().parent().map(Path::to_owned).unwrap_or_default();
    let state = folder.parent().unwrap_or(&folder);
    let sync = |folder: &Path| File::open(folder)?.sync_all();
    let synced = created.sync_all().and_then(|()| sync(&folder)).and_then(|()| sync(state));
    synced.map_err(|error| PathError::new("fsync", place.shown(), error))
}

/// Removes the records of those targets that have been restored, and have no base any more.
pub(crate) fn forget<'p>(orphans: impl Iterator<Item = &'p Path>, host: &Host, images: &ImageStore) {
    if fs::symlink_metadata(host.state_dir().join(FOLDER)).is_err() {
        return;
    }
    for path in orphans.filter(|path| images.base(path).exists().is_ok_and(|exists| !exists)) {
        let place = place(images, path);
        // A leftover record does no harm.
        let _ = place.remove();
        place.remove_empty_folders(Path::new(""));
    }
}

fn place(images: &ImageStore, path: &Path) -> PathHandle {
    images.state(&Path::new(FOLDER).join(path_digest(path)))
}

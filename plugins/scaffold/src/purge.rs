//! The removal of paths in a target that its source does not contain.

use crate::change::{Change, Circumstances};
use crate::error::Result;
use holo_change::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Returns true if a path that the source no longer contains is purged: it neither belongs to another entity nor is
/// at or below a mount point.
pub(crate) fn may_go(circumstances: &Circumstances<'_>, path: &Path) -> Result<bool> {
    if circumstances.is_others(path) || circumstances.has_layers(path)? {
        return Ok(false);
    }
    let target = circumstances.target;
    for part in path.ancestors().take_while(|part| *part != target) {
        let place = circumstances.tracker.place(part);
        if place.exists()? && place.is_mount_point()? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Adds the removal of all undesired paths to the changes, and returns these paths. The changes already contain the
/// tracked paths.
pub(crate) fn purge(
    circumstances: &Circumstances<'_>,
    wanted: &BTreeSet<PathBuf>,
    changes: &mut BTreeMap<PathBuf, Change>,
) -> Result<Vec<PathBuf>> {
    let mut purged = Vec::new();
    let mut foreign_directories = Vec::new();
    let mut open = vec![circumstances.target.to_owned()];
    while let Some(directory) = open.pop() {
        for name in circumstances.tracker.place(&directory.join("x")).siblings()? {
            let path = directory.join(name);
            let place = circumstances.tracker.place(&path);
            let is_known = wanted.contains(&path) || circumstances.record.tracks().get(&path).is_some();
            let Some(looks) = place.stat()? else { continue };
            // A file can be a mount point, too.
            if circumstances.is_others(&path) || circumstances.has_layers(&path)? || place.is_mount_point()? {
                continue;
            }
            match looks.kind {
                Kind::Directory => {
                    if !wanted.contains(&path) {
                        foreign_directories.push(path.clone());
                    }
                    open.push(path);
                }
                Kind::File | Kind::Symlink if !is_known && !is_temporary(circumstances, wanted, &path) => {
                    changes.insert(path.clone(), Change::Remove);
                    purged.push(path);
                }
                // Sockets, FIFOs and devices belong to programs.
                Kind::File | Kind::Symlink | Kind::Other => {}
            }
        }
    }
    // The deepest directories come first: a directory is empty if its subdirectories are removed.
    foreign_directories.sort();
    for directory in foreign_directories.into_iter().rev() {
        if empties(circumstances, changes, &directory)? {
            changes.insert(directory.clone(), Change::Remove);
            purged.push(directory);
        }
    }
    Ok(purged)
}

/// Returns true if this is a temporary file of a killed apply.
fn is_temporary(circumstances: &Circumstances<'_>, wanted: &BTreeSet<PathBuf>, path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    let of = bytes.strip_suffix(b".holonew").and_then(|of| std::str::from_utf8(of).ok());
    circumstances.record.tracks().is_temporary(path) || of.is_some_and(|of| wanted.contains(Path::new(of)))
}

/// Returns true if all entries of a directory are removed.
pub(crate) fn empties(
    circumstances: &Circumstances<'_>,
    changes: &BTreeMap<PathBuf, Change>,
    directory: &Path,
) -> Result<bool> {
    let names = circumstances.tracker.place(&directory.join("x")).siblings()?;
    Ok(names.into_iter().all(|name| changes.get(&directory.join(name)) == Some(&Change::Remove)))
}

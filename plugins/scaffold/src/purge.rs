//! What is in a target and not made by its source.

use crate::obstacle::Result;
use crate::plan::{Change, Circumstances, Plan};
use holo_plugin::Kind;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Whether a path belongs to another entity, which is about something inside of our target.
fn is_others(circumstances: &Circumstances<'_>, path: &Path) -> bool {
    let target = circumstances.target;
    let mut inside = circumstances.others.iter().filter(|other| *other != target && other.starts_with(target));
    inside.any(|other| path.starts_with(other))
}

/// Whether what the source has no more is purged: it is neither another entity's nor behind something mounted.
pub(crate) fn may_go(circumstances: &Circumstances<'_>, path: &Path) -> Result<bool> {
    if is_others(circumstances, path) {
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

/// Adds to a plan the removal of all that is not wanted. What is tracked has been looked at.
pub(crate) fn purge(circumstances: &Circumstances<'_>, wanted: &BTreeSet<PathBuf>, plan: &mut Plan) -> Result<()> {
    let mut foreign_directories = Vec::new();
    let mut open = vec![circumstances.target.to_owned()];
    while let Some(directory) = open.pop() {
        for name in circumstances.tracker.place(&directory.join("x")).siblings()? {
            let path = directory.join(name);
            let place = circumstances.tracker.place(&path);
            let is_known = wanted.contains(&path) || circumstances.record.tracks().get(&path).is_some();
            let Some(looks) = place.looks()? else { continue };
            // A file can be mounted on a file.
            if is_others(circumstances, &path) || circumstances.tracker.is_overlaid(&path) || place.is_mount_point()? {
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
                    plan.changes.insert(path.clone(), Change::Remove);
                    plan.clear.push(path);
                }
                // Sockets, FIFOs and devices belong to programs.
                Kind::File | Kind::Symlink | Kind::Other => {}
            }
        }
    }
    // The deepest first: whether one gets empty depends on those in it.
    foreign_directories.sort();
    for directory in foreign_directories.into_iter().rev() {
        if plan.empties(circumstances, &directory)? {
            plan.changes.insert(directory.clone(), Change::Remove);
            plan.clear.push(directory);
        }
    }
    Ok(())
}

/// Whether this is what a killed apply has begun to write.
fn is_temporary(circumstances: &Circumstances<'_>, wanted: &BTreeSet<PathBuf>, path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    let of = bytes.strip_suffix(b".holonew").and_then(|of| std::str::from_utf8(of).ok());
    circumstances.record.tracks().is_temporary(path) || of.is_some_and(|of| wanted.contains(Path::new(of)))
}

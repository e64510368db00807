//! The target directories of archives: removing their trees, and explaining why they cannot be changed.

use crate::error::ArchiveError;
use crate::record::ArchiveRecord;
use crate::store::Store;
use holo_change::tree_store::{PendingEntry, TreeError};
use holo_plugin::{ForceTo, Output};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The maximum number of changed files that are named.
const NAMED: usize = 10;

/// The result of removing the tree in a directory.
pub(crate) struct RemovedTree {
    /// True if there were files to remove.
    pub(crate) has_changed: bool,
    /// True if files are left because of overlays.
    pub(crate) waits: bool,
}

/// Removes the tree in a directory, and restores bases. Files with overlays are kept, with a warning.
pub(crate) fn remove_tree(
    store: &Store,
    (id, record): (&str, &ArchiveRecord),
    directory: &str,
    force: bool,
    output: &mut Output<'_>,
) -> Result<RemovedTree, ArchiveError> {
    let mut extracted = record.open_tree(&store.trees, id, Path::new(directory))?;
    extracted.clear_staging()?;
    let owners = store.owners_in_tree(id, Path::new(directory))?;
    let removed = extracted.remove(force, &owners, store.claims(), &store.has_changed);
    let has_changed = removed.map_err(|error| explain(error, directory, output))?;
    let waiting = extracted.waiting();
    if has_changed {
        warn_of_waiting(&waiting, output);
    }
    Ok(RemovedTree { has_changed, waits: !waiting.is_empty() })
}

/// Returns a description of the effect of [`remove_tree`], if there are files to remove.
pub(crate) fn would_remove_tree(
    store: &Store,
    (id, record): (&str, &ArchiveRecord),
    directory: &str,
    output: &mut Output<'_>,
) -> Result<Option<String>, ArchiveError> {
    let extracted = record.open_tree(&store.trees, id, Path::new(directory))?;
    if extracted.manifest().is_none() || extracted.has_nothing_but_waiting() {
        return Ok(None);
    }
    let losses = extracted.losses_of_removal(&*store.owners_in_tree(id, Path::new(directory))?, &store.claims())?;
    if losses.is_empty() {
        return Ok(Some(format!("would remove the files extracted to {directory}")));
    }
    Err(explain(TreeError::LosesChanges(losses), directory, output))
}

/// Returns the paths that a forced [`remove_tree`] would change.
pub(crate) fn pending_removal(
    store: &Store,
    (id, record): (&str, &ArchiveRecord),
    directory: &str,
) -> Result<Vec<PendingEntry>, ArchiveError> {
    let extracted = record.open_tree(&store.trees, id, Path::new(directory))?;
    let owners = store.owners_in_tree(id, Path::new(directory))?;
    Ok(extracted.pending(&BTreeMap::new(), &owners, &store.claims())?)
}

/// Prints warnings for files that are kept because of overlays.
pub(crate) fn warn_of_waiting(paths: &[PathBuf], output: &mut Output<'_>) {
    for path in paths {
        output.warning(format!("{} will be restored when its overlay is removed", path.display()));
    }
}

/// Converts an error to one of the archive. Manual changes that would be lost are printed, up to a limit.
pub(crate) fn explain(error: TreeError, directory: &str, output: &mut Output<'_>) -> ArchiveError {
    match error {
        TreeError::LosesChanges(paths) => {
            warn_of_changes(&paths, directory, output);
            ArchiveError::NeedsForce(ForceTo::Overwrite)
        }
        error => error.into(),
    }
}

pub(crate) fn warn_of_changes(paths: &[PathBuf], directory: &str, output: &mut Output<'_>) {
    for path in paths.iter().take(NAMED) {
        output.warning(format!("changed by user: {:?}", Path::new(directory).join(path)));
    }
    if let Some(more @ 1..) = paths.len().checked_sub(NAMED) {
        output.warning(format!("changed by user: {more} more"));
    }
}

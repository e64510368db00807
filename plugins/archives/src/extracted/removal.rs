//! Removal of everything that was extracted to a directory.

use super::ExtractedTree;
use crate::error::{ArchiveError, InstallError};
use crate::store::Store;
use holo_change::error::PathError;
use holo_plugin::{ForceTo, Output};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The number of changed files that are named.
const NAMED: usize = 10;

/// The outcome of removing everything that was extracted to a directory.
pub(crate) struct RemovedTree {
    /// True if there was something to remove.
    pub(crate) has_changed: bool,
    /// True if something is left, because overlays lie over it.
    pub(crate) waits: bool,
}

impl ExtractedTree<'_> {
    /// Removes everything that was extracted, except files under overlays. Returns true if there was anything to remove.
    ///
    /// # Errors
    /// As [`ExtractedTree::install`]; also if bases cannot be restored, because the directory is somewhere else by now.
    fn remove(&mut self, force: bool) -> Result<bool, InstallError> {
        if self.manifest.is_none() {
            // A killed run may have left an empty folder.
            Store::remove(&self.manifest_path)?;
            return Ok(false);
        }
        let here = self.full(Path::new(""));
        let is_elsewhere = self.store.root.canonical(&here, true)? != here;
        if is_elsewhere || (self.directory.is_none() && self.path.exists()?) {
            if self.has_bases()? {
                let obstacle = "not a directory any more, or behind a symlink";
                return Err(ArchiveError::BaseNotRestored { path: self.path.shown(), obstacle }.into());
            }
            self.directory = None;
        } else if self.directory.is_none() && self.has_bases()? {
            self.path.create_folder()?;
            self.path.create_directory(0o755)?;
            self.enter()?;
        }
        let listed = self.manifest.as_ref().map_or(0, |manifest| manifest.entries.len());
        self.install(None, "", force)?;
        Ok(listed == 0 || self.manifest.as_ref().is_none_or(|manifest| manifest.entries.len() < listed))
    }

    fn has_bases(&self) -> Result<bool, PathError> {
        for path in self.manifest.iter().flat_map(|manifest| manifest.entries.keys()) {
            if self.has_base(path)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the paths with changes of a user that would be lost if everything was removed.
    fn losses_of_removal(&self) -> Result<Vec<PathBuf>, InstallError> {
        Ok(self.plan(&BTreeMap::new(), &self.owners()?)?.losses)
    }
}

/// Removes everything that was extracted to a directory, and restores bases. Files under overlays stay, with a warning.
pub(crate) fn remove_tree(
    store: &Store,
    id: &str,
    directory: &str,
    force: bool,
    output: &mut Output<'_>,
) -> Result<RemovedTree, ArchiveError> {
    let mut extracted = ExtractedTree::open(store, id, Path::new(directory))?;
    extracted.clear_staging()?;
    let has_changed = extracted.remove(force).map_err(|error| explain(error, directory, output))?;
    let waiting = extracted.waiting();
    if has_changed {
        warn_of_waiting(&waiting, output);
    }
    Ok(RemovedTree { has_changed, waits: !waiting.is_empty() })
}

/// Returns the description of what [`remove_tree`] would do, if there is anything to remove.
pub(crate) fn would_remove_tree(
    store: &Store,
    id: &str,
    directory: &str,
    output: &mut Output<'_>,
) -> Result<Option<String>, ArchiveError> {
    let extracted = ExtractedTree::open(store, id, Path::new(directory))?;
    if extracted.manifest.is_none() {
        return Ok(None);
    }
    let losses = extracted.losses_of_removal();
    if extracted.has_nothing_but_waiting() {
        return Ok(None);
    }
    let losses = losses.map_err(|error| explain(error, directory, output))?;
    if losses.is_empty() {
        return Ok(Some(format!("would remove what was extracted to {directory}")));
    }
    Err(explain(InstallError::LosesChanges(losses), directory, output))
}

/// Names files that stay until no overlay lies over them.
pub(crate) fn warn_of_waiting(paths: &[PathBuf], output: &mut Output<'_>) {
    for path in paths {
        output.warning(format!("{} comes back when nothing is laid over it any more", path.display()));
    }
}

/// Turns an error into one of the archive. Changes that would be lost are named, but not all of them if there are many.
pub(crate) fn explain(error: InstallError, directory: &str, output: &mut Output<'_>) -> ArchiveError {
    match error {
        InstallError::Failed(problem) => problem,
        InstallError::LosesChanges(paths) => {
            warn_of_changes(&paths, directory, output);
            ArchiveError::NeedsForce(ForceTo::Overwrite)
        }
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

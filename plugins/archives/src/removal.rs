//! Removing an archive: the download and the extracted files are removed, and bases are restored. The trees of target directories are
//! removed as far as possible.

use crate::error::ArchiveError;
use crate::listing::Listing;
use crate::store::{ArchiveRecord, Store};
use holo_change::base_store::Remembered;
use holo_change::error::PathError;
use holo_change::tree_store::{OwnedTree, PendingEntry, TreeError};
use holo_change::{Durability, Kind, PathHandle};
use holo_plugin::{EntityReport, ForceTo, Host, Output};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An archive to be removed.
pub(crate) struct Removal<'a> {
    pub(crate) store: &'a Store,
    pub(crate) id: &'a str,
    pub(crate) path: &'a str,
    pub(crate) report: &'a EntityReport,
}

/// The file at the path of the download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DownloadState {
    Nothing,
    /// Our download.
    Ours,
    /// The original file.
    Base,
    /// A file that is not ours; nothing was downloaded to the path.
    Foreign,
    /// Our download, with changes of a user.
    Changed,
}

impl Removal<'_> {
    /// Removes the download and all extracted files. Bases are kept until the definition is removed.
    pub(crate) fn remove(&self, force: bool, output: &mut Output<'_>) -> Result<Vec<String>, ArchiveError> {
        let mut record = self.record()?;
        let file = self.location();
        let found = self.found(&file, &record)?;
        if found == DownloadState::Changed && !force {
            return Err(ArchiveError::NeedsForce(ForceTo::Overwrite));
        }
        if found == DownloadState::Foreign {
            self.store.trees.reject_edited(&self.canonical()?)?;
        }
        self.keep_if_changed(found, output)?;
        let mut changes = self.remove_trees(&mut record, force, output)?;
        if found != DownloadState::Nothing {
            self.save_record(&record)?;
            if found == DownloadState::Foreign {
                self.store.trees.bases().save([(&*self.canonical()?, file.clone())])?;
            }
            self.store.has_changed.set(true);
            file.remove()?;
            Durability::Each.sync([], [&file])?;
            changes.push(format!("removed {}", self.path));
        }
        self.end(&mut record, !changes.is_empty())?;
        Ok(changes)
    }

    pub(crate) fn would_remove(&self, output: &mut Output<'_>) -> Result<Vec<String>, ArchiveError> {
        let record = self.record()?;
        let mut changes = self.would_remove_trees(&record, output)?;
        match self.found(&self.location(), &record)? {
            DownloadState::Nothing => {}
            DownloadState::Changed => return Err(ArchiveError::NeedsForce(ForceTo::Overwrite)),
            _ => changes.push(format!("would remove {}", self.path)),
        }
        Ok(changes)
    }

    /// Restores the original state, and removes the record of the archive.
    pub(crate) fn scrub(&self, force: bool, output: &mut Output<'_>) -> Result<Vec<String>, ArchiveError> {
        let mut record = self.record()?;
        let (file, path) = (self.location(), self.canonical()?);
        let has_another = self.has_another()?;
        // A file that another archive has created there, or taken over from us, belongs to that archive, together with
        // its base.
        let found = if has_another { DownloadState::Foreign } else { self.found(&file, &record)? };
        if found == DownloadState::Changed && !force {
            return Err(ArchiveError::NeedsForce(ForceTo::Overwrite));
        }
        self.keep_if_changed(found, output)?;
        let mut changes = self.remove_trees(&mut record, force, output)?;
        let has_base = self.store.trees.bases().has(&path)?;
        self.store.has_changed.set(true);
        match found {
            DownloadState::Base | DownloadState::Foreign => {}
            _ if has_base => {
                self.store.trees.bases().restore(&path, &file)?;
                Durability::Each.sync([], [&file])?;
                changes.push(format!("restored {}", self.path));
            }
            DownloadState::Nothing => {}
            DownloadState::Ours | DownloadState::Changed => {
                file.remove()?;
                Durability::Each.sync([], [&file])?;
                changes.push(format!("removed {}", self.path));
            }
        }
        // From now on, the file at the path is not ours.
        (record.download, record.incoming) = (None, None);
        self.save_record(&record)?;
        if !has_another {
            self.store.trees.bases().remove(&path)?;
        }
        if !record.trees.is_empty() {
            self.store.remove_directories(self.id, Some(&record), false)?;
            return Ok(changes);
        }
        self.remove_directories()?;
        self.store.forget(self.id)?;
        // The record is removed even if there were no other changes.
        if changes.is_empty() {
            changes.push(format!("forgot {}", self.id));
        }
        Ok(changes)
    }

    /// Removes the record of the archive, and leaves its files. Originals that no other archive needs are kept.
    pub(crate) fn forget(&self, host: &Host, output: &mut Output<'_>) -> Result<(), ArchiveError> {
        let record = self.record()?;
        let bases = self.store.trees.bases();
        let mut drop_base = |path: &Path| -> Result<(), ArchiveError> {
            host.keep_original(self.id, path, &bases.location(path), false, output)?;
            Ok(bases.remove(path)?)
        };
        for directory in &record.trees {
            let kept = self.store.trees.manifest(self.id, Path::new(directory));
            let Some(manifest) = kept.load()? else { continue };
            let owners = self.store.owners_below(self.id, Path::new(directory))?;
            for path in manifest.entries.keys().map(|path| Path::new(directory).join(path)) {
                if bases.has(&path)? && !owners.has(&path)? {
                    drop_base(&path)?;
                }
            }
            kept.remove()?;
        }
        let path = self.canonical()?;
        if bases.has(&path)? && !self.has_another()? {
            drop_base(&path)?;
        }
        Ok(self.store.forget(self.id)?)
    }

    pub(crate) fn would_scrub(&self, output: &mut Output<'_>) -> Result<Vec<String>, ArchiveError> {
        let record = self.record()?;
        let mut changes = self.would_remove_trees(&record, output)?;
        let has_base = self.store.trees.bases().has(&self.canonical()?)?;
        let found = if self.has_another()? { DownloadState::Foreign } else { self.found(&self.location(), &record)? };
        match found {
            DownloadState::Changed => return Err(ArchiveError::NeedsForce(ForceTo::Overwrite)),
            DownloadState::Base | DownloadState::Foreign => {}
            _ if has_base => changes.push(format!("would restore {}", self.path)),
            DownloadState::Nothing => {}
            DownloadState::Ours => changes.push(format!("would remove {}", self.path)),
        }
        if changes.is_empty() && !self.waits(&record)? {
            changes.push(format!("would forget {}", self.id));
        }
        Ok(changes)
    }

    /// Returns the paths that a forced removal or scrub would change.
    pub(crate) fn preview(&self, scrubs: bool) -> Result<Listing, ArchiveError> {
        let (record, mut listing) = (self.record()?, Listing::default());
        for directory in &record.trees {
            pending_removal(self.store, (self.id, &record), directory)?
                .into_iter()
                .for_each(|pending| listing.add(pending));
        }
        let (file, path) = (self.location(), self.canonical()?);
        let found = if scrubs && self.has_another()? { DownloadState::Foreign } else { self.found(&file, &record)? };
        let stays = if scrubs {
            matches!(found, DownloadState::Base | DownloadState::Foreign)
        } else {
            found == DownloadState::Nothing
        };
        if !stays {
            let bases = self.store.trees.bases();
            let is_restored = scrubs && bases.has(&path)?;
            let after = if is_restored { self.store.trees.entry(&bases.location(&path))? } else { None };
            listing.add(PendingEntry { before: self.store.trees.entry(&file)?, after, path });
        }
        Ok(listing)
    }

    /// Returns true if only files with overlays are left.
    fn waits(&self, record: &ArchiveRecord) -> Result<bool, PathError> {
        for directory in &record.trees {
            if OwnedTree::open(&self.store.trees, self.id, Path::new(directory))?.has_nothing_but_waiting() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn record(&self) -> Result<ArchiveRecord, PathError> {
        Ok(self
            .store
            .memory
            .recall(self.id)?
            .map(|remembered: Remembered<ArchiveRecord>| remembered.base)
            .unwrap_or_default())
    }

    fn save_record(&self, record: &ArchiveRecord) -> Result<(), PathError> {
        self.store.keep(&Remembered::new(self.report, record.clone()))
    }

    fn location(&self) -> PathHandle {
        self.store.trees.root().place(Path::new(self.path))
    }

    fn found(&self, file: &PathHandle, record: &ArchiveRecord) -> Result<DownloadState, ArchiveError> {
        let Some(stat) = file.stat()? else { return Ok(DownloadState::Nothing) };
        match stat.kind {
            Kind::File | Kind::Symlink => {}
            Kind::Directory | Kind::Other => {
                return Err(ArchiveError::NotManageable(file.shown()));
            }
        }
        if stat.kind == Kind::File
            && record.has_download()
            && record.knows(&self.store.checksums.digests(file, None)?.sha256)
        {
            Ok(DownloadState::Ours)
        } else if self.store.trees.bases().is_base(&self.canonical()?, file)? {
            Ok(DownloadState::Base)
        } else if record.has_download() {
            Ok(DownloadState::Changed)
        } else {
            Ok(DownloadState::Foreign)
        }
    }

    fn keep_if_changed(&self, found: DownloadState, output: &mut Output<'_>) -> Result<(), ArchiveError> {
        if found == DownloadState::Changed {
            self.store.keep_edited(self.id, [self.canonical()?], output)?;
        }
        Ok(())
    }

    fn remove_trees(
        &self,
        record: &mut ArchiveRecord,
        force: bool,
        output: &mut Output<'_>,
    ) -> Result<Vec<String>, ArchiveError> {
        let mut changes = Vec::new();
        for directory in record.trees.clone() {
            let RemovedTree { has_changed, waits } =
                remove_tree(self.store, (self.id, record), &directory, force, output)?;
            if has_changed {
                changes.push(format!("removed the files extracted to {directory}"));
            }
            record.trees.retain(|tree| waits || *tree != directory);
        }
        Ok(changes)
    }

    fn would_remove_trees(&self, record: &ArchiveRecord, output: &mut Output<'_>) -> Result<Vec<String>, ArchiveError> {
        let would =
            record.trees.iter().map(|directory| would_remove_tree(self.store, (self.id, record), directory, output));
        would.filter_map(Result::transpose).collect()
    }

    /// Removes directories that were created by archives, and are no longer needed.
    fn remove_directories(&self) -> Result<(), ArchiveError> {
        // An earlier run may have left an incomplete download.
        self.location().temporary(holo_download::PART_SUFFIX).remove()?;
        self.store.remove_directories(self.id, None, false)
    }

    /// Returns true if another archive has created a file at the path, or the path belongs to an entity of another
    /// plugin.
    fn has_another(&self) -> Result<bool, ArchiveError> {
        let (path, trees) = (self.canonical()?, &self.store.trees);
        Ok(self.store.owners_below(self.id, &path)?.has(&path)? || trees.rival(&path, self.store.claims())?.is_some())
    }

    fn canonical(&self) -> Result<PathBuf, PathError> {
        self.store.trees.root().canonical(Path::new(self.path), false)
    }

    /// Reduces the record to the data that is needed to restore bases.
    fn end(&self, record: &mut ArchiveRecord, changed: bool) -> Result<(), ArchiveError> {
        // There is no record, or it only shows that there is a base.
        if record.is_empty() && !changed {
            return Ok(());
        }
        let (trees, keep) = (std::mem::take(&mut record.trees), std::mem::take(&mut record.keep));
        *record = ArchiveRecord { path: record.path.take(), trees, keep, ..ArchiveRecord::default() };
        if record.trees.is_empty() {
            self.remove_directories()?;
        } else {
            self.store.remove_directories(self.id, Some(record), false)?;
        }
        if !record.trees.is_empty() || self.store.trees.bases().has(&self.canonical()?)? {
            Ok(self.save_record(record)?)
        } else {
            Ok(self.store.forget(self.id)?)
        }
    }
}

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
    if force {
        let losses = extracted.losses(&BTreeMap::new(), &owners, store.claims());
        store.keep_edited(id, losses.map_err(|error| explain(error, directory, output))?, output)?;
    }
    let removed = extracted.remove(force, &owners, Arc::clone(store.claims()), &store.has_changed);
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
    let mut extracted = record.open_tree(&store.trees, id, Path::new(directory))?;
    if let Some(mut manifest) = extracted.manifest().cloned() {
        manifest.keep_only(|path| !store.claims().is_taken_from(id, &Path::new(directory).join(path)));
        extracted.set_manifest(Some(manifest));
    }
    if extracted.manifest().is_none() || extracted.has_nothing_but_waiting() {
        return Ok(None);
    }
    let losses =
        extracted.losses(&BTreeMap::new(), &*store.owners_in_tree(id, Path::new(directory))?, store.claims())?;
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
    Ok(extracted.pending(&BTreeMap::new(), &owners, store.claims())?)
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

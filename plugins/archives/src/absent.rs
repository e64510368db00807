//! Removes what was made, and puts back what was there before.

use crate::error::ArchiveError;
use crate::owners::Owners;
use crate::record::{Record, is_kept, keep, put_back};
use crate::store::Store;
use crate::tree::{MoveError, Site};
use holo_change::base_store::Remembered;
use holo_change::error::PathError;
use holo_change::{Durability, Kind, PathHandle};
use holo_plugin::{EntityReport, ForceTo, Output};
use std::path::Path;

/// An entity that is to go.
pub(crate) struct Removal<'a> {
    pub(crate) store: &'a Store,
    pub(crate) id: &'a str,
    pub(crate) path: &'a str,
    pub(crate) report: &'a EntityReport,
}

/// What is at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    /// What we downloaded.
    Ours,
    /// What was there before us.
    Base,
    /// A file that we know nothing of, and never had one there.
    Foreign,
    /// What a person made of ours.
    Changed,
}

impl Removal<'_> {
    /// Makes sure that there is neither the download nor anything that was extracted.
    pub(crate) fn remove(&self, force: bool, output: &mut Output<'_>) -> Result<Vec<String>, ArchiveError> {
        let mut record = self.record()?;
        let place = self.place();
        let found = self.found(&place, &record)?;
        if found == Found::Changed && !force {
            return Err(ArchiveError::NeedsForce(ForceTo::Overwrite));
        }
        let mut changes = self.remove_trees(&mut record, force, output)?;
        if found != Found::Nothing {
            self.keep_record(&record)?;
            let kept = self.kept()?;
            if found == Found::Foreign {
                keep(&place, &kept)?;
                Durability::Each.sync([], [&kept])?;
            }
            self.store.has_changed.set(true);
            place.remove()?;
            Durability::Each.sync([], [&place])?;
            changes.push(format!("removed {}", self.path));
        }
        self.end(&mut record, !changes.is_empty())?;
        Ok(changes)
    }

    pub(crate) fn would_remove(&self, output: &mut Output<'_>) -> Result<Vec<String>, ArchiveError> {
        let record = self.record()?;
        let mut changes = self.would_remove_trees(&record, output)?;
        match self.found(&self.place(), &record)? {
            Found::Nothing => {}
            Found::Changed => return Err(ArchiveError::NeedsForce(ForceTo::Overwrite)),
            _ => changes.push(format!("would remove {}", self.path)),
        }
        Ok(changes)
    }

    /// Puts everything back as it was before us, and forgets the entity.
    pub(crate) fn scrub(&self, force: bool, output: &mut Output<'_>) -> Result<Vec<String>, ArchiveError> {
        let mut record = self.record()?;
        let (place, kept) = (self.place(), self.kept()?);
        let has_another = self.has_another()?;
        // What another archive has brought there, or taken over from us, is that one's, and so is what was there before.
        let found = if has_another { Found::Foreign } else { self.found(&place, &record)? };
        if found == Found::Changed && !force {
            return Err(ArchiveError::NeedsForce(ForceTo::Overwrite));
        }
        let mut changes = self.remove_trees(&mut record, force, output)?;
        let is_kept = kept.stat()?.is_some();
        self.store.has_changed.set(true);
        match found {
            Found::Base | Found::Foreign => {}
            _ if is_kept => {
                put_back(&kept, &place)?;
                Durability::Each.sync([], [&place])?;
                changes.push(format!("restored {}", self.path));
            }
            Found::Nothing => {}
            Found::Ours | Found::Changed => {
                place.remove()?;
                Durability::Each.sync([], [&place])?;
                changes.push(format!("removed {}", self.path));
            }
        }
        // From here on, what is at the path is nothing of ours.
        (record.download, record.incoming) = (None, None);
        self.keep_record(&record)?;
        if !has_another {
            Store::remove(&kept)?;
        }
        if !record.trees.is_empty() {
            self.store.remove_directories(self.id, Some(&record), false)?;
            return Ok(changes);
        }
        self.remove_directories()?;
        self.store.remove_unneeded_bases(self.id)?;
        self.store.memory.forget(self.id)?;
        // What it was about is over, even if there was nothing left to do.
        if changes.is_empty() {
            changes.push(format!("forgot {}", self.id));
        }
        Ok(changes)
    }

    pub(crate) fn would_scrub(&self, output: &mut Output<'_>) -> Result<Vec<String>, ArchiveError> {
        let record = self.record()?;
        let mut changes = self.would_remove_trees(&record, output)?;
        let is_kept = self.kept()?.stat()?.is_some();
        let found = if self.has_another()? { Found::Foreign } else { self.found(&self.place(), &record)? };
        match found {
            Found::Changed => return Err(ArchiveError::NeedsForce(ForceTo::Overwrite)),
            Found::Base | Found::Foreign => {}
            _ if is_kept => changes.push(format!("would restore {}", self.path)),
            Found::Nothing => {}
            Found::Ours => changes.push(format!("would remove {}", self.path)),
        }
        if changes.is_empty() && !self.waits(&record)? {
            changes.push(format!("would forget {}", self.id));
        }
        Ok(changes)
    }

    /// Returns true if something that was extracted is left, as something is laid over it.
    fn waits(&self, record: &Record) -> Result<bool, PathError> {
        for directory in &record.trees {
            if Site::open(self.store, self.id, Path::new(directory))?.has_nothing_but_waiting() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn record(&self) -> Result<Record, PathError> {
        Ok(self.store.memory.recall(self.id)?.map(|remembered: Remembered<Record>| remembered.base).unwrap_or_default())
    }

    fn keep_record(&self, record: &Record) -> Result<(), PathError> {
        self.store.memory.keep(&Remembered::new(self.report, record.clone()))
    }

    fn place(&self) -> PathHandle {
        self.store.root.place(Path::new(self.path))
    }

    fn found(&self, place: &PathHandle, record: &Record) -> Result<Found, ArchiveError> {
        let Some(looks) = place.stat()? else { return Ok(Found::Nothing) };
        match looks.kind {
            Kind::File | Kind::Symlink => {}
            Kind::Directory | Kind::Other => {
                return Err(ArchiveError::Failed(format!("{} is not a manageable file", place.shown().display())));
            }
        }
        if looks.kind == Kind::File
            && record.fetched().next().is_some()
            && record.knows(&self.store.known.sums(place, None)?.sha256)
        {
            Ok(Found::Ours)
        } else if is_kept(place, &self.kept()?)? {
            Ok(Found::Base)
        } else if record.fetched().next().is_some() {
            Ok(Found::Changed)
        } else {
            Ok(Found::Foreign)
        }
    }

    fn remove_trees(
        &self,
        record: &mut Record,
        force: bool,
        output: &mut Output<'_>,
    ) -> Result<Vec<String>, ArchiveError> {
        let mut changes = Vec::new();
        for directory in record.trees.clone() {
            let Removed { anything, waits } = remove_tree(self.store, self.id, &directory, force, output)?;
            if anything {
                changes.push(format!("removed what was extracted to {directory}"));
            }
            record.trees.retain(|tree| waits || *tree != directory);
        }
        Ok(changes)
    }

    fn would_remove_trees(&self, record: &Record, output: &mut Output<'_>) -> Result<Vec<String>, ArchiveError> {
        let would = record.trees.iter().map(|directory| would_remove_tree(self.store, self.id, directory, output));
        would.filter_map(Result::transpose).collect()
    }

    /// Removes the directories that archives made, and none needs any more.
    fn remove_directories(&self) -> Result<(), ArchiveError> {
        // An earlier run may have left part of a download there.
        self.place().temporary(crate::download::PART_SUFFIX).remove()?;
        self.store.remove_directories(self.id, None, false)
    }

    /// Whether another archive has brought something to the path.
    fn has_another(&self) -> Result<bool, ArchiveError> {
        let path = self.store.root.canonical(Path::new(self.path), false)?;
        Ok(Owners::below(self.store, self.id, &path)?.has(&path))
    }

    /// Where the file is kept that was at the path before us.
    fn kept(&self) -> Result<PathHandle, PathError> {
        Ok(self.store.kept(&self.store.root.canonical(Path::new(self.path), false)?))
    }

    /// Remembers no more than is needed for putting things back.
    fn end(&self, record: &mut Record, changed: bool) -> Result<(), ArchiveError> {
        // Nothing is remembered, or nothing but that something is kept.
        if record.is_empty() && !changed {
            return Ok(());
        }
        let trees = std::mem::take(&mut record.trees);
        *record = Record { path: record.path.take(), trees, ..Record::default() };
        if record.trees.is_empty() {
            self.remove_directories()?;
        } else {
            self.store.remove_directories(self.id, Some(record), false)?;
        }
        if !record.trees.is_empty() || self.kept()?.stat()?.is_some() {
            Ok(self.keep_record(record)?)
        } else {
            Ok(self.store.memory.forget(self.id)?)
        }
    }
}

/// The outcome of removing everything that was extracted to a directory.
pub(crate) struct Removed {
    /// Says that there was something to remove.
    pub(crate) anything: bool,
    /// Says that something is left, as something is laid over it.
    pub(crate) waits: bool,
}

/// Removes everything that was extracted to a directory, and puts back what was there before; but for what something is laid over, which
/// is said.
pub(crate) fn remove_tree(
    store: &Store,
    id: &str,
    directory: &str,
    force: bool,
    output: &mut Output<'_>,
) -> Result<Removed, ArchiveError> {
    let mut site = Site::open(store, id, Path::new(directory))?;
    site.clear_staging()?;
    let anything = site.remove(force).map_err(|refusal| refused(refusal, directory, output))?;
    let waiting = site.waiting();
    if anything {
        name_waiting(&waiting, output);
    }
    Ok(Removed { anything, waits: !waiting.is_empty() })
}

/// Names files that stay until what is laid over them is gone.
pub(crate) fn name_waiting(paths: &[std::path::PathBuf], output: &mut Output<'_>) {
    for path in paths {
        output.warning(format!("{} comes back when nothing is laid over it any more", path.display()));
    }
}

/// What removing everything would do that was extracted to a directory, if anything was.
pub(crate) fn would_remove_tree(
    store: &Store,
    id: &str,
    directory: &str,
    output: &mut Output<'_>,
) -> Result<Option<String>, ArchiveError> {
    let site = Site::open(store, id, Path::new(directory))?;
    if site.manifest.is_none() {
        return Ok(None);
    }
    let losses = site.losses_of_removal();
    if site.has_nothing_but_waiting() {
        return Ok(None);
    }
    match losses.and_then(|losses| if losses.is_empty() { Ok(()) } else { Err(MoveError::NeedsForce(losses)) }) {
        Ok(()) => Ok(Some(format!("would remove what was extracted to {directory}"))),
        Err(refusal) => Err(refused(refusal, directory, output)),
    }
}

/// A person's files that would be lost are named, but not all of them if there are many.
pub(crate) fn refused(refusal: MoveError, directory: &str, output: &mut Output<'_>) -> ArchiveError {
    match refusal {
        MoveError::Failed(problem) => ArchiveError::Failed(problem),
        MoveError::NeedsForce(paths) => {
            name_changed(&paths, directory, output);
            ArchiveError::NeedsForce(ForceTo::Overwrite)
        }
    }
}

/// How many of a person's files are named.
const NAMED: usize = 10;

pub(crate) fn name_changed(paths: &[std::path::PathBuf], directory: &str, output: &mut Output<'_>) {
    for path in paths.iter().take(NAMED) {
        output.warning(format!("changed by user: {:?}", Path::new(directory).join(path)));
    }
    if let Some(more @ 1..) = paths.len().checked_sub(NAMED) {
        output.warning(format!("changed by user: {more} more"));
    }
}

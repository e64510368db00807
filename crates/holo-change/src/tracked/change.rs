//! The changes of entities that are made of paths, as the steps of a [group](crate::group).

use super::Tracker;
use super::contents::StagedContent;
use super::entity_change::{EntityChange, PathChange, Work};
use super::held::Taken;
use super::lending::SharedContents;
use super::progress::Progress;
use super::restore::Found;
use super::state::{State, Unmanaged};
use super::tracks::HasTracks;
use crate::base_store::Remembered;
use crate::error::{PathError, Result};
use crate::group::{Results, Step, Store, Unsynced, commit, take_concurrently};
use crate::notices::Notices;
use crate::path_handle::PathHandle;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The store of the records of entities that are made of paths.
#[derive(Debug)]
pub struct TrackStore<T> {
    tracker: Tracker,
    progress: Arc<Progress>,
    /// The number of threads that may work at the same time.
    threads: usize,
    records: PhantomData<fn() -> T>,
}

impl<T> TrackStore<T> {
    /// Opens the store of the records that a tracker works with.
    ///
    /// # Errors
    /// If the list of directories cannot be read.
    pub fn open(tracker: &Tracker) -> Result<TrackStore<T>> {
        let progress = Arc::new(Progress::new(tracker)?);
        Ok(TrackStore { tracker: tracker.clone(), progress, threads: 1, records: PhantomData })
    }

    /// Has changes of different entities made by so many threads.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> TrackStore<T> {
        TrackStore { threads, ..self }
    }
}

/// Notes if a record cannot be read, which is said elsewhere.
#[derive(Default)]
struct Unreadable {
    are_any: bool,
}

impl Notices for Unreadable {
    fn unreadable_record(&mut self, _: &PathError) {
        self.are_any = true;
    }

    fn taken_over(&mut self, _: &str, _: &str) {}
}

impl<T: Serialize + DeserializeOwned + HasTracks> TrackStore<T> {
    /// Returns the contents that more than one path needs; none if that cannot be told.
    fn shared_contents(&self) -> Result<Option<SharedContents>> {
        let mut unreadable = Unreadable::default();
        let mut records = self.tracker.bases.all::<T>(&mut unreadable)?;
        let are_all_known = !unreadable.are_any;
        Ok(are_all_known.then(|| SharedContents::of(records.values_mut().map(|record| &*record.base.tracks()))))
    }

    /// Writes the record of an entity beside its place.
    fn write_record(&self, change: &EntityChange<T>) -> Result<Unsynced> {
        let place = self.tracker.bases.write_beside(&change.remembered)?;
        Ok(Unsynced { files: vec![place.replacement()], names: Vec::new() })
    }

    /// Moves the record that was written into its place, which is returned.
    fn move_record(&self, change: &EntityChange<T>) -> Result<PathHandle> {
        let place = self.tracker.bases.place(&change.remembered.id);
        place.replacement().rename_to(&place)?;
        Ok(place)
    }
}

impl<T: Serialize + DeserializeOwned + HasTracks + Send> Store for TrackStore<T> {
    type Change = EntityChange<T>;
    type Error = Unmanaged;

    fn reopen(&self) -> Result<TrackStore<T>> {
        let (tracker, progress) = (self.tracker.reopen()?, Arc::clone(&self.progress));
        Ok(TrackStore { tracker, progress, threads: self.threads, records: PhantomData })
    }

    fn forget_directories(&self) {
        self.tracker.forget_directories();
    }

    fn files(&self, change: &EntityChange<T>) -> usize {
        match &change.work {
            Work::Make { paths, .. } => paths.len(),
            Work::PutBack { paths, .. } => paths.len(),
        }
    }

    fn bytes(&self, change: &EntityChange<T>) -> usize {
        match &change.work {
            Work::Make { contents, .. } => contents.iter().map(Vec::len).sum(),
            Work::PutBack { .. } => 0,
        }
    }

    /// Notes the directories that are going to be made on the way to something.
    fn begin(&self, changes: &mut [EntityChange<T>]) -> Result<()> {
        self.tracker.begin()?;
        self.tracker.bases.settle()?;
        let (count, mut own) = (changes.len(), BTreeSet::new());
        let puts_back = |change: &EntityChange<T>| matches!(change.work, Work::PutBack { .. });
        let taken = if changes.iter().any(puts_back) { self.tracker.taken()? } else { Taken::default() };
        let only_puts_back = changes.iter().all(puts_back);
        let mut directories = self.tracker.directories()?;
        for change in changes {
            let Work::Make { paths, .. } = &change.work else { continue };
            match self.tracker.own_parents(paths, &directories) {
                Ok(parents) => own.extend(parents),
                Err(error) => change.obstacle = Some(error.into()),
            }
        }
        directories.add(own)?;
        self.progress.begin(count, directories, taken);
        if self.progress.is_journaled() && !only_puts_back {
            self.tracker.begin_linking()?;
        }
        // New files may need contents that a single path needed before; if paths only come back, they become fewer.
        if !only_puts_back {
            self.progress.set_shared_contents(None);
        } else if self.progress.is_journaled() && self.progress.shared_contents().is_none() {
            self.progress.set_shared_contents(self.shared_contents()?);
        }
        Ok(())
    }

    /// Contents, and a record with bases and intents.
    fn stage(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
        if let Some(obstacle) = change.obstacle.take() {
            return Err(obstacle);
        }
        let EntityChange { remembered, work, before, staged, linked, steps, .. } = change;
        *before = Some(remembered.base.tracks().clone());
        match work {
            Work::Make { paths, contents } => {
                for bytes in contents {
                    staged.extend(self.tracker.contents.stage_bytes(bytes)?);
                }
                let directories = self.progress.directories();
                let linked = self.progress.is_journaled().then_some(linked);
                *steps = self.tracker.record_intents(remembered.base.tracks(), paths, &directories, staged, linked)?;
            }
            Work::PutBack { paths, .. } => {
                self.progress.taken().forget_in(remembered);
                paths.retain(|path| !self.tracker.is_overlaid(path));
                self.tracker.intend_bases(remembered.base.tracks(), paths, staged)?;
            }
        }
        if remembered.base.tracks().have_pending() {
            let _held = self.progress.hold_takeovers();
            self.tracker.take_contents(remembered.base.tracks())?;
        }
        let mut unsynced = if self.progress.is_journaled() { Unsynced::default() } else { self.write_record(change)? };
        unsynced.files.extend(change.staged.iter().map(StagedContent::file));
        unsynced.files.extend(change.linked.iter().map(|linked| linked.content.clone()));
        Ok(unsynced)
    }

    fn gather(&self, changes: &[&EntityChange<T>]) -> Result<Unsynced> {
        if !self.progress.is_journaled() || changes.is_empty() {
            return Ok(Unsynced::default());
        }
        let records = changes.iter().map(|change| &change.remembered);
        let (journal, names) = self.tracker.bases.write_journal(records)?;
        Ok(Unsynced { files: vec![journal], names })
    }

    /// A record may say of a content that it is kept only if it is.
    fn keep(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
        let names = change.staged.drain(..).map(StagedContent::keep).collect::<Result<Vec<_>>>()?;
        Ok(Unsynced { files: Vec::new(), names })
    }

    /// From here on, what is beside the paths is known to be ours.
    fn prepare(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
        let mut unsynced = Unsynced::default();
        if self.progress.is_journaled() {
            unsynced.names.extend(self.progress.begin_journal(|| self.tracker.bases.move_journal())?);
        } else {
            unsynced.names.push(self.move_record(change)?);
        }
        change.is_begun = true;
        if let Work::PutBack { paths, found, restoration } = &mut change.work {
            let tracks = change.remembered.base.tracks();
            unsynced.files.extend(self.tracker.prepare_restoration(
                tracks,
                paths,
                found,
                restoration,
                &self.progress,
            )?);
        }
        change.steps.retain(|step| step.desired != step.current);
        unsynced.names.extend(self.tracker.prepare_steps(&mut change.steps, self.threads)?);
        unsynced.files.extend(change.steps.iter().filter_map(|step| step.temporary.clone()));
        Ok(unsynced)
    }

    fn replace(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
        if change.remembered.base.tracks().have_pending() {
            let _held = self.progress.hold_takeovers();
            self.tracker.tell_others(change.remembered.base.tracks())?;
        }
        let names = match &mut change.work {
            Work::Make { paths, .. } => {
                // From now on they are the entity's own.
                for change in paths.iter().filter(|change| matches!(change.desired, State::Directory { .. })) {
                    self.progress.take_directory(&change.path)?;
                }
                self.tracker.take_steps(&mut change.steps, self.threads)?
            }
            Work::PutBack { paths, found, restoration } => {
                let tracks = change.remembered.base.tracks();
                self.tracker.restore(tracks, paths, restoration, found, &self.progress)?
            }
        };
        Ok(Unsynced { files: Vec::new(), names })
    }

    /// An entity that has been put back needs no record, unless it is the one by which that is known.
    fn record(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
        let is_over = change.is_scrub && change.remembered.base.tracks().is_empty();
        change.is_forgotten = is_over && self.progress.is_journaled() && self.progress.has_reason_to_tidy();
        if change.is_forgotten {
            return Ok(Unsynced::default());
        }
        if let Work::Make { .. } = &change.work {
            for track in change.remembered.base.tracks().0.values_mut() {
                if let Some(intent) = track.intent.take() {
                    track.set_provisioned(intent);
                }
                track.over = None;
            }
        }
        Ok(self.write_record(change)?)
    }

    fn confirm(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
        let record = if change.is_forgotten {
            let record = self.tracker.bases.place(&change.remembered.id);
            record.remove()?;
            record
        } else {
            self.move_record(change)?
        };
        // If this is lost, the next apply finds by the intents what was made, unless those go with the journal.
        let names = if self.progress.is_journaled() { vec![record] } else { Vec::new() };
        Ok(Unsynced { files: Vec::new(), names })
    }

    /// Removes the directories that were made on the way to what has been put back.
    fn end(&self, changes: &mut [EntityChange<T>]) -> Result<()> {
        if self.progress.is_journaled() {
            // One that cannot be copied now is, when everything is tidied up.
            let _ = self.tracker.end_linking(changes.iter().flat_map(|change| &change.linked));
        }
        if self.progress.keeps_journal() {
            self.tracker.bases.leave_journal();
        } else if self.progress.is_journaled() {
            self.tracker.bases.remove_journal()?;
        }
        let paths = changes.iter().flat_map(|change| match &change.work {
            Work::Make { .. } => &[][..],
            Work::PutBack { paths, .. } => paths,
        });
        let parents: BTreeSet<PathBuf> = paths.flat_map(|path| path.ancestors().skip(1)).map(Path::to_owned).collect();
        if parents.is_empty() { Ok(()) } else { self.tracker.remove_own_directories(Some(&parents)) }
    }

    fn abandon(&self, change: &mut EntityChange<T>, error: &Unmanaged) {
        change.staged.drain(..).for_each(StagedContent::discard);
        change.steps.drain(..).for_each(|mut step| step.discard());
        // One that cannot be given up is no content of any other path, and goes when everything is tidied up.
        change.linked.retain(|linked| !matches!(self.tracker.unlink_content(linked), Ok(true)));
        if let Work::PutBack { restoration, .. } = &mut change.work {
            restoration.discard();
        }
        let _ = self.tracker.bases.place(&change.remembered.id).replacement().remove();
        if !change.is_begun {
            if let Some(before) = change.before.take() {
                *change.remembered.base.tracks() = before;
            }
        } else if !matches!(error, Unmanaged::Meanwhile(_))
            || self.tracker.recover_intents(&mut change.remembered).is_err()
        {
            // A state that somebody has made is the one that is known next time; if that cannot be recorded now, the next apply does it.
            self.progress.keep_journal();
        }
        change.is_begun = false;
    }

    fn take(&self, step: Step<Self>, changes: &mut [EntityChange<T>], results: &mut Results<Self>) -> Unsynced {
        let are_freed = changes.iter().any(|change| matches!(change.work, Work::PutBack { .. }));
        take_concurrently(self, step.threads(self.threads, are_freed), step, changes, results)
    }
}

impl Tracker {
    /// [Makes](EntityChange::make) paths for one entity.
    ///
    /// # Errors
    /// The first thing that went wrong. What has been done by then is known as ours to the next apply.
    pub fn make<T: Clone + Serialize + DeserializeOwned + HasTracks + Send>(
        &self,
        remembered: &mut Remembered<T>,
        wanted: &[PathChange],
    ) -> std::result::Result<(), Unmanaged> {
        self.commit_one(remembered, |remembered| EntityChange::make(remembered, wanted.to_vec(), Vec::new()))
    }

    /// [Puts back](EntityChange::put_back) what was there before us at some paths of one entity.
    ///
    /// # Errors
    /// The first thing that went wrong; that something else is found at a path than was, for one.
    pub fn put_back<T: Clone + Serialize + DeserializeOwned + HasTracks + Send>(
        &self,
        remembered: &mut Remembered<T>,
        paths: &[PathBuf],
        found: &Found,
    ) -> std::result::Result<(), Unmanaged> {
        self.commit_one(remembered, |remembered| EntityChange::put_back(remembered, paths.to_vec(), found.clone()))
    }

    /// [Scrubs](EntityChange::scrub) one entity.
    ///
    /// # Errors
    /// As [`Tracker::put_back`].
    pub fn scrub<T: Clone + Serialize + DeserializeOwned + HasTracks + Send>(
        &self,
        remembered: &mut Remembered<T>,
        found: &Found,
    ) -> std::result::Result<(), Unmanaged> {
        self.commit_one(remembered, |remembered| EntityChange::scrub(remembered, found.clone()))
    }

    fn commit_one<T: Clone + Serialize + DeserializeOwned + HasTracks + Send>(
        &self,
        remembered: &mut Remembered<T>,
        change: impl FnOnce(Remembered<T>) -> EntityChange<T>,
    ) -> std::result::Result<(), Unmanaged> {
        let mut changes = [change(remembered.clone())];
        let result = commit(&TrackStore::open(self)?.with_threads(self.threads), &mut changes).pop();
        let [change] = changes;
        *remembered = change.remembered;
        result.unwrap_or(Ok(()))
    }
}

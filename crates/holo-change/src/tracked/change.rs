//! The changes of entities that consist of paths, as the steps of a [group](crate::group).

use super::Tracker;
use super::contents::StagedContent;
use super::entity_change::{EntityChange, PathChange, Work};
use super::restore::Found;
use super::state::{State, Unmanaged};
use super::steps::Progress;
use super::tracks::HasTracks;
use crate::base_store::Remembered;
use crate::error::Result;
use crate::group::{Results, Step, Store, Unsynced, commit, take_concurrently};
use holo_state::Durability;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The store of the records of entities that consist of paths.
#[derive(Debug)]
pub struct TrackStore<T> {
    tracker: Tracker,
    progress: Arc<Progress>,
    /// The maximum number of threads.
    threads: usize,
    records: PhantomData<fn() -> T>,
}

impl<T> TrackStore<T> {
    /// Opens the store for the records of a tracker.
    ///
    /// # Errors
    /// If the list of directories cannot be read.
    pub fn open(tracker: &Tracker) -> Result<TrackStore<T>> {
        let progress = Arc::new(Progress::new(tracker)?);
        Ok(TrackStore { tracker: tracker.clone(), progress, threads: 1, records: PhantomData })
    }

    /// Sets the maximum number of threads for changes of different entities.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> TrackStore<T> {
        TrackStore { threads, ..self }
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

    /// Records the parent directories that are about to be created.
    fn begin(&self, changes: &mut [EntityChange<T>]) -> Result<()> {
        self.tracker.begin()?;
        let mut own = BTreeSet::new();
        let mut directories = self.tracker.directories()?;
        let mut contents = Vec::new();
        for change in &mut *changes {
            let Work::Make { paths, .. } = &change.work else { continue };
            let made =
                paths.iter().filter(|change| change.desired != State::Absent).map(|change| change.path.as_path());
            match self.tracker.own_parents(&made.collect(), &directories) {
                Ok(parents) => own.extend(parents),
                Err(error) => change.obstacle = Some(error.into()),
            }
        }
        directories.add(own)?;
        for change in changes.iter() {
            if let Work::Make { contents: new, .. } = &change.work {
                contents.extend(new.iter().map(Vec::as_slice));
            }
        }
        self.progress.begin(directories);
        self.tracker.contents.keep_many(contents)
    }

    /// Stages the contents, and a record with bases and intents.
    fn stage(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
        if let Some(obstacle) = change.obstacle.take() {
            return Err(obstacle);
        }
        let EntityChange { remembered, work, before, staged, steps, origins, .. } = change;
        *before = Some(remembered.base.tracks().clone());
        match work {
            Work::Make { paths, .. } => {
                let directories = self.progress.directories();
                *steps = self.tracker.record_intents(remembered.base.tracks(), paths, &directories, staged)?;
            }
            Work::PutBack { paths, .. } => {
                paths.retain(|path| !self.tracker.is_overlaid(path));
                self.tracker.intend_bases(remembered.base.tracks(), paths, staged)?;
            }
        }
        self.tracker.take_contents(remembered.base.tracks())?;
        *origins = remembered.base.tracks().take_origins();
        Ok(Unsynced { files: change.staged.iter().map(StagedContent::file).collect(), names: Vec::new() })
    }

    /// A record must only refer to contents that are stored.
    fn keep(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
        let names = change.staged.drain(..).map(StagedContent::keep).collect::<Result<Vec<_>>>()?;
        Ok(Unsynced { files: Vec::new(), names })
    }

    fn intend(&self, changes: &[&EntityChange<T>]) -> Result<()> {
        self.tracker.contents.flush()?;
        let kept = changes.iter().map(|change| self.tracker.bases.kept(&change.remembered.id, &change.remembered));
        let origins = changes.iter().flat_map(|change| &change.origins);
        self.tracker.own.record_takeover(kept.collect::<Result<_>>()?, origins)
    }

    /// From this step on, the temporary files next to the paths are known to be ours.
    fn prepare(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
        let mut unsynced = Unsynced::default();
        change.is_begun = true;
        if let Work::PutBack { paths, found, restoration } = &mut change.work {
            let tracks = change.remembered.base.tracks();
            unsynced.files.extend(self.tracker.prepare_restoration(tracks, paths, found, restoration)?);
        }
        change.steps.retain(|step| step.desired != step.current);
        unsynced.names.extend(self.tracker.prepare_steps(&mut change.steps, self.threads)?);
        unsynced.files.extend(change.steps.iter().filter_map(|step| step.temporary.clone()));
        Ok(unsynced)
    }

    fn replace(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
        let names = match &mut change.work {
            Work::Make { paths, .. } => {
                // From now on, they belong to the entity.
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

    /// A restored entity needs no record, unless the record is the reason for tidying up.
    fn record(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
        let is_over = change.is_scrub && change.remembered.base.tracks().is_empty();
        change.is_forgotten = is_over && self.progress.has_reason_to_tidy();
        if let Work::Make { .. } = &change.work {
            for track in change.remembered.base.tracks().0.values_mut() {
                if let Some(intent) = track.intent.take() {
                    track.set_provisioned(intent);
                }
                track.over = None;
            }
        }
        Ok(Unsynced::default())
    }

    /// If the records are lost, the next apply recognizes the changes by their intents.
    fn settle(&self, changes: &[&EntityChange<T>]) -> Result<()> {
        let settled = changes.iter().map(|EntityChange { remembered, is_forgotten, .. }| match is_forgotten {
            true => Ok(self.tracker.bases.forgotten(&remembered.id)),
            false => self.tracker.bases.kept(&remembered.id, remembered),
        });
        self.tracker.bases.write(&settled.collect::<Result<Vec<_>>>()?, Durability::Process)
    }

    /// Removes parent directories of restored paths that were created by us.
    fn end(&self, changes: &mut [EntityChange<T>]) -> Result<()> {
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
        if let Work::PutBack { restoration, .. } = &mut change.work {
            restoration.discard();
        }
        if !change.is_begun {
            if let Some(before) = change.before.take() {
                *change.remembered.base.tracks() = before;
            }
        } else if matches!(error, Unmanaged::Meanwhile(_)) {
            // A concurrent change is the original state next time. If this cannot be recorded now, the next apply
            // records it.
            let _ = self.tracker.recover_intents(&mut change.remembered);
        }
        change.is_begun = false;
    }

    fn take(&self, step: Step<Self>, changes: &mut [EntityChange<T>], results: &mut Results<Self>) -> Unsynced {
        let are_freed = changes.iter().any(|change| matches!(change.work, Work::PutBack { .. }));
        take_concurrently(self, step.threads(self.threads, are_freed), step, changes, results)
    }
}

impl Tracker {
    /// [Makes](EntityChange::make) paths of one entity.
    ///
    /// # Errors
    /// The first error. Changes that were already made are known to be ours by the next apply.
    pub fn make<T: Clone + Serialize + DeserializeOwned + HasTracks + Send>(
        &self,
        remembered: &mut Remembered<T>,
        wanted: &[PathChange],
    ) -> std::result::Result<(), Unmanaged> {
        self.commit_one(remembered, |remembered| EntityChange::make(remembered, wanted.to_vec(), Vec::new()))
    }

    /// [Restores](EntityChange::put_back) the bases of some paths of one entity.
    ///
    /// # Errors
    /// The first error, for example if a path was changed concurrently.
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
    /// Those of [`Tracker::put_back`].
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

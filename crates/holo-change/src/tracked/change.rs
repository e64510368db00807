//! The changes of entities that are made of paths, as the steps of a [group](crate::group).

use super::Tracker;
use super::contents::StagedContent;
use super::entity_change::{EntityChange, PathChange, Work};
use super::made_directories::MadeDirectories;
use super::restore::Found;
use super::state::{State, Unmanaged};
use super::tracks::HasTracks;
use crate::base_store::Remembered;
use crate::error::Result;
use crate::group::{Store, Unsynced, commit};
use crate::path_handle::PathHandle;
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// The store of the records of entities that are made of paths.
#[derive(Debug)]
pub struct TrackStore<T> {
    tracker: Tracker,
    /// The directories on the way to something, as they were when the group was begun.
    directories: RefCell<MadeDirectories>,
    /// True if the group begins with a journal, and not with a record for each entity.
    is_journaled: Cell<bool>,
    /// True once the journal is in its place.
    is_begun: Cell<bool>,
    /// True if the journal has to stay, as a change has come half way.
    keeps_journal: Cell<bool>,
    records: PhantomData<fn() -> T>,
}

/// The number of changes from which a journal is cheaper than a record for each.
const WORTH_A_JOURNAL: usize = 8;

impl<T> TrackStore<T> {
    /// Opens the store of the records that a tracker works with.
    ///
    /// # Errors
    /// If the list of directories cannot be read.
    pub fn open(tracker: &Tracker) -> Result<TrackStore<T>> {
        let directories = RefCell::new(tracker.directories()?);
        let (is_journaled, is_begun, keeps_journal) = Default::default();
        let (tracker, records) = (tracker.clone(), PhantomData);
        Ok(TrackStore { tracker, directories, is_journaled, is_begun, keeps_journal, records })
    }
}

impl<T: Serialize + HasTracks> TrackStore<T> {
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

impl<T: Serialize + HasTracks> Store for TrackStore<T> {
    type Change = EntityChange<T>;
    type Error = Unmanaged;

    fn reopen(&self) -> Result<TrackStore<T>> {
        TrackStore::open(&self.tracker.reopen()?)
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
        self.is_journaled.set(changes.len() >= WORTH_A_JOURNAL);
        self.is_begun.set(false);
        self.keeps_journal.set(false);
        let mut own = BTreeSet::new();
        let mut directories = self.tracker.directories()?;
        for change in changes {
            let Work::Make { paths, .. } = &change.work else { continue };
            match self.tracker.own_parents(paths, &directories) {
                Ok(parents) => own.extend(parents),
                Err(error) => change.obstacle = Some(error.into()),
            }
        }
        directories.add(own)?;
        self.directories.replace(directories);
        Ok(())
    }

    /// Contents, and a record with bases and intents.
    fn stage(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
        if let Some(obstacle) = change.obstacle.take() {
            return Err(obstacle);
        }
        let EntityChange { remembered, work, before, staged, steps, .. } = change;
        *before = Some(remembered.base.tracks().clone());
        match work {
            Work::Make { paths, contents } => {
                for bytes in contents {
                    staged.extend(self.tracker.contents.stage_bytes(bytes)?);
                }
                let directories = self.directories.borrow();
                *steps = self.tracker.record_intents(remembered.base.tracks(), paths, &directories, staged)?;
            }
            Work::PutBack { paths, .. } => {
                self.tracker.forget_taken(remembered)?;
                paths.retain(|path| !self.tracker.is_overlaid(path));
                self.tracker.intend_bases(remembered.base.tracks(), paths, staged)?;
            }
        }
        self.tracker.take_contents(remembered.base.tracks())?;
        let mut unsynced = if self.is_journaled.get() { Unsynced::default() } else { self.write_record(change)? };
        unsynced.files.extend(change.staged.iter().map(StagedContent::file));
        Ok(unsynced)
    }

    fn gather(&self, changes: &[&EntityChange<T>]) -> Result<Unsynced> {
        if !self.is_journaled.get() || changes.is_empty() {
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
        if !self.is_journaled.get() {
            unsynced.names.push(self.move_record(change)?);
        } else if !self.is_begun.get() {
            unsynced.names.push(self.tracker.bases.move_journal()?);
            self.is_begun.set(true);
        }
        change.is_begun = true;
        if let Work::PutBack { paths, found, restoration } = &mut change.work {
            let tracks = change.remembered.base.tracks();
            unsynced.files.extend(self.tracker.prepare_restoration(tracks, paths, found, restoration)?);
        }
        change.steps.retain(|step| step.desired != step.current);
        for step in &mut change.steps {
            unsynced.names.extend(self.tracker.prepare_step(step)?);
            unsynced.files.extend(step.temporary.clone());
        }
        Ok(unsynced)
    }

    fn replace(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
        self.tracker.tell_others(change.remembered.base.tracks())?;
        let mut names = Vec::new();
        let mut directories = self.directories.borrow_mut();
        match &mut change.work {
            Work::Make { paths, .. } => {
                // From now on they are the entity's own.
                for change in paths.iter().filter(|change| matches!(change.desired, State::Directory { .. })) {
                    directories.take(&change.path)?;
                }
                for step in &mut change.steps {
                    names.push(self.tracker.take_step(step)?);
                }
            }
            Work::PutBack { paths, found, restoration } => {
                let tracks = change.remembered.base.tracks();
                names = self.tracker.restore(tracks, paths, restoration, found, &mut directories)?;
            }
        }
        Ok(Unsynced { files: Vec::new(), names })
    }

    fn record(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
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
        let record = self.move_record(change)?;
        // If this is lost, the next apply finds by the intents what was made, unless those go with the journal.
        let names = if self.is_journaled.get() { vec![record] } else { Vec::new() };
        Ok(Unsynced { files: Vec::new(), names })
    }

    /// Removes the directories that were made on the way to what has been put back.
    fn end(&self, changes: &mut [EntityChange<T>]) -> Result<()> {
        if self.keeps_journal.get() {
            self.tracker.bases.leave_journal();
        } else if self.is_journaled.get() {
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
            self.keeps_journal.set(self.is_journaled.get());
        }
        change.is_begun = false;
    }
}

impl Tracker {
    /// [Makes](EntityChange::make) paths for one entity.
    ///
    /// # Errors
    /// The first thing that went wrong. What has been done by then is known as ours to the next apply.
    pub fn make<T: Clone + Serialize + HasTracks>(
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
    pub fn put_back<T: Clone + Serialize + HasTracks>(
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
    pub fn scrub<T: Clone + Serialize + HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
        found: &Found,
    ) -> std::result::Result<(), Unmanaged> {
        self.commit_one(remembered, |remembered| EntityChange::scrub(remembered, found.clone()))
    }

    fn commit_one<T: Clone + Serialize + HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
        change: impl FnOnce(Remembered<T>) -> EntityChange<T>,
    ) -> std::result::Result<(), Unmanaged> {
        let mut changes = [change(remembered.clone())];
        let result = commit(&TrackStore::open(self)?, &mut changes).pop();
        let [change] = changes;
        *remembered = change.remembered;
        result.unwrap_or(Ok(()))
    }
}

//! The changes of entities that are made of paths, as the steps of a [group](crate::group).

use super::Tracker;
use super::contents::StagedContent;
use super::directories::OwnDirectories;
use super::restore::{Found, Restoration};
use super::state::{State, Unmanaged};
use super::steps::{Step, writes_in_place};
use super::tracks::{HasTracks, Track, Tracks};
use crate::base_store::Remembered;
use crate::error::Result;
use crate::group::{Store, Unsynced, commit};
use crate::path_handle::{ExtendedAttributes, PathHandle};
use crate::paths::path_bytes;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// A change that is to be made to a path.
#[derive(Clone, Debug)]
pub struct PathChange {
    /// The path.
    pub path: PathBuf,
    /// The state when the change was decided on; if it is another one by now, the path is left alone.
    pub found: Option<State>,
    /// The desired state.
    pub desired: State,
    /// True if a file is written to, and not replaced.
    pub in_place: bool,
    /// True if the file's content stays, and is not our concern.
    pub attributes_only: bool,
    /// True if nobody may see the file's content.
    pub sensitive: bool,
}

impl PathChange {
    /// Creates the change of a path that becomes this, whatever is there.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, desired: State) -> PathChange {
        PathChange {
            path: path.into(),
            found: None,
            desired,
            in_place: false,
            attributes_only: false,
            sensitive: false,
        }
    }
}

/// A change that is to be made of an entity. No path of one in a group may be below a path of another.
#[derive(Debug)]
pub struct EntityChange<T> {
    /// The entity, with what is known of its paths; once the change is made, with what was made of them.
    pub remembered: Remembered<T>,
    work: Work,
    /// The tracks before the change.
    before: Option<Tracks>,
    staged: Vec<StagedContent>,
    steps: Vec<Step>,
    /// True if the record with the intents is in its place.
    is_begun: bool,
    /// The reason why the change cannot be made, if that is known before the first step.
    obstacle: Option<Unmanaged>,
}

#[derive(Debug)]
enum Work {
    /// Paths are made, of states whose contents are kept already or among these.
    Make { paths: Vec<PathChange>, contents: Vec<Vec<u8>> },
    /// Paths become what they were before us, if they still are as they were found.
    PutBack { paths: Vec<PathBuf>, found: Found, restoration: Restoration },
}

impl<T: HasTracks> EntityChange<T> {
    fn new(remembered: Remembered<T>, work: Work) -> EntityChange<T> {
        let (staged, steps) = (Vec::new(), Vec::new());
        EntityChange { remembered, work, before: None, staged, steps, is_begun: false, obstacle: None }
    }

    /// Creates the change of an entity that makes paths; a path that is as it is wanted gets a track too. The contents are those that are
    /// made and not kept yet.
    ///
    /// Missing parents are made, 0755, and go when they are empty. A directory is made only where nothing is, and is removed only if
    /// it is empty; a caller that wants more empties it first.
    ///
    /// A path whose state is another one than when the change was decided on, even if only directly before it is replaced, is neither
    /// changed nor known.
    #[must_use]
    pub fn make(remembered: Remembered<T>, paths: Vec<PathChange>, contents: Vec<Vec<u8>>) -> EntityChange<T> {
        EntityChange::new(remembered, Work::Make { paths, contents })
    }

    /// Creates the change of an entity that puts back what was there before us at some of its paths, and forgets their tracks. A path that
    /// an overlay lies over waits until that is gone, and is not forgotten.
    #[must_use]
    pub fn put_back(remembered: Remembered<T>, paths: Vec<PathBuf>, found: Found) -> EntityChange<T> {
        EntityChange::new(remembered, Work::PutBack { paths, found, restoration: Restoration::default() })
    }

    /// Creates the change of an entity that puts back everything that was there before it. It is forgotten by the next [`Tracker::tidy`].
    #[must_use]
    pub fn scrub(mut remembered: Remembered<T>, found: Found) -> EntityChange<T> {
        // Without tracks it is nothing but a reason to tidy up.
        let paths = remembered.base.tracks().iter().map(|(path, _)| path).collect();
        EntityChange::put_back(remembered, paths, found)
    }
}

/// The store of the records of entities that are made of paths.
#[derive(Debug)]
pub struct TrackStore<T> {
    tracker: Tracker,
    /// The directories on the way to something, as they were when the group was begun.
    directories: RefCell<OwnDirectories>,
    records: PhantomData<fn() -> T>,
}

impl<T> TrackStore<T> {
    /// Opens the store of the records that a tracker works with.
    ///
    /// # Errors
    /// If the list of directories cannot be read.
    pub fn open(tracker: &Tracker) -> Result<TrackStore<T>> {
        let directories = RefCell::new(tracker.directories()?);
        Ok(TrackStore { tracker: tracker.clone(), directories, records: PhantomData })
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
        let mut missing = BTreeSet::new();
        for change in changes {
            let Work::Make { paths, .. } = &change.work else { continue };
            match self.tracker.missing_parents(paths) {
                Ok(parents) => missing.extend(parents),
                Err(error) => change.obstacle = Some(error.into()),
            }
        }
        let mut directories = self.tracker.directories()?;
        directories.add(missing)?;
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
        let mut unsynced = self.write_record(change)?;
        unsynced.files.extend(change.staged.iter().map(StagedContent::file));
        Ok(unsynced)
    }

    /// A record may say of a content that it is kept only if it is.
    fn keep(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
        let names = change.staged.drain(..).map(StagedContent::keep).collect::<Result<Vec<_>>>()?;
        Ok(Unsynced { files: Vec::new(), names })
    }

    /// From here on, what is beside the paths is known to be ours.
    fn prepare(&self, change: &mut EntityChange<T>) -> std::result::Result<Unsynced, Unmanaged> {
        let mut unsynced = Unsynced { files: Vec::new(), names: vec![self.move_record(change)?] };
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
        // If this is lost, the next apply finds by the intents what was made.
        self.move_record(change)?;
        Ok(Unsynced::default())
    }

    /// Removes the directories that were made on the way to what has been put back.
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
        let _ = self.tracker.bases.place(&change.remembered.id).replacement().remove();
        if !change.is_begun {
            if let Some(before) = change.before.take() {
                *change.remembered.base.tracks() = before;
            }
        } else if matches!(error, Unmanaged::Meanwhile(_)) {
            // A state that somebody has made is the one that is known next time. If that cannot be recorded, the next apply does it.
            let _ = self.tracker.recover_intents(&mut change.remembered);
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

    /// Returns the directories that are missing on the way.
    fn missing_parents(&self, wanted: &[PathChange]) -> Result<BTreeSet<PathBuf>> {
        let named: BTreeSet<&Path> = wanted.iter().map(|change| change.path.as_path()).collect();
        let mut missing = BTreeSet::new();
        for change in wanted.iter().filter(|change| change.desired != State::Absent) {
            for parent in change.path.ancestors().skip(1) {
                if parent == Path::new("/") || named.contains(parent) {
                    break;
                }
                if self.place(parent).exists()? {
                    self.place(&change.path).check_way()?;
                    break;
                }
                missing.insert(parent.to_owned());
            }
        }
        Ok(missing)
    }

    /// Notes the current states of the paths as bases, and those that are about to be made as intents. The contents of bases are staged.
    pub(super) fn record_intents(
        &self,
        tracks: &mut Tracks,
        wanted: &[PathChange],
        directories: &OwnDirectories,
        staged: &mut Vec<StagedContent>,
    ) -> std::result::Result<Vec<Step>, Unmanaged> {
        let mut steps = Vec::with_capacity(wanted.len());
        for PathChange { path, found, desired, in_place, attributes_only, sensitive } in wanted {
            let (current, stamp) = self.stamped(path)?;
            let is_expected = found.as_ref().is_none_or(|found| *found == current) || current == *desired;
            if !is_expected {
                return Err(Unmanaged::Meanwhile(self.place(path).shown().display().to_string()));
            }
            if matches!(desired, State::Absent | State::Directory { .. }) && self.is_overlaid(path) {
                return Err(Unmanaged::Overlaid(self.place_itself(path).shown().display().to_string()));
            }
            let key = path_bytes(path);
            let is_known = tracks.0.contains_key(&key);
            let writes_over = *in_place && writes_in_place(&current, desired);
            if (!is_known || writes_over) && current.content().is_some() {
                staged.extend(self.contents.stage_file(&self.place(path))?);
            }
            let track = match tracks.0.entry(key) {
                Entry::Occupied(track) => track.into_mut(),
                Entry::Vacant(vacant) => {
                    // A directory that we made on the way to something else was not there before us.
                    let is_own_directory = matches!(current, State::Directory { .. })
                        && (directories.contains(path) || self.is_directory_of_others(path)?);
                    let mut track = Track::new(if is_own_directory { State::Absent } else { current.clone() });
                    if track.base.attributes().is_some() {
                        track.extended = ExtendedAttributes::of(&self.place(path))?;
                    }
                    vacant.insert(track)
                }
            };
            // An earlier intent that came true is what we made.
            if track.intent.as_ref() == Some(&current) {
                track.intent = None;
                track.set_provisioned(current.clone());
            }
            track.over = writes_over.then(|| current.clone());
            (track.in_place, track.attributes_only, track.sensitive) = (*in_place, *attributes_only, *sensitive);
            track.intent = Some(desired.clone());
            // A file that replaces another has what that has; one that is made again what there was before us.
            let extended = match (&current, desired) {
                (State::File { .. }, State::File { .. }) if current != *desired => {
                    ExtendedAttributes::of(&self.place(path))?.without_those_of_content()
                }
                _ if track.base.kind() == desired.kind() => track.extended.clone().without_those_of_content(),
                _ => ExtendedAttributes::default(),
            };
            steps.push(Step {
                path: path.clone(),
                current,
                stamp,
                desired: desired.clone(),
                extended,
                in_place: *in_place,
                temporary: None,
            });
        }
        Ok(steps)
    }
}

//! Paths that a plugin makes: their bases, the states that it makes of them, and the steps from one to the other.
//!
//! This is for plugins whose entities are made of files: an entity's [`Tracks`] are remembered with it ([`BaseStore`]),
//! contents lie beside ([`Contents`]). The rules are those of `files`: what was found before the first change is the *base* and comes
//! back when the entity is not defined any more; what a person has changed since we made it is overwritten only by force.
//!
//! A change is made in steps, each on disk before the next one is begun, so that a kill at any moment does no harm:
//!
//! 1. Contents are kept, bases and *intents* recorded. Nothing has been touched yet.
//! 2. Paths are changed, each in one step.
//! 3. What was intended is recorded as made.
//!
//! After a kill, a path that is equal to its intent is known to be our own work and not a person's: [`Tracker::settle`] is called
//! before anything else. In the end [`Tracker::tidy`] removes what is not needed any more, of a killed run too.
//!
//! Tracks are kept by the path that they are about, without symlinks in its parents ([`Tracker::canonical`]). An entity that owns a path
//! which another one had before takes over what is known of it ([`Tracker::adopt`]), so that the base stays the first of all.

mod contents;
mod directories;
mod in_place;
mod restore;
mod state;
mod stores;
mod takeover;

pub use contents::{Contents, Digest};
pub use directories::OwnDirectories;
pub use restore::Found;
pub use state::{Attributes, State, Unmanaged};
pub use stores::Overlays;
pub use takeover::Origin;

use crate::base_store::{BaseStore, Remembered};
use crate::canonical::CanonicalPaths;
use crate::error::{PathError, Result};
use crate::image::Stamp;
use crate::locations::Locations;
use crate::notices::Notices;
use crate::path_handle::Durability;
use crate::path_handle::{ExtendedAttributes, PathHandle, TEMPORARY, Tree};
use bstr::{BString, ByteSlice};
use holo_protocol::{FilePair, Text};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use stores::Store;

const CONTENTS: &str = "contents";
const DIRECTORIES: &str = "directories";
/// Is there while something is changed, until what is not needed any more has been removed.
const UNTIDY: &str = "untidy";

/// Everything that an entity has made, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Entry>", into = "Vec<Entry>")]
pub struct Tracks(BTreeMap<BString, Track>);

/// The record of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Track {
    /// The state before our first change.
    pub base: State,
    /// The state that we made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<State>,
    /// The state that we are about to make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    intent: Option<State>,
    /// The state that we write over, byte by byte, to make that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over: Option<State>,
    /// ACLs, capabilities and the like of what was there before us.
    #[serde(default, skip_serializing_if = "ExtendedAttributes::is_empty")]
    extended: ExtendedAttributes,
    /// True if the file is written to, and not replaced, also when it is put back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    in_place: bool,
    /// True if the file's content is not our concern: it is not what we made then, whatever it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    attributes_only: bool,
    /// True if nobody may see the file's content.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// The entity that this was taken over from, until that has been told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    taken_from: Option<Origin>,
}

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
    /// A path that becomes this, whatever is there.
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

/// A step that changes a path.
struct Step<'a> {
    path: &'a Path,
    current: State,
    /// The stamp that tells whether that is still there.
    stamp: Option<Stamp>,
    desired: &'a State,
    /// ACLs, capabilities and the like that it gets.
    extended: ExtendedAttributes,
    in_place: bool,
}

/// A path with its track, as it is written.
#[derive(Serialize, Deserialize)]
struct Entry {
    path: Text,
    #[serde(flatten)]
    track: Track,
}

impl From<Vec<Entry>> for Tracks {
    fn from(entries: Vec<Entry>) -> Self {
        Tracks(entries.into_iter().map(|entry| (entry.path.0, entry.track)).collect())
    }
}

impl From<Tracks> for Vec<Entry> {
    fn from(tracks: Tracks) -> Self {
        tracks.0.into_iter().map(|(path, track)| Entry { path: Text(path), track }).collect()
    }
}

impl Track {
    /// The same with each state that we made, or were about to make, mapped: for callers that do not manage all of it.
    #[must_use]
    pub fn seen_as(&self, see: impl Fn(&State) -> State) -> Track {
        Track { made: self.made.as_ref().map(&see), intent: self.intent.as_ref().map(&see), ..self.clone() }
    }

    /// Takes a state for what we made of it, but for a content that is not our concern.
    fn set_made(&mut self, state: State) {
        let ours = self.made.as_ref().unwrap_or(&self.base);
        self.made = Some(match (state, ours) {
            (State::File { attributes, .. }, State::File { content, .. }) if self.attributes_only => {
                State::File { content: content.clone(), attributes }
            }
            (state, _) => state,
        });
    }

    fn new(base: State) -> Track {
        let (in_place, attributes_only, sensitive) = (false, false, false);
        let extended = ExtendedAttributes::default();
        Track {
            base,
            made: None,
            intent: None,
            over: None,
            extended,
            in_place,
            attributes_only,
            sensitive,
            taken_from: None,
        }
    }
}

impl Tracks {
    /// Returns the record of a path.
    #[must_use]
    pub fn get(&self, path: &Path) -> Option<&Track> {
        self.0.get(&crate::paths::path_bytes(path))
    }

    /// All paths, in their order, with their records.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (PathBuf, &Track)> {
        self.0.iter().map(|(path, track)| (path.to_path_lossy().into_owned(), track))
    }

    /// Returns true if there is no record of any path.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a killed run has left something that has to be [settled](Tracker::settle).
    #[must_use]
    pub fn are_unsettled(&self) -> bool {
        self.0.values().any(|track| track.intent.is_some() || track.taken_from.is_some())
    }

    /// Marks whether nobody may see the content at a path.
    pub fn set_sensitive(&mut self, path: &Path, sensitive: bool) {
        if let Some(track) = self.0.get_mut(&crate::paths::path_bytes(path)) {
            track.sensitive = sensitive;
        }
    }

    /// Takes what is at a path for what we made: a program that we called has changed it.
    pub fn set_made(&mut self, path: &Path, state: State) {
        if let Some(track) = self.0.get_mut(&crate::paths::path_bytes(path)) {
            track.made = Some(state);
        }
    }

    /// Forgets a path: what is there when it is made the next time is its base.
    pub fn forget(&mut self, path: &Path) {
        self.0.remove(&crate::paths::path_bytes(path));
    }

    /// Returns true if a name beside the paths is that of a file that we began to write, and did not come to move to its path.
    #[must_use]
    pub fn is_temporary(&self, path: &Path) -> bool {
        let bytes = crate::paths::path_bytes(path);
        bytes.strip_suffix(TEMPORARY.as_bytes()).is_some_and(|path| self.0.contains_key(path.as_bstr()))
    }

    /// The contents that may be needed again.
    #[must_use]
    pub fn contents(&self) -> BTreeSet<Digest> {
        let states = self
            .0
            .values()
            .flat_map(|track| [Some(&track.base), track.made.as_ref(), track.intent.as_ref(), track.over.as_ref()]);
        states.flatten().filter_map(State::content).cloned().collect()
    }
}

/// A decision about a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: it is as it shall be.
    Nothing,
    /// It is to be changed, and no work of a person's is lost.
    Change,
    /// It is to be changed, which would lose a person's work.
    NeedsForce,
}

/// Decides what has to be done with a path.
#[must_use]
pub fn decide(track: Option<&Track>, current: &State, desired: &State) -> Decision {
    if current == desired {
        return Decision::Nothing;
    }
    // A state that a killed run was about to make is no person's work.
    let Some(made) = track.and_then(|track| track.made.as_ref()) else { return Decision::Change };
    let intent = track.and_then(|track| track.intent.as_ref());
    // Nor is nothing at all.
    let is_ours = *current == State::Absent || current == made;
    if is_ours || intent.is_some_and(|intent| current == intent || is_on_the_way(made, current, intent)) {
        Decision::Change
    } else {
        Decision::NeedsForce
    }
}

/// Returns true if a kill in the middle of a step can have left this.
fn is_on_the_way(made: &State, current: &State, intent: &State) -> bool {
    let Some((current_has, intent_has)) = current.attributes().zip(intent.attributes()) else { return false };
    if matches!((current, intent), (State::Directory { .. }, State::Directory { .. }))
        && !matches!(made, State::Directory { .. })
    {
        // It is made private, and gets owner and mode then.
        return true;
    }
    // The owner comes first, and takes bits away that the mode may bring back.
    let mode_of_made = made.attributes().map(|attributes| attributes.mode & 0o1777);
    current.content() == intent.content()
        && made.content() == intent.content()
        && made.kind() == intent.kind()
        && (current_has.uid, current_has.gid) == (intent_has.uid, intent_has.gid)
        && Some(current_has.mode & 0o1777) == mode_of_made
}

/// The tree of the paths, and the store of their records.
#[derive(Clone, Debug)]
pub struct Tracker {
    root: Arc<Tree>,
    /// A directory below which no symlink is followed, and the path it has.
    inside: Option<(PathBuf, Arc<Tree>)>,
    /// The contents of files.
    contents: Contents,
    memory: BaseStore,
    /// The host's state directory, and what is kept there.
    own: Store,
    /// The overlays on paths.
    overlays: Overlays,
    canonical: CanonicalPaths,
    /// The paths that other entities hold.
    held: Arc<OnceLock<takeover::Held>>,
    locations: Arc<Locations>,
}

/// An entity's record, of which its tracks are a part.
pub trait HasTracks {
    /// The tracks.
    fn tracks(&mut self) -> &mut Tracks;
}

impl HasTracks for Tracks {
    fn tracks(&mut self) -> &mut Tracks {
        self
    }
}

impl Tracker {
    /// The paths below the host's root; contents are kept beside the memory's records.
    ///
    /// # Errors
    /// If the root or the state directory cannot be opened.
    pub fn open(locations: &Locations, memory: &BaseStore) -> Result<Tracker> {
        let root = Tree::open(locations.root())?;
        let own = Store::own(locations, memory);
        let contents = own.contents();
        Ok(Tracker {
            canonical: CanonicalPaths::new(&root),
            root,
            inside: None,
            contents,
            memory: memory.clone(),
            overlays: Overlays::of(locations),
            own,
            held: Arc::default(),
            locations: Arc::new(locations.clone()),
        })
    }

    /// The path by which entities are compared: without symlinks in its parents, as far as those are there and may be followed.
    ///
    /// # Errors
    /// If a part of it cannot be looked at.
    pub fn canonical(&self, path: &Path) -> Result<PathBuf> {
        self.canonical.of(path)
    }

    /// Gives tracks that were kept by another spelling the canonical one.
    pub fn rename_to_canonical(&self, tracks: &mut Tracks) {
        for (path, canonical) in self.canonical_of(tracks) {
            if canonical != path
                && tracks.get(&canonical).is_none()
                && let Some(track) = tracks.0.remove(&crate::paths::path_bytes(&path))
            {
                tracks.0.insert(crate::paths::path_bytes(&canonical), track);
            }
        }
    }

    /// The paths of tracks, each with its canonical one. What is below a tracked path belongs to that, wherever a symlink in its place may
    /// lead to. A path that cannot be looked at is left out.
    fn canonical_of(&self, tracks: &Tracks) -> Vec<(PathBuf, PathBuf)> {
        let canonical = |path: PathBuf| {
            let top = path.ancestors().filter(|above| tracks.get(above).is_some()).last()?;
            let below = path.strip_prefix(top).ok()?;
            let top = self.canonical(top).ok()?;
            let canonical = if below.as_os_str().is_empty() { top } else { top.join(below) };
            Some((path, canonical))
        };
        tracks.iter().filter_map(|(path, _)| canonical(path)).collect()
    }

    /// Returns true if the files plugin lays something over what is at a path: what we make of the path is the base of that then.
    #[must_use]
    pub fn is_overlaid(&self, path: &Path) -> bool {
        self.overlays.lie_over(path)
    }

    /// The same, which does not leave a directory: below it, no symlinks are followed. If there is no such directory yet, it is the same.
    ///
    /// # Errors
    /// If there is something else than a directory, or it cannot be opened.
    pub fn inside(&self, directory: &Path) -> Result<Tracker> {
        let place = self.root.place(directory);
        let inside = if place.exists()? { Some((directory.to_owned(), place.as_tree()?)) } else { None };
        Ok(Tracker { inside, ..self.clone() })
    }

    /// The place of a path; where an overlay lies over it, that of the overlay's base.
    #[must_use]
    pub fn place(&self, path: &Path) -> PathHandle {
        self.overlays.base(path).unwrap_or_else(|| self.place_itself(path))
    }

    /// Returns the place where a new file is written before it takes a path's place.
    fn temporary(&self, path: &Path) -> PathHandle {
        if self.is_overlaid(path) {
            // Beside a base, it would be one.
            let name = format!("{:016x}{TEMPORARY}", crate::paths::fingerprint(path.as_os_str().as_encoded_bytes()));
            return self.memory.tree().place(&self.memory.folder().join(name));
        }
        self.place_itself(path).temporary(TEMPORARY)
    }

    fn place_itself(&self, path: &Path) -> PathHandle {
        if let Some((directory, tree)) = &self.inside
            && let Ok(rest) = path.strip_prefix(directory)
            && !rest.as_os_str().is_empty()
        {
            return tree.place(rest);
        }
        self.root.place(path)
    }

    /// Returns the state of a path.
    ///
    /// # Errors
    /// If that cannot be told, or cannot be managed.
    pub fn state(&self, path: &Path) -> std::result::Result<State, Unmanaged> {
        State::of(&self.place(path))
    }

    /// Returns the state of a tracked path. If one above it that is tracked as well is no directory any more, nothing is there: it is not
    /// followed to where it leads by now.
    ///
    /// # Errors
    /// If that cannot be told, or cannot be managed.
    pub fn state_of(&self, tracks: &Tracks, path: &Path) -> std::result::Result<State, Unmanaged> {
        if self.is_cut_off(tracks, path)? { Ok(State::Absent) } else { self.state(path) }
    }

    /// Returns true if what was made at a path is not there any more, whatever that path leads to by now.
    fn is_cut_off(&self, tracks: &Tracks, path: &Path) -> Result<bool> {
        for above in path.ancestors().skip(1).filter(|above| tracks.get(above).is_some()) {
            let stat = self.place_itself(above).stat()?;
            if stat.is_some_and(|stat| stat.kind != crate::path_handle::Kind::Directory) {
                return Ok(true);
            }
        }
        if self.inside.is_some() || self.canonical.afresh(path)? == path {
            return Ok(false);
        }
        // There was no symlink in its parents. If there is one now, the directory may have been moved; then what we made is there.
        let made = tracks.get(path).and_then(|track| track.made.as_ref());
        Ok(self.state(path).ok().as_ref() != made)
    }

    /// Returns the state of a path, and the stamp that tells whether it is still the same.
    fn stamped(&self, path: &Path) -> std::result::Result<(State, Option<Stamp>), Unmanaged> {
        let stamp = Stamp::of(&self.place(path))?;
        Ok((self.state(path)?, stamp))
    }

    /// Forgets the directories that were used last: a symlink may have led to one of them.
    fn forget_directories(&self) {
        self.root.forget();
        if let Some((_, tree)) = &self.inside {
            tree.forget();
        }
    }

    /// Settles the changes that a killed run was at: what it had made is recorded as made, what it had not is forgotten.
    ///
    /// # Errors
    /// If that cannot be told or recorded.
    pub fn settle<T: Serialize + HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
    ) -> std::result::Result<(), Unmanaged> {
        if !remembered.base.tracks().are_unsettled() {
            return Ok(());
        }
        self.begin()?;
        self.settle_takeovers(remembered)?;
        let mut settled = remembered.base.tracks().clone();
        let mut found_anew = Vec::new();
        for (path, track) in &mut settled.0 {
            let path = path.to_path_lossy().into_owned();
            let Some(intent) = track.intent.take() else { continue };
            self.temporary(&path).remove()?;
            let current = self.state_of(remembered.base.tracks(), &path)?;
            let over = track.over.take();
            let is_half_done = is_on_the_way(track.made.as_ref().unwrap_or(&track.base), &current, &intent)
                || over.is_some_and(|over| in_place::is_torn(&self.place(&path), &over, &intent, &self.contents));
            if current == intent || is_half_done {
                if matches!(intent, State::Directory { .. }) {
                    self.directories()?.take(&path)?;
                }
                track.set_made(current);
            } else if track.made.is_none() {
                // Nothing was made of it yet: what is there when that is done is what was there before us.
                if track.base == State::Absent && matches!(current, State::Directory { .. }) {
                    self.directories()?.add([path.clone()])?;
                }
                found_anew.push(path);
            }
        }
        found_anew.iter().for_each(|path| settled.forget(path));
        *remembered.base.tracks() = settled;
        Ok(self.memory.keep(remembered)?)
    }

    /// Removes what is not needed any more: contents, directories, and the records of entities that have been put back and are ours to
    /// forget: a caller that has listed an entity will ask for it. Nobody else may work in the state directory at the same time.
    ///
    /// If nothing was changed since this was done last, that is seen at once.
    ///
    /// # Errors
    /// If something cannot be read or removed.
    pub fn tidy<T: DeserializeOwned + HasTracks>(
        &self,
        is_ours: impl Fn(&str) -> bool,
        notices: &mut dyn Notices,
    ) -> Result<()> {
        let untidy = self.untidy();
        if !untidy.exists()? {
            return Ok(());
        }
        let mut used = BTreeSet::new();
        let mut gone = Vec::new();
        let mut has_pending = false;
        for (id, mut remembered) in self.memory.all::<T>(notices)? {
            let tracks = remembered.base.tracks();
            used.extend(tracks.contents());
            has_pending |= tracks.have_pending();
            if tracks.is_empty() && is_ours(&id) {
                gone.push(id);
            }
        }
        self.contents.keep_only(&used)?;
        self.remove_own_directories(None)?;
        self.directories()?.tidy()?;
        self.own.end_takeovers(has_pending)?;
        self.memory.tidy()?;
        untidy.remove()?;
        // The records of the entities go last: as long as one is there, the entity is scrubbed again.
        gone.iter().try_for_each(|id| self.memory.forget(id))?;
        untidy.remove_empty_folders(Path::new(""));
        Ok(())
    }

    fn untidy(&self) -> PathHandle {
        self.own.place(UNTIDY)
    }

    /// Notes that something is going to be changed, so that there will be something to tidy up.
    fn begin(&self) -> Result<()> {
        self.own.mark(UNTIDY)
    }

    /// Keeps bytes that are going to be made.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn keep_bytes(&self, bytes: &[u8]) -> Result<Digest> {
        self.begin()?;
        self.contents.keep_bytes(bytes)
    }

    /// Keeps many contents that are going to be made.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn keep_many<'b>(&self, all: impl IntoIterator<Item = &'b [u8]>) -> Result<()> {
        self.begin()?;
        self.contents.keep_many(all)
    }

    /// Opens a content that is kept.
    ///
    /// # Errors
    /// If it is not, or cannot be opened.
    pub fn content(&self, digest: &Digest) -> Result<std::fs::File> {
        self.contents.open(digest)
    }

    /// Keeps the content of the file at a place.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn keep(&self, place: &PathHandle) -> Result<Digest> {
        self.begin()?;
        self.contents.keep(place)
    }

    /// [Makes](Tracker::make_all) what is wanted for one entity.
    ///
    /// # Errors
    /// The first thing that went wrong. What has been done by then is known as ours to the next apply.
    pub fn make<T: Serialize + HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
        wanted: &[PathChange],
    ) -> std::result::Result<(), Unmanaged> {
        self.make_all([(remembered, wanted)])
    }

    /// Makes the paths that each of these entities wants, and remembers their bases; a path that is as it is wanted gets a track too.
    /// No path of one may be below a path of another.
    ///
    /// Missing parents are made, 0755, and go when they are empty. A directory is made only where nothing is, and is removed only if
    /// it is empty; a caller that wants more empties it first.
    ///
    /// # Errors
    /// The first thing that went wrong. What has been done by then is known as ours to the next apply. A path whose state is another one
    /// than when the change was decided on, even if only directly before it is replaced, is neither changed nor known.
    pub fn make_all<'a, T: Serialize + HasTracks + 'a>(
        &self,
        all: impl IntoIterator<Item = (&'a mut Remembered<T>, &'a [PathChange])>,
    ) -> std::result::Result<(), Unmanaged> {
        self.begin()?;
        let (mut remembered, wanted_of): (Vec<&mut Remembered<T>>, Vec<_>) = all.into_iter().unzip();
        let wanted: Vec<&PathChange> = wanted_of.iter().copied().flatten().collect();
        let mut directories = self.directories()?;
        directories.add(self.missing_parents(&wanted)?)?;
        let before: Vec<Tracks> = remembered.iter_mut().map(|remembered| remembered.base.tracks().clone()).collect();
        let mut steps = Vec::with_capacity(wanted.len());
        for index in 0..remembered.len() {
            match self.record_intents(remembered[index].base.tracks(), wanted_of[index], &directories) {
                Ok(found) => steps.extend(found),
                Err(error) => {
                    for (remembered, before) in remembered.iter_mut().zip(before) {
                        *remembered.base.tracks() = before;
                    }
                    return Err(error);
                }
            }
        }
        self.remember_all(&mut remembered)?;
        // From now on they are the entity's own.
        for change in wanted.iter().filter(|change| matches!(change.desired, State::Directory { .. })) {
            directories.take(&change.path)?;
        }
        steps.retain(|step| *step.desired != step.current);
        let changed = self.change(&steps);
        if let Err(Unmanaged::Meanwhile(_)) = &changed {
            // A state that somebody has made is the one that is known next time.
            for remembered in &mut remembered {
                self.settle(remembered)?;
            }
        }
        changed?;
        for track in remembered.iter_mut().flat_map(|remembered| remembered.base.tracks().0.values_mut()) {
            if let Some(intent) = track.intent.take() {
                track.set_made(intent);
            }
            track.over = None;
        }
        self.memory.keep_all(remembered.iter().map(|remembered| &**remembered))?;
        Ok(())
    }

    /// Remembers entities, with what they take over from others; the others are told.
    fn remember_all<T: Serialize + HasTracks>(&self, all: &mut [&mut Remembered<T>]) -> Result<()> {
        for remembered in all.iter_mut() {
            self.take_contents(remembered.base.tracks())?;
        }
        self.memory.keep_all(all.iter().map(|remembered| &**remembered))?;
        for remembered in all.iter_mut() {
            self.tell_others(remembered.base.tracks())?;
        }
        Ok(())
    }

    fn directories(&self) -> Result<OwnDirectories> {
        OwnDirectories::read(self.memory.tree().place(&self.memory.folder().join(DIRECTORIES)))
    }

    /// The directories that are missing on the way.
    fn missing_parents(&self, wanted: &[&PathChange]) -> Result<BTreeSet<PathBuf>> {
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

    /// Records the current states of the paths, and those that are about to be made.
    fn record_intents<'a>(
        &self,
        tracks: &mut Tracks,
        wanted: &'a [PathChange],
        directories: &OwnDirectories,
    ) -> std::result::Result<Vec<Step<'a>>, Unmanaged> {
        let mut steps = Vec::new();
        for PathChange { path, found, desired, in_place, attributes_only, sensitive } in wanted {
            let (current, stamp) = self.stamped(path)?;
            let is_expected = found.as_ref().is_none_or(|found| *found == current) || current == *desired;
            if !is_expected {
                return Err(Unmanaged::Meanwhile(self.place(path).shown().display().to_string()));
            }
            if matches!(desired, State::Absent | State::Directory { .. }) && self.is_overlaid(path) {
                return Err(Unmanaged::Overlaid(self.place_itself(path).shown().display().to_string()));
            }
            let key = crate::paths::path_bytes(path);
            let is_known = tracks.0.contains_key(&key);
            let writes_over = *in_place && writes_in_place(&current, desired);
            if (!is_known || writes_over) && current.content().is_some() {
                self.contents.keep(&self.place(path))?;
            }
            let track = match tracks.0.entry(key) {
                std::collections::btree_map::Entry::Occupied(track) => track.into_mut(),
                std::collections::btree_map::Entry::Vacant(vacant) => {
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
                track.set_made(current.clone());
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
            steps.push(Step { path, current, stamp, desired, extended, in_place: *in_place });
        }
        Ok(steps)
    }

    /// Step 2: each of these paths is in the first state and gets the second one.
    fn change(&self, steps: &[Step<'_>]) -> std::result::Result<(), Unmanaged> {
        let durability = Durability::of(steps.len());
        let mut temporaries = Vec::new();
        let prepared = steps.iter().try_for_each(|step| {
            let place = self.place(step.path);
            if *step.desired != State::Absent {
                place.check_way()?;
                place.create_folder()?;
            }
            if is_replaced(step) {
                let temporary = self.temporary(step.path);
                step.desired.write_temporary(&temporary, &self.contents, &step.extended)?;
                temporaries.push((temporary, place));
            }
            Ok(())
        });
        let written = prepared.and_then(|()| durability.sync(temporaries.iter().map(|(temporary, _)| temporary), []));
        if let Err(error) = written {
            temporaries.iter().for_each(|(temporary, _)| drop(temporary.remove()));
            return Err(error.into());
        }
        let mut changed = Vec::new();
        let done = steps.iter().try_for_each(|step| {
            let place = self.place(step.path);
            self.check_unchanged(step)?;
            self.change_one(&place, step)?;
            if matches!(step.current, State::Symlink { .. }) {
                self.forget_directories();
            }
            changed.push(place);
            Ok(())
        });
        // The entries of a directory that is gone as well last with the removal of that.
        changed.retain(|place| !place.open_directory().is_err_and(|error| error.is_missing()));
        let synced = durability.sync([], &changed);
        if done.is_err() {
            temporaries.iter().for_each(|(temporary, _)| drop(temporary.remove()));
        }
        done.and(synced.map_err(Unmanaged::from))
    }

    /// Fails if something else has been put where a step is about to be taken.
    fn check_unchanged(&self, step: &Step<'_>) -> std::result::Result<(), Unmanaged> {
        if matches!(step.current, State::Directory { .. }) {
            // Others may put something into it; then it does not go.
            return Ok(());
        }
        let stamp = Stamp::of(&self.place(step.path))?;
        if let (State::Absent, State::Directory { .. }) = (&step.current, step.desired) {
            // It may have been made on the way to what is in it; and what is there otherwise makes that step fail.
            return Ok(());
        }
        let bytes = |stamp: &Option<Stamp>| stamp.as_ref().map(Stamp::to_bytes);
        let is_same = bytes(&stamp) == bytes(&step.stamp)
            // Two changes at one moment have the same stamp.
            && (stamp.is_none_or(|stamp| stamp.is_settled(SystemTime::now())) || self.state(step.path)? == step.current);
        let shown = || self.place(step.path).shown().display().to_string();
        if is_same { Ok(()) } else { Err(Unmanaged::Meanwhile(shown())) }
    }

    fn change_one(&self, place: &PathHandle, step: &Step<'_>) -> Result<()> {
        let temporary = || self.temporary(step.path);
        match (&step.current, step.desired) {
            (State::Directory { .. }, State::Absent) => remove_directory(place),
            (State::Directory { .. }, State::File { .. } | State::Symlink { .. }) => {
                remove_directory(place)?;
                temporary().rename_to(place)
            }
            (_, State::Absent) => place.remove(),
            (State::Absent | State::Directory { .. }, State::Directory { attributes }) => {
                attributes.give_directory(place, &step.extended)
            }
            (_, State::Directory { .. }) => Err(PathError::new("mkdir", place.shown(), Errno::EXIST)),
            (State::File { content, .. }, State::File { content: wanted, attributes }) if content == wanted => {
                attributes.give_in_place(place)
            }
            (current, State::File { content, attributes })
                if step.in_place && writes_in_place(current, step.desired) =>
            {
                in_place::write(place, content, *attributes, &self.contents)
            }
            _ => temporary().rename_to(place).map_err(in_place::with_hint),
        }
    }

    /// Writes a file or symlink in this state to a place that belongs to nobody, such as one in the cache directory.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_copy(&self, state: &State, place: &PathHandle) -> Result<()> {
        state.write_temporary(place, &self.contents, &ExtendedAttributes::default())
    }

    /// Returns what we made at a path and what is there, as two files that can be compared: of a file that we made, a copy in the cache
    /// directory with its mode, which is shown as `ID (applied)`.
    ///
    /// # Errors
    /// If the copy cannot be made.
    pub fn difference(&self, id: &str, path: &Path, made: Option<&State>) -> Result<FilePair> {
        let cache = Tree::open(self.locations.cache_dir())?;
        let copy = cache.place(&Path::new("made").join(crate::paths::without_root(path)));
        copy.create_folder()?;
        if let Some(made) = made {
            self.write_copy(made, &copy)?;
        }
        Ok(FilePair::new(copy.shown(), self.place(path).shown()).with_applied_label(id))
    }
}

/// Returns true if the path gets a new file or symlink by a rename.
fn is_replaced(step: &Step<'_>) -> bool {
    match (&step.current, step.desired) {
        (_, State::Absent | State::Directory { .. }) => false,
        (State::File { content, .. }, State::File { content: wanted, .. }) => content != wanted && !step.in_place,
        _ => true,
    }
}

/// Returns true if a file that is to be written in place is, as there is one.
fn writes_in_place(current: &State, desired: &State) -> bool {
    current.content().zip(desired.content()).is_some_and(|(current, desired)| current != desired)
}

fn remove_directory(place: &PathHandle) -> Result<()> {
    if place.remove_directory()? { Ok(()) } else { Err(PathError::new("rmdir", place.shown(), Errno::NOTEMPTY)) }
}

#[cfg(test)]
mod tests;

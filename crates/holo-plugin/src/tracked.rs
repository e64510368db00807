//! Paths that a plugin makes: what was there before, what it made, and how it gets from one to the other.
//!
//! This is for plugins whose entities are made of files: an entity's [`Tracks`] are remembered with it ([`Memory`]),
//! contents lie beside ([`Contents`]). The rules are those of `files`: what was found before the first change is the *base* and comes
//! back when the entity is not defined any more; what a person has changed since we made it is overwritten only by force.
//!
//! A change is made in steps, each on disk before the next one is begun, so that a kill at any moment does no harm:
//!
//! 1. Contents are kept, bases and *intents* recorded. Nothing has been touched yet.
//! 2. Paths are changed, each in one step.
//! 3. What was intended is recorded as made.
//!
//! Who finds a path equal to its intent after a kill knows that it is our own work and not a person's: [`Tracker::settle`] is called
//! before anything else. In the end [`Tracker::tidy`] removes what is not needed any more, of a killed run too.

mod contents;
mod directories;
mod state;

pub use contents::{Contents, Digest};
pub use directories::OwnDirectories;
pub use state::{Attributes, State, Unmanaged};

use crate::error::{PathError, Result};
use crate::memory::{Memory, Remembered};
use crate::place::{Place, Tree};
use crate::{Durability, ForceTo, Host, Output};
use bstr::{BString, ByteSlice};
use holo_protocol::Text;
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CONTENTS: &str = "contents";
const DIRECTORIES: &str = "directories";
/// Is there while something is changed, until what is not needed any more has been removed.
const UNTIDY: &str = "untidy";
/// What a new file is called before it takes its place.
const TEMPORARY: &str = ".holonew";

/// Everything that an entity has made, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Entry>", into = "Vec<Entry>")]
pub struct Tracks(BTreeMap<BString, Track>);

/// What is known of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Track {
    /// What was there before us.
    pub base: State,
    /// What we made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<State>,
    /// What we are about to make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    intent: Option<State>,
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
    /// The same with each state that we made, or were about to make, seen in another way: for who does not manage all of it.
    #[must_use]
    pub fn seen_as(&self, see: impl Fn(&State) -> State) -> Track {
        let base = self.base.clone();
        Track { base, made: self.made.as_ref().map(&see), intent: self.intent.as_ref().map(&see) }
    }
}

impl Tracks {
    /// What is known of a path.
    #[must_use]
    pub fn get(&self, path: &Path) -> Option<&Track> {
        self.0.get(&crate::path_bytes(path))
    }

    /// All paths, in their order, with what is known of them.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (PathBuf, &Track)> {
        self.0.iter().map(|(path, track)| (path.to_path_lossy().into_owned(), track))
    }

    /// Whether nothing is known of any path.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a killed run has left something that has to be [settled](Tracker::settle).
    #[must_use]
    pub fn are_unsettled(&self) -> bool {
        self.0.values().any(|track| track.intent.is_some())
    }

    /// Takes what is at a path for what we made: a program that we called has changed it.
    pub fn set_made(&mut self, path: &Path, state: State) {
        if let Some(track) = self.0.get_mut(&crate::path_bytes(path)) {
            track.made = Some(state);
        }
    }

    /// Forgets a path: what is there when it is made the next time is its base.
    pub fn forget(&mut self, path: &Path) {
        self.0.remove(&crate::path_bytes(path));
    }

    /// Whether a name beside the paths is that of a file that we began to write, and did not come to move to its path.
    #[must_use]
    pub fn is_temporary(&self, path: &Path) -> bool {
        let bytes = crate::path_bytes(path);
        bytes.strip_suffix(TEMPORARY.as_bytes()).is_some_and(|path| self.0.contains_key(path.as_bstr()))
    }

    /// Says that these paths are about to be restored: a kill on the way is known as such then.
    fn intend_bases(&mut self, paths: &[PathBuf]) {
        for path in paths {
            if let Some(track) = self.0.get_mut(&crate::path_bytes(path)) {
                track.intent = Some(track.base.clone());
            }
        }
    }

    /// The contents that may be needed again.
    #[must_use]
    pub fn contents(&self) -> BTreeSet<Digest> {
        let states = self.0.values().flat_map(|track| [Some(&track.base), track.made.as_ref(), track.intent.as_ref()]);
        states.flatten().filter_map(State::content).cloned().collect()
    }
}

/// What has to be done with a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: it is as it shall be.
    Nothing,
    /// It is to be changed, and no work of a person's is lost.
    Change,
    /// It is to be changed, which would lose a person's work.
    NeedsForce(ForceTo),
}

/// Decides what has to be done with a path.
#[must_use]
pub fn decide(track: Option<&Track>, current: &State, desired: &State) -> Decision {
    if current == desired {
        return Decision::Nothing;
    }
    // What a killed run was about to make is no person's work.
    let Some(made) = track.and_then(|track| track.made.as_ref()) else { return Decision::Change };
    let intent = track.and_then(|track| track.intent.as_ref());
    if current == made || intent.is_some_and(|intent| current == intent || is_on_the_way(made, current, intent)) {
        Decision::Change
    } else if *current == State::Absent {
        Decision::NeedsForce(ForceTo::Restore)
    } else {
        Decision::NeedsForce(ForceTo::Overwrite)
    }
}

/// Whether a kill in the middle of a step can have left this.
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

/// Where paths are, and where what is known of them is kept.
#[derive(Clone, Debug)]
pub struct Tracker {
    root: Arc<Tree>,
    /// A directory below which no symlink is followed, and the path it has.
    inside: Option<(PathBuf, Arc<Tree>)>,
    /// What files have in them.
    contents: Contents,
    memory: Memory,
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
    pub fn open(host: &Host, memory: &Memory) -> Result<Tracker> {
        let root = Tree::open(host.root())?;
        let contents = Contents::new(memory.tree(), memory.folder().join(CONTENTS));
        Ok(Tracker { root, inside: None, contents, memory: memory.clone() })
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

    /// The place of a path.
    #[must_use]
    pub fn place(&self, path: &Path) -> Place {
        if let Some((directory, tree)) = &self.inside
            && let Ok(rest) = path.strip_prefix(directory)
            && !rest.as_os_str().is_empty()
        {
            return tree.place(rest);
        }
        self.root.place(path)
    }

    /// What is at a path.
    ///
    /// # Errors
    /// If that cannot be told, or is nothing that can be managed.
    pub fn state(&self, path: &Path) -> std::result::Result<State, Unmanaged> {
        State::of(&self.place(path))
    }

    /// Puts in order what a killed run was at: what it had made is recorded as made, what it had not is forgotten.
    ///
    /// # Errors
    /// If that cannot be told or recorded.
    pub fn settle<T: Serialize + HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
    ) -> std::result::Result<(), Unmanaged> {
        let mut settled = false;
        if remembered.base.tracks().are_unsettled() {
            self.begin()?;
        }
        for (path, track) in &mut remembered.base.tracks().0 {
            if let Some(intent) = track.intent.take() {
                let path = path.to_path_lossy();
                self.place(&path).temporary(TEMPORARY).remove()?;
                let current = self.state(&path)?;
                let is_half_done = || is_on_the_way(track.made.as_ref().unwrap_or(&track.base), &current, &intent);
                if current == intent || is_half_done() {
                    if matches!(intent, State::Directory { .. }) {
                        self.directories()?.take(&path)?;
                    }
                    track.made = Some(current);
                }
                settled = true;
            }
        }
        if settled {
            self.memory.keep(remembered)?;
        }
        Ok(())
    }

    /// Removes what is not needed any more: contents, directories, and the records of entities that have been put back and are ours to
    /// forget: who has listed an entity will ask for it. Who works in the state directory at the same time has to be kept out.
    ///
    /// Where nothing was changed since this was done last, that is seen at once.
    ///
    /// # Errors
    /// If something cannot be read or removed.
    pub fn tidy<T: DeserializeOwned + HasTracks>(
        &self,
        is_ours: impl Fn(&str) -> bool,
        output: &mut Output<'_>,
    ) -> Result<()> {
        let untidy = self.untidy();
        if !untidy.exists()? {
            return Ok(());
        }
        let mut used = BTreeSet::new();
        let mut gone = Vec::new();
        for (id, mut remembered) in self.memory.all::<T>(output)? {
            let tracks = remembered.base.tracks();
            used.extend(tracks.contents());
            if tracks.is_empty() && is_ours(&id) {
                gone.push(id);
            }
        }
        self.contents.keep_only(&used)?;
        self.directories()?.remove_empty(|path| self.place(path), None)?;
        self.directories()?.tidy()?;
        self.memory.tidy()?;
        untidy.remove()?;
        // What is left of an entity goes last: as long as it is there, somebody comes here again.
        gone.iter().try_for_each(|id| self.memory.forget(id))?;
        untidy.remove_empty_folders(Path::new(""));
        Ok(())
    }

    fn untidy(&self) -> Place {
        self.memory.tree().place(&self.memory.folder().join(UNTIDY))
    }

    /// Something is going to be changed, so that there will be something to tidy up.
    fn begin(&self) -> Result<()> {
        let untidy = self.untidy();
        if !untidy.exists()? {
            untidy.create_folder()?;
            untidy.create()?;
        }
        Ok(())
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
    pub fn keep(&self, place: &Place) -> Result<Digest> {
        self.begin()?;
        self.contents.keep(place)
    }

    /// Puts back everything that was there before the entity, which is forgotten by the next [`Tracker::tidy`].
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn scrub<T: Serialize + HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
    ) -> std::result::Result<(), Unmanaged> {
        let paths: Vec<PathBuf> = remembered.base.tracks().iter().map(|(path, _)| path).collect();
        // Without tracks it is nothing but a reason to tidy up.
        self.put_back(remembered, &paths)
    }

    /// Puts back what was there before us at some paths, and forgets their tracks.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn put_back<T: Serialize + HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
        paths: &[PathBuf],
    ) -> std::result::Result<(), Unmanaged> {
        self.begin()?;
        remembered.base.tracks().intend_bases(paths);
        self.memory.keep(remembered)?;
        self.restore(remembered.base.tracks(), paths)?;
        self.memory.keep(remembered)?;
        Ok(())
    }

    /// [Makes](Tracker::make_all) what is wanted for one entity.
    ///
    /// # Errors
    /// The first thing that went wrong. What has been done by then is known as ours to the next apply.
    pub fn make<T: Serialize + HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
        wanted: &[(PathBuf, State)],
    ) -> std::result::Result<(), Unmanaged> {
        self.make_all([(remembered, wanted)])
    }

    /// Makes what is wanted for each of these entities, and remembers what was there before; a path that is wanted as it is gets a track too.
    /// No path of one may be below a path of another.
    ///
    /// Parents that are missing are made, 0755, and go when nothing is in them any more. A directory takes the place of nothing but nothing, and nothing that of a directory only
    /// if it is empty: who wants more empties it before.
    ///
    /// # Errors
    /// The first thing that went wrong. What has been done by then is known as ours to the next apply.
    pub fn make_all<'a, T: Serialize + HasTracks + 'a>(
        &self,
        all: impl IntoIterator<Item = (&'a mut Remembered<T>, &'a [(PathBuf, State)])>,
    ) -> std::result::Result<(), Unmanaged> {
        self.begin()?;
        let (mut remembered, wanted_of): (Vec<&mut Remembered<T>>, Vec<_>) = all.into_iter().unzip();
        let wanted: Vec<&(PathBuf, State)> = wanted_of.iter().copied().flatten().collect();
        let mut directories = self.directories()?;
        directories.add(self.missing_parents(&wanted)?)?;
        let mut current = Vec::with_capacity(wanted.len());
        for (remembered, wanted) in remembered.iter_mut().zip(wanted_of) {
            current.extend(self.record_intents(remembered, wanted, &directories)?);
        }
        self.memory.keep_all(remembered.iter().map(|remembered| &**remembered))?;
        // From now on they are the entity's own.
        for (path, _) in wanted.iter().filter(|(_, state)| matches!(state, State::Directory { .. })) {
            directories.take(path)?;
        }
        let changes: Vec<(&Path, &State, &State)> = wanted
            .iter()
            .zip(&current)
            .filter(|((_, state), current)| state != *current)
            .map(|((path, state), current)| (path.as_path(), current, state))
            .collect();
        self.change(&changes)?;
        for track in remembered.iter_mut().flat_map(|remembered| remembered.base.tracks().0.values_mut()) {
            if let Some(intent) = track.intent.take() {
                track.made = Some(intent);
            }
        }
        self.memory.keep_all(remembered.iter().map(|remembered| &**remembered))?;
        Ok(())
    }

    fn directories(&self) -> Result<OwnDirectories> {
        OwnDirectories::read(self.memory.tree().place(&self.memory.folder().join(DIRECTORIES)))
    }

    /// The directories that are needed on the way and nobody has.
    fn missing_parents(&self, wanted: &[&(PathBuf, State)]) -> Result<BTreeSet<PathBuf>> {
        let named: BTreeSet<&Path> = wanted.iter().map(|(path, _)| path.as_path()).collect();
        let mut missing = BTreeSet::new();
        for (path, _) in wanted.iter().filter(|(_, state)| *state != State::Absent) {
            for parent in path.ancestors().skip(1) {
                if parent == Path::new("/") || named.contains(parent) {
                    break;
                }
                if self.place(parent).exists()? {
                    self.place(path).check_way()?;
                    break;
                }
                missing.insert(parent.to_owned());
            }
        }
        Ok(missing)
    }

    /// What is at the paths now.
    fn record_intents<T: HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
        wanted: &[(PathBuf, State)],
        directories: &OwnDirectories,
    ) -> std::result::Result<Vec<State>, Unmanaged> {
        let tracks = remembered.base.tracks();
        let mut all = Vec::new();
        for (path, state) in wanted {
            let current = self.state(path)?;
            let key = crate::path_bytes(path);
            let is_known = tracks.0.contains_key(&key);
            if !is_known && current.content().is_some() {
                self.contents.keep(&self.place(path))?;
            }
            let track = tracks.0.entry(key).or_insert_with(|| {
                // A directory that we made on the way to something else was not there before us.
                let base = if directories.contains(path) { State::Absent } else { current.clone() };
                Track { base, made: None, intent: None }
            });
            // An earlier intent that came true is what we made.
            if track.intent.as_ref() == Some(&current) {
                track.made = track.intent.take();
            }
            track.intent = Some(state.clone());
            all.push(current);
        }
        Ok(all)
    }

    /// Puts the bases back, the deepest paths first, and forgets the tracks of these paths. The record itself is the caller's to keep or
    /// to forget.
    ///
    /// Directories that we made stay as long as something is in them.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn restore(&self, tracks: &mut Tracks, paths: &[PathBuf]) -> std::result::Result<(), Unmanaged> {
        self.begin()?;
        let mut directories = self.directories()?;
        let parents = paths.iter().flat_map(|path| path.ancestors().skip(1)).map(Path::to_owned).collect();
        let mut paths: Vec<&PathBuf> = paths.iter().collect();
        // What was made inside of a directory goes before it; what was there comes back after it.
        paths.sort();
        let bases: Vec<(&PathBuf, State)> =
            paths.into_iter().filter_map(|path| Some((path, tracks.get(path)?.base.clone()))).collect();
        let (gone, back): (Vec<_>, Vec<_>) = bases.iter().partition(|(_, base)| *base == State::Absent);
        for (path, _) in gone.iter().rev() {
            let current = self.state(path)?;
            match current {
                State::Directory { .. } => {
                    if !self.place(path).remove_directory()? {
                        // Others may have something in it, and are still to come.
                        directories.add([(*path).clone()])?;
                    }
                }
                State::Absent => {}
                current => self.change(&[(path, &current, &State::Absent)])?,
            }
        }
        for (path, base) in back {
            let mut current = self.state(path)?;
            if current == *base {
                continue;
            }
            if matches!(base, State::Directory { .. }) && matches!(current, State::File { .. } | State::Symlink { .. })
            {
                // It cannot become a directory in one step.
                self.change(&[(path, &current, &State::Absent)])?;
                current = State::Absent;
            }
            self.change(&[(path, &current, base)])?;
        }
        directories.remove_empty(|path| self.place(path), Some(&parents))?;
        for (path, _) in &bases {
            tracks.0.remove(&crate::path_bytes(path));
        }
        Ok(())
    }

    /// Step 2: each of these paths is in the first state and gets the second one.
    fn change(&self, changes: &[(&Path, &State, &State)]) -> Result<()> {
        let durability = Durability::of(changes.len());
        let mut temporaries = Vec::new();
        let prepared = changes.iter().try_for_each(|(path, current, desired)| {
            let place = self.place(path);
            if **desired != State::Absent {
                place.check_way()?;
                place.create_folder()?;
            }
            if self.is_replaced(current, desired) {
                let temporary = place.temporary(TEMPORARY);
                desired.write_temporary(&temporary, &self.contents)?;
                temporaries.push((temporary, place));
            }
            Ok(())
        });
        let written = prepared.and_then(|()| durability.sync(temporaries.iter().map(|(temporary, _)| temporary), []));
        if let Err(error) = written {
            temporaries.iter().for_each(|(temporary, _)| drop(temporary.remove()));
            return Err(error);
        }
        let mut changed = Vec::new();
        let done = changes.iter().try_for_each(|(path, current, desired)| {
            let place = self.place(path);
            self.change_one(&place, current, desired)?;
            changed.push(place);
            Ok(())
        });
        // What was in a directory that is gone as well lasts with the removal of that.
        changed.retain(|place| !place.open_directory().is_err_and(|error| error.is_missing()));
        let synced = durability.sync([], &changed);
        if done.is_err() {
            temporaries.iter().for_each(|(temporary, _)| drop(temporary.remove()));
        }
        done.and(synced)
    }

    /// Whether the path gets a new file or symlink by a rename.
    fn is_replaced(&self, current: &State, desired: &State) -> bool {
        match (current, desired) {
            (_, State::Absent | State::Directory { .. }) => false,
            (State::File { content, .. }, State::File { content: wanted, .. }) => content != wanted,
            _ => true,
        }
    }

    fn change_one(&self, place: &Place, current: &State, desired: &State) -> Result<()> {
        match (current, desired) {
            (State::Directory { .. }, State::Absent) => remove_directory(place),
            (State::Directory { .. }, State::File { .. } | State::Symlink { .. }) => {
                remove_directory(place)?;
                place.temporary(TEMPORARY).rename_to(place)
            }
            (_, State::Absent) => place.remove(),
            (State::Absent | State::Directory { .. }, State::Directory { attributes }) => {
                attributes.give_directory(place)
            }
            (_, State::Directory { .. }) => Err(PathError::new("mkdir", place.shown(), Errno::EXIST)),
            (State::File { content, .. }, State::File { content: wanted, attributes }) if content == wanted => {
                attributes.give_in_place(place)
            }
            _ => place.temporary(TEMPORARY).rename_to(place),
        }
    }

    /// Writes a file or symlink in this state to a place that is nobody's, such as one in the cache directory.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_copy(&self, state: &State, place: &Place) -> Result<()> {
        state.write_temporary(place, &self.contents)
    }

    /// What we made at a path and what is there, as two files that can be compared: of a file that we made, a copy in the cache directory
    /// with its mode.
    ///
    /// # Errors
    /// If the copy cannot be made.
    pub fn difference(&self, host: &Host, path: &Path, made: Option<&State>) -> Result<crate::FilePair> {
        let cache = Tree::open(host.cache_dir())?;
        let copy = cache.place(&Path::new("made").join(crate::place::without_root(path)));
        copy.create_folder()?;
        if let Some(made) = made {
            self.write_copy(made, &copy)?;
        }
        Ok(crate::FilePair { from: copy.shown(), to: self.place(path).shown() })
    }
}

fn remove_directory(place: &Place) -> Result<()> {
    if place.remove_directory()? { Ok(()) } else { Err(PathError::new("rmdir", place.shown(), Errno::NOTEMPTY)) }
}

#[cfg(test)]
mod tests;

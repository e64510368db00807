//! Paths that a plugin makes: their bases, the states that it makes of them, and the steps from one to the other.
//!
//! This is for plugins whose entities are made of files: an entity's [`Tracks`] are remembered with it ([`BaseStore`]),
//! contents lie beside ([`Contents`]). The rules are those of `files`: what was found before the first change is the *base* and comes
//! back when the entity is not defined any more; what a person has changed since we made it is overwritten only by force.
//!
//! A change is made in the steps of a group, each on disk before the next one is begun, so that a kill at any moment does
//! no harm:
//!
//! 1. *Staged*: contents and the record with bases and *intents* are written, under names that mean nothing yet.
//! 2. *Kept*: the contents are in their places.
//! 3. *Prepared*: the record is in its place, and new files lie beside their paths.
//! 4. *Replaced*: paths are changed, each in one step.
//! 5. and 6. *Recorded* and *confirmed*: what was intended is recorded as made.
//!
//! For a large group, the records of the first three steps are one journal, so that an entity has one record written, and not two; and
//! files that are going to be replaced become contents themselves, by a second name, with the first step.
//!
//! Of many entities that are put back together, all but one are forgotten with their last step, and contents that a single path
//! needed come back themselves, by a second name, and not as copies: no file is made then.
//!
//! After a kill, a path that is equal to its intent is known to be our own work and not a person's: [`Tracker::recover_intents`] is called
//! before anything else. In the end [`Tracker::tidy`] removes what is not needed any more, of a killed run too.
//!
//! Tracks are kept by the path that they are about, without symlinks in its parents ([`Tracker::canonical`]). An entity that owns a path
//! which another one had before takes over what is known of it ([`Tracker::adopt`]), so that the base stays the first of all.

mod change;
mod contents;
mod decision;
mod directories;
mod entity_change;
mod held;
mod in_place;
mod intents;
mod lending;
mod linking;
mod made_directories;
mod progress;
mod recovery;
mod restore;
mod state;
mod steps;
mod stores;
mod takeover;
mod tracks;

pub use change::TrackStore;
pub use contents::{Contents, Digest};
pub use decision::Decision;
pub use directories::OwnDirectories;
pub use entity_change::{EntityChange, PathChange};
pub use made_directories::MadeDirectories;
pub use restore::Found;
pub use state::{Attributes, State, Unmanaged};
pub use stores::Overlays;
pub use tracks::{HasTracks, Origin, Track, Tracks};

use crate::base_store::BaseStore;
use crate::canonical::CanonicalPaths;
use crate::error::Result;
use crate::image::Stamp;
use crate::locations::Locations;
use crate::path_handle::{ExtendedAttributes, Kind, PathHandle, TEMPORARY, Tree};
use crate::paths::{fingerprint, path_bytes, without_root};
pub use held::HeldPaths;
pub(crate) use held::{Held, HeldPath, Taken};
use holo_protocol::FilePair;
use std::path::{Path, PathBuf};
use std::sync::Arc;
pub(crate) use stores::PluginStore;

const CONTENTS: &str = "contents";
const DIRECTORIES: &str = "directories";
/// Is there while something is changed, until what is not needed any more has been removed.
const UNTIDY: &str = "untidy";

/// The tree of the paths, and the store of their records.
#[derive(Clone, Debug)]
pub struct Tracker {
    root: Arc<Tree>,
    /// A directory below which no symlink is followed, and the path it has.
    inside: Option<(PathBuf, Arc<Tree>)>,
    /// The contents of files.
    contents: Contents,
    bases: BaseStore,
    /// The host's state directory, and what is kept there.
    own: PluginStore,
    /// The overlays on paths.
    overlays: Overlays,
    canonical: CanonicalPaths,
    /// The paths that other entities hold.
    held: HeldPaths,
    locations: Arc<Locations>,
    /// The number of threads that may work on the paths of one entity.
    threads: usize,
}

impl Tracker {
    /// The paths below the host's root; contents are kept beside the records.
    ///
    /// # Errors
    /// If the root or the state directory cannot be opened.
    pub fn open(locations: &Locations, bases: &BaseStore) -> Result<Tracker> {
        let root = Tree::open(locations.root())?;
        let own = PluginStore::own(locations, bases);
        let contents = own.contents();
        Ok(Tracker {
            canonical: CanonicalPaths::new(&root),
            root,
            inside: None,
            contents,
            bases: bases.clone(),
            overlays: Overlays::of(locations),
            own,
            held: HeldPaths::default(),
            locations: Arc::new(locations.clone()),
            threads: 1,
        })
    }

    /// The same with what entities hold as another tracker may have read it, for entities that nobody takes anything from meanwhile.
    #[must_use]
    pub fn with_held(self, held: HeldPaths) -> Tracker {
        Tracker { held, ..self }
    }

    /// The same, which has so many threads work on the paths of one entity where their order does not matter.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Tracker {
        Tracker { threads, ..self }
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
        for (path, canonical) in held::canonical_of(tracks, &self.canonical) {
            if canonical != path
                && tracks.get(&canonical).is_none()
                && let Some(track) = tracks.0.remove(&path_bytes(&path))
            {
                tracks.0.insert(path_bytes(&canonical), track);
            }
        }
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
            let name = format!("{:016x}{TEMPORARY}", fingerprint(path.as_os_str().as_encoded_bytes()));
            return self.bases.tree().place(&self.bases.folder().join(name));
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

    /// Opens the same once more, for another thread.
    ///
    /// # Errors
    /// If a directory may not be entered any more.
    pub fn reopen(&self) -> Result<Tracker> {
        let root = self.root.reopen()?;
        let inside = self.inside.as_ref().map(|(path, tree)| Ok((path.clone(), tree.reopen()?))).transpose()?;
        let bases = self.bases.reopen()?;
        Ok(Tracker {
            canonical: CanonicalPaths::new(&root),
            root,
            inside,
            contents: self.contents.in_tree(bases.tree()),
            own: self.own.with_bases(&bases),
            bases,
            overlays: self.overlays.reopen()?,
            held: self.held.clone(),
            locations: Arc::clone(&self.locations),
            threads: self.threads,
        })
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
            if stat.is_some_and(|stat| stat.kind != Kind::Directory) {
                return Ok(true);
            }
        }
        if self.inside.is_some() || self.canonical.afresh(path)? == path {
            return Ok(false);
        }
        // There was no symlink in its parents. If there is one now, the directory may have been moved; then what we made is there.
        let provisioned = tracks.get(path).and_then(|track| track.provisioned.as_ref());
        Ok(self.state(path).ok().as_ref() != provisioned)
    }

    /// Returns the state of a path, and the stamp that tells whether it is still the same.
    fn stamped(&self, path: &Path) -> std::result::Result<(State, Option<Stamp>), Unmanaged> {
        match Stamp::of(&self.place(path))? {
            None => Ok((State::Absent, None)),
            stamp => Ok((self.state(path)?, stamp)),
        }
    }

    /// Forgets the directories that were used last: a symlink may have led to one of them.
    fn forget_directories(&self) {
        self.root.forget();
        if let Some((_, tree)) = &self.inside {
            tree.forget();
        }
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
        self.contents.keep_many(all, self.threads)
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

    fn directories(&self) -> Result<MadeDirectories> {
        MadeDirectories::read(&self.own)
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
        let copy = cache.place(&Path::new("made").join(without_root(path)));
        copy.create_folder()?;
        if let Some(made) = made {
            self.write_copy(made, &copy)?;
        }
        Ok(FilePair::new(copy.shown(), self.place(path).shown()).with_applied_label(id))
    }
}

#[cfg(test)]
mod tests;

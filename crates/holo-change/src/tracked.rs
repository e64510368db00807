//! Paths that a plugin changes: their bases, the states that it gives them, and the steps of a change.
//!
//! This is for plugins whose entities consist of files. The [`Tracks`] of an entity are recorded with it in the state
//! database ([`BaseStore`]), as are file contents ([`Contents`]). The rules are those of the files plugin: the
//! state before the first change is the *base*, which is restored when the entity is no longer defined. Manual changes
//! are only overwritten with force.
//!
//! A change is made in the steps of a group. Each step is on disk before the next one begins, so that a kill at any
//! time is harmless:
//!
//! 1. *Staged*: contents are written, large ones under temporary names.
//! 2. *Kept*: the large contents are in their final places. Then the records of all entities, with bases and *intents*, are
//!    written in one transaction.
//! 3. *Prepared*: new files are stored next to their paths.
//! 4. *Replaced*: paths are changed, each atomically.
//! 5. *Recorded*: the intents are recorded as provisioned, in one transaction.
//!
//! If several entities are restored together, the records of all but one are removed in the last step.
//!
//! After a kill, a path that is equal to its intent is known to be our own work, and not a manual change:
//! [`Tracker::recover_intents`] must be called first. At the end, [`Tracker::tidy`] removes data that is no longer
//! needed, including that of a killed run.
//!
//! Tracks are stored by canonical path ([`Tracker::canonical`]). An entity that owns a path of another entity takes
//! over its track ([`Tracker::adopt`]), so that the base remains the original one.

mod change;
mod contents;
mod entity_change;
mod held;
mod intents;
mod made_directories;
mod restore;
mod state;
mod steps;
mod stores;
mod tracks;

use crate::base_store::BaseStore;
use crate::canonical::CanonicalPaths;
use crate::claims::{self, GivenUp, Leaving, Recursive};
use crate::error::Result;
use crate::image::Stamp;
use crate::locations::Locations;
use crate::path_handle::{Durability, ExtendedAttributes, Kind, PathHandle, TEMPORARY, Tree, set_ownership};
use crate::paths::{fingerprint, path_bytes, without_root};
use holo_protocol::FilePair;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

pub use change::TrackStore;
pub use contents::{Contents, Digest};
pub use entity_change::{EntityChange, PathChange};
pub(crate) use held::{Held, HeldPath};
pub use held::{HeldPaths, is_made_by_others};
pub use made_directories::MadeDirectories;
pub use restore::{Decision, Found};
pub use state::{Attributes, State, Unmanaged};
pub(crate) use stores::PluginStore;
pub use stores::{EditedFiles, Overlays, tidy_idle};
pub use tracks::{HasTracks, Origin, Track, Tracks};

const CONTENTS: &str = "contents";
/// A marker file that exists while changes are made, until data that is no longer needed has been removed.
const UNTIDY: &str = "untidy";

/// Permissions of a new file or directory that a declaration above determines, as far as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The mode of a directory.
    pub mode: Option<u32>,
    /// The mode of a file.
    pub file_mode: Option<u32>,
}

/// The tree of the paths, and the store of their records.
#[derive(Clone, Debug)]
pub struct Tracker {
    root: Arc<Tree>,
    /// A directory below which no symlinks are followed, and its path.
    inside: Option<(PathBuf, Arc<Tree>)>,
    /// The contents of files.
    contents: Contents,
    bases: BaseStore,
    /// The plugin's state directory.
    own: PluginStore,
    /// The overlays on paths.
    overlays: Overlays,
    edited: EditedFiles,
    canonical: CanonicalPaths,
    /// The paths that other entities hold.
    held: HeldPaths,
    /// The directories whose declarations cover the permissions of everything below, read on first use.
    recursive: Arc<OnceLock<HashMap<PathBuf, Recursive>>>,
    /// The paths that checks have found to be given up, read on first use.
    given_up: Arc<OnceLock<GivenUp>>,
    locations: Arc<Locations>,
    /// The maximum number of threads for the paths of one entity.
    threads: usize,
}

impl Tracker {
    /// Opens a tracker for the paths below the root; contents are stored next to the records.
    ///
    /// # Errors
    /// If the root or the state directory cannot be opened.
    pub fn open(locations: &Locations) -> Result<Tracker> {
        let root = Tree::open(locations.root())?;
        let own = PluginStore::own(locations)?;
        let contents = own.contents();
        Ok(Tracker {
            canonical: CanonicalPaths::new(&root),
            root,
            inside: None,
            contents,
            bases: own.bases.clone(),
            overlays: Overlays::of(locations),
            edited: EditedFiles::of(locations),
            own,
            held: HeldPaths::default(),
            recursive: Arc::default(),
            given_up: Arc::default(),
            locations: Arc::new(locations.clone()),
            threads: 1,
        })
    }

    /// Shares the held paths with another tracker, which may have read them. No other entity may take over paths in the
    /// meantime.
    #[must_use]
    pub fn with_held(self, held: HeldPaths) -> Tracker {
        Tracker { held, ..self }
    }

    /// Sets the maximum number of threads for the paths of one entity, where their order is irrelevant.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Tracker {
        Tracker { threads, ..self }
    }

    /// Makes a tracker for a check of an entity that is applied or scrubbed. It knows the overlays that the same run adds and
    /// removes before.
    #[must_use]
    pub fn foreseeing(self, is_scrubbed: bool) -> Tracker {
        Tracker { overlays: self.overlays.foreseen(&self.locations, is_scrubbed), ..self }
    }

    /// Makes a tracker for a check of an entity that removes these overlays first. Each has the file that replaces it, or
    /// `None` if that is the base.
    ///
    /// # Errors
    /// If the root cannot be opened.
    pub fn without_overlays(self, leaving: Leaving) -> Result<Tracker> {
        let root = Tree::open(self.locations.root())?;
        Ok(Tracker { overlays: self.overlays.without(leaving, root), ..self })
    }

    /// Returns the records of a plugin's entities.
    #[must_use]
    pub fn records(locations: &Locations) -> BaseStore {
        PluginStore::records_of_plugin(locations, &locations.plugin())
    }

    /// Returns the records of the entities.
    #[must_use]
    pub fn bases(&self) -> &BaseStore {
        &self.bases
    }

    /// Returns the canonical path, by which entities are compared: existing symlinks in its parents are resolved if
    /// they may be followed.
    ///
    /// # Errors
    /// If a component cannot be examined.
    pub fn canonical(&self, path: &Path) -> Result<PathBuf> {
        self.canonical.of(path)
    }

    /// Renames tracks with other spellings to their canonical paths.
    pub fn rename_to_canonical(&self, tracks: &mut Tracks) {
        let paths: BTreeSet<PathBuf> = tracks.iter().map(|(path, _)| path).collect();
        for (path, canonical) in held::canonical_of(&paths, &self.canonical) {
            if canonical != path
                && tracks.get(&canonical).is_none()
                && let Some(track) = tracks.0.remove(&path_bytes(path))
            {
                tracks.0.insert(path_bytes(&canonical), track);
            }
        }
    }

    /// Returns true if the files plugin has an overlay on a path. The state that we give the path is then the base of
    /// the overlay.
    #[must_use]
    pub fn is_overlaid(&self, path: &Path) -> bool {
        self.overlays.lie_over(path)
    }

    /// In a check, returns true if the run removes a file together with its last edit.
    #[must_use]
    pub fn goes_with_edits(&self, path: &Path) -> bool {
        self.overlays.goes_with_edits(path)
    }

    /// In a check, returns the paths below a directory from which the run removes overlays.
    #[must_use]
    pub fn uncovered_below(&self, directory: &Path) -> Vec<PathBuf> {
        self.overlays.leaving_below(directory)
    }

    /// Returns true if the file at a path contains edits.
    ///
    /// # Errors
    /// If the path or the record cannot be examined.
    pub fn is_edited(&self, path: &Path) -> Result<bool> {
        self.edited.contain(path)
    }

    /// Returns an error if the file at a path, which is about to become a base, contains edits.
    ///
    /// # Errors
    /// The error names one of the edits.
    pub fn reject_edited(&self, path: &Path) -> std::result::Result<(), Unmanaged> {
        self.edited.reject(path)
    }

    /// Restricts the tracker to a directory, below which no symlinks are followed. If the directory does not exist yet,
    /// the tracker is unrestricted.
    ///
    /// # Errors
    /// If the path is not a directory, or cannot be opened.
    pub fn inside(&self, directory: &Path) -> Result<Tracker> {
        let place = self.root.place(directory);
        let inside = if place.exists()? { Some((directory.to_owned(), place.as_tree()?)) } else { None };
        Ok(Tracker { inside, ..self.clone() })
    }

    /// Returns the handle for a path, or for the overlay's base if there is an overlay on the path.
    #[must_use]
    pub fn place(&self, path: &Path) -> PathHandle {
        self.overlays.base(path).unwrap_or_else(|| self.place_itself(path))
    }

    /// Returns the sorted names in a directory; empty if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn entries(&self, directory: &Path) -> Result<Vec<OsString>> {
        // Any name will do, but an overlay on it must not lead to its base.
        self.place_itself(&directory.join("x")).siblings()
    }

    /// Returns the path at which a new file is written before it replaces the file at `path`.
    fn temporary(&self, path: &Path) -> PathHandle {
        if self.is_overlaid(path) {
            // Next to a base, it would be mistaken for one.
            let name = format!("{:016x}{TEMPORARY}", fingerprint(path.as_os_str().as_encoded_bytes()));
            return self.own.place(&name);
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

    /// Opens the tracker again, for another thread.
    ///
    /// # Errors
    /// If a directory cannot be entered any more.
    pub fn reopen(&self) -> Result<Tracker> {
        let root = self.root.reopen()?;
        let inside = self.inside.as_ref().map(|(path, tree)| Ok((path.clone(), tree.reopen()?))).transpose()?;
        let own = self.own.reopen()?;
        Ok(Tracker {
            canonical: CanonicalPaths::new(&root),
            root,
            inside,
            contents: self.contents.in_tree(&own.tree),
            own,
            bases: self.bases.clone(),
            overlays: self.overlays.reopen()?,
            edited: self.edited.clone(),
            held: self.held.clone(),
            recursive: Arc::clone(&self.recursive),
            given_up: Arc::clone(&self.given_up),
            locations: Arc::clone(&self.locations),
            threads: self.threads,
        })
    }

    /// Returns the state of a path.
    ///
    /// # Errors
    /// If it cannot be determined, or cannot be managed.
    pub fn state(&self, path: &Path) -> std::result::Result<State, Unmanaged> {
        State::of(&self.place(path))
    }

    /// Returns the state of a tracked path. It is absent if a tracked parent is no longer a directory: a symlink in its
    /// place is not followed.
    ///
    /// # Errors
    /// If it cannot be determined, or cannot be managed.
    pub fn state_of(&self, tracks: &Tracks, path: &Path) -> std::result::Result<State, Unmanaged> {
        if self.is_cut_off(tracks, path)? { Ok(State::Absent) } else { self.state(path) }
    }

    /// Returns true if the path no longer leads to the file that was created there.
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
        // The parents contained no symlinks originally. If they do now, the directory may have been moved together with
        // our file.
        let provisioned = tracks.get(path).and_then(|track| track.provisioned.as_ref());
        Ok(self.state(path).ok().as_ref() != provisioned)
    }

    /// Returns the state of a path, and the stamp that detects later changes.
    fn stamped(&self, path: &Path) -> std::result::Result<(State, Option<Stamp>), Unmanaged> {
        match Stamp::of(&self.place(path))? {
            None => Ok((State::Absent, None)),
            stamp => Ok((self.state(path)?, stamp)),
        }
    }

    /// Drops cached directories, because a symlink may have led to one of them.
    fn forget_directories(&self) {
        self.root.forget();
        if let Some((_, tree)) = &self.inside {
            tree.forget();
        }
    }

    /// Stores a content for a later change.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep_bytes(&self, bytes: &[u8]) -> Result<Digest> {
        self.begin()?;
        self.contents.keep_bytes(bytes)
    }

    /// Opens a content of a record.
    ///
    /// # Errors
    /// If it is missing, or cannot be opened.
    pub(crate) fn open_content(&self, digest: &Digest) -> Result<Box<dyn Read>> {
        self.contents.open(digest)
    }

    /// Stores several contents for later changes.
    ///
    /// # Errors
    /// If a content cannot be written.
    pub fn keep_many<'b>(&self, all: impl IntoIterator<Item = &'b [u8]>) -> Result<()> {
        self.begin()?;
        self.contents.keep_many(all)
    }

    /// Reads a stored content.
    ///
    /// # Errors
    /// If it does not exist, or cannot be read.
    pub fn content(&self, digest: &Digest) -> Result<Vec<u8>> {
        self.contents.read(digest)
    }

    /// Stores the content of a file.
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

    /// Creates the missing parent directories of a file that has no track. [`Tracker::clear_way`] removes them.
    ///
    /// # Errors
    /// If a directory cannot be created, or the database cannot be written.
    pub fn make_way(&self, path: &Path) -> Result<()> {
        let mut directories = self.directories()?;
        directories.add(self.own_parents(&[path].into(), &directories)?)?;
        let made = self.make_parents(path, &self.place_itself(path))?;
        Durability::Each.sync([], &made)
    }

    /// Creates the missing directories above a path, and returns them. Those below a directory whose declaration covers the permissions of
    /// everything in it have these, as that declaration has been applied before.
    fn make_parents(&self, path: &Path, place: &PathHandle) -> Result<Vec<PathHandle>> {
        let made = place.create_folder()?;
        if made.is_empty() || self.is_overlaid(path) {
            return Ok(made);
        }
        let new: Vec<&Path> = path.ancestors().skip(1).take(made.len()).collect();
        for directory in new.into_iter().rev() {
            let Some(inherited) = self.inherited(directory)? else { continue };
            let place = self.place_itself(directory);
            let Some(stat) = place.stat()? else { continue };
            let mode = inherited.mode.unwrap_or(stat.mode);
            set_ownership(&place.open()?, &place.shown(), inherited.uid, inherited.gid, mode)?;
        }
        Ok(made)
    }

    /// Returns the permissions that a new file or directory gets because a declaration covers everything in a directory
    /// above it. `None` if none does.
    ///
    /// # Errors
    /// If the directory cannot be examined.
    pub fn inherited(&self, path: &Path) -> Result<Option<Inherited>> {
        let recursive = self.recursive.get_or_init(|| claims::recursive(&self.locations));
        let Some((top, inherited)) = path.ancestors().skip(1).find_map(|above| recursive.get_key_value(above)) else {
            return Ok(None);
        };
        let Some(stat) = self.place_itself(top).stat()? else { return Ok(None) };
        let (uid, gid) = (inherited.has_owner.then_some(stat.uid), inherited.has_group.then_some(stat.gid));
        Ok(Some(Inherited { uid, gid, mode: inherited.mode, file_mode: inherited.file_mode }))
    }

    /// Removes those parent directories of a path that plugins have created, and that are empty.
    ///
    /// # Errors
    /// If a directory cannot be removed, or the database cannot be written.
    pub fn clear_way(&self, path: &Path) -> Result<()> {
        let above = path.ancestors().skip(1).map(Path::to_owned).collect();
        self.directories()?.remove_empty(|path| self.place_itself(path), Some(&above))
    }

    /// Writes a file or symlink with this state to a path that is not managed, such as one in the cache directory.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_copy(&self, state: &State, place: &PathHandle) -> Result<()> {
        state.write_temporary(place, &self.contents, &ExtendedAttributes::default())
    }

    /// Returns the provisioned and the current file at a path for a comparison. The provisioned one is a copy in the
    /// cache directory with its mode, labelled `ID (applied)`.
    ///
    /// # Errors
    /// If the copy cannot be created.
    pub fn difference(&self, id: &str, path: &Path, made: Option<&State>) -> Result<FilePair> {
        let cache = Tree::open(self.locations.cache_dir())?;
        let copy = cache.place(&Path::new("made").join(without_root(path)));
        copy.create_folder()?;
        if let Some(made) = made {
            self.write_copy(made, &copy)?;
        }
        Ok(FilePair::new(copy.shown(), self.place(path).shown()).with_applied_label(id).with_modes())
    }
}

#[cfg(test)]
mod tests;

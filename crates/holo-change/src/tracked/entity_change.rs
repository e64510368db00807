//! The changes of entities that are made of paths.

use super::contents::StagedContent;
use super::linking::LinkedContent;
use super::restore::{Found, Restoration};
use super::state::{State, Unmanaged};
use super::steps::Step;
use super::tracks::{HasTracks, Tracks};
use crate::base_store::Remembered;
use std::path::PathBuf;

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
    pub(super) work: Work,
    /// The tracks before the change.
    pub(super) before: Option<Tracks>,
    pub(super) staged: Vec<StagedContent>,
    pub(super) linked: Vec<LinkedContent>,
    pub(super) steps: Vec<Step>,
    /// True if nothing is left of the entity in the end.
    pub(super) is_scrub: bool,
    /// True if its record is removed when it has been put back.
    pub(super) is_forgotten: bool,
    /// True if the record with the intents is in its place.
    pub(super) is_begun: bool,
    /// The reason why the change cannot be made, if that is known before the first step.
    pub(super) obstacle: Option<Unmanaged>,
}

#[derive(Debug)]
pub(super) enum Work {
    /// Paths are made, of states whose contents are kept already or among these.
    Make { paths: Vec<PathChange>, contents: Vec<Vec<u8>> },
    /// Paths become what they were before us, if they still are as they were found.
    PutBack { paths: Vec<PathBuf>, found: Found, restoration: Restoration },
}

impl<T: HasTracks> EntityChange<T> {
    fn new(remembered: Remembered<T>, work: Work) -> EntityChange<T> {
        let (staged, linked, steps) = Default::default();
        let (is_scrub, is_forgotten, is_begun) = Default::default();
        EntityChange {
            remembered,
            work,
            before: None,
            staged,
            linked,
            steps,
            is_scrub,
            is_forgotten,
            is_begun,
            obstacle: None,
        }
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

    /// Creates the change of an entity that puts back everything that was there before it. It is forgotten by the next
    /// [`Tracker::tidy`](super::Tracker::tidy); of many that are put back together, all but one at once.
    #[must_use]
    pub fn scrub(mut remembered: Remembered<T>, found: Found) -> EntityChange<T> {
        // Without tracks it is nothing but a reason to tidy up.
        let paths = remembered.base.tracks().iter().map(|(path, _)| path).collect();
        EntityChange { is_scrub: true, ..EntityChange::put_back(remembered, paths, found) }
    }
}

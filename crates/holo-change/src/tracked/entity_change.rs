//! The changes of entities that consist of paths.

use super::contents::StagedContent;
use super::restore::{Found, Restoration};
use super::state::{State, Unmanaged};
use super::steps::Step;
use super::tracks::{HasTracks, Origin, Tracks};
use crate::base_store::Remembered;
use std::path::PathBuf;

/// A change of a path.
#[derive(Clone, Debug)]
pub struct PathChange {
    /// The path.
    pub path: PathBuf,
    /// The state on which the decision was based. If the path has another state by now, it is not changed.
    pub found: Option<State>,
    /// The desired state.
    pub desired: State,
    /// True if the file is written in place instead of being replaced.
    pub in_place: bool,
    /// True if the content of the file is not managed.
    pub attributes_only: bool,
    /// True if the content of the file must not be displayed.
    pub sensitive: bool,
}

impl PathChange {
    /// Creates a change to this state, regardless of the current one.
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

/// A change of an entity. Within a group, no path of one entity may be below a path of another.
#[derive(Debug)]
pub struct EntityChange<T> {
    /// The record of the entity, which is updated by the change.
    pub remembered: Remembered<T>,
    pub(super) work: Work,
    /// The tracks before the change.
    pub(super) before: Option<Tracks>,
    pub(super) staged: Vec<StagedContent>,
    pub(super) steps: Vec<Step>,
    /// The previous owners of paths that are taken over.
    pub(super) origins: Vec<Origin>,
    /// True if the entity is removed by the change.
    pub(super) is_scrub: bool,
    /// True if its record is removed after it was restored.
    pub(super) is_forgotten: bool,
    /// True if the record with the intents is in place.
    pub(super) is_begun: bool,
    /// The reason why the change cannot be made, if known before the first step.
    pub(super) obstacle: Option<Unmanaged>,
}

#[derive(Debug)]
pub(super) enum Work {
    /// Makes paths. Their contents are already stored, or listed in `contents`.
    Make { paths: Vec<PathChange>, contents: Vec<Vec<u8>> },
    /// Restores the bases of paths, if they still have the states that were found.
    PutBack { paths: Vec<PathBuf>, found: Found, restoration: Restoration },
}

impl<T: HasTracks> EntityChange<T> {
    fn new(remembered: Remembered<T>, work: Work) -> EntityChange<T> {
        let (before, staged, steps, origins, obstacle) = Default::default();
        let (is_scrub, is_forgotten, is_begun) = Default::default();
        EntityChange { remembered, work, before, staged, steps, origins, is_scrub, is_forgotten, is_begun, obstacle }
    }

    /// Creates a change that makes paths. A path that already has its desired state gets a track too. `contents` are
    /// the contents that are not stored yet.
    ///
    /// Missing parents are created with mode 0755, and removed when they are empty. A directory is only created where
    /// no file exists, and only removed if it is empty; callers must clear it first otherwise.
    ///
    /// A path whose state has changed since the decision, even directly before its replacement, is neither changed nor
    /// tracked.
    #[must_use]
    pub fn make(remembered: Remembered<T>, paths: Vec<PathChange>, contents: Vec<Vec<u8>>) -> EntityChange<T> {
        EntityChange::new(remembered, Work::Make { paths, contents })
    }

    /// Creates a change that restores the bases of some paths, and forgets their tracks. A path with an overlay is not
    /// restored or forgotten until the overlay is removed.
    #[must_use]
    pub fn put_back(remembered: Remembered<T>, paths: Vec<PathBuf>, found: Found) -> EntityChange<T> {
        EntityChange::new(remembered, Work::PutBack { paths, found, restoration: Restoration::default() })
    }

    /// Creates a change that restores all bases of an entity. Its record is removed by the next
    /// [`Tracker::tidy`](super::Tracker::tidy); if many entities are restored together, all records but one are removed
    /// immediately.
    #[must_use]
    pub fn scrub(mut remembered: Remembered<T>, found: Found) -> EntityChange<T> {
        // A record without tracks is only a reason for tidying up.
        let paths = remembered.base.tracks().iter().map(|(path, _)| path).collect();
        EntityChange { is_scrub: true, ..EntityChange::put_back(remembered, paths, found) }
    }
}

//! The records of paths: their original, provisioned and intended states. Intents are on disk before the first path is changed.

use super::contents::{Contents, Digest};
use super::state::State;
use crate::error::Result;
use crate::path_handle::{ExtendedAttributes, PathHandle, TEMPORARY};
use crate::paths::path_bytes;
use bstr::{BString, ByteSlice};
use holo_protocol::Text;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The tracks of an entity, by path.
///
/// Most entities have a single path, but a map node has space for several values. Therefore the values are boxed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Entry>", into = "Vec<Entry>")]
pub struct Tracks(pub(super) BTreeMap<BString, Box<Track>>);

/// The record of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Track {
    /// The state before the first change.
    pub base: State,
    /// The last provisioned state.
    #[serde(default, rename = "made", skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<State>,
    /// The state that is about to be provisioned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) intent: Option<State>,
    /// The previous state of a file that is overwritten in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) over: Option<State>,
    /// The extended attributes of the original file.
    #[serde(default, skip_serializing_if = "ExtendedAttributes::is_empty")]
    pub(super) extended: ExtendedAttributes,
    /// True if the file is overwritten in place, also when it is restored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) in_place: bool,
    /// True if the content of the file is not managed. The content in `provisioned` is meaningless then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) attributes_only: bool,
    /// True if the content of the file must not be displayed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// The entity from which the path is being taken over. The same transaction removes the path from its record.
    #[serde(skip)]
    pub(super) taken_from: Option<Origin>,
}

/// The previous owner of a path that was taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The plugin, by the name of its state directory.
    pub(crate) plugin: String,
    /// The ID of the entity.
    pub id: String,
    /// The path in the record of that entity.
    pub(super) path: Text,
}

impl Origin {
    /// Returns the path in the record of the entity.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.path.0.to_path_lossy().into_owned()
    }
}

/// A path with its track, in its serialized form.
#[derive(Serialize, Deserialize)]
struct Entry {
    path: Text,
    #[serde(flatten)]
    track: Track,
}

impl From<Vec<Entry>> for Tracks {
    fn from(entries: Vec<Entry>) -> Self {
        Tracks(entries.into_iter().map(|entry| (entry.path.0, Box::new(entry.track))).collect())
    }
}

impl From<Tracks> for Vec<Entry> {
    fn from(tracks: Tracks) -> Self {
        tracks.0.into_iter().map(|(path, track)| Entry { path: Text(path), track: *track }).collect()
    }
}

impl Track {
    /// Returns the track with mapped provisioned and intended states, for callers that manage only parts of them.
    #[must_use]
    pub fn seen_as(&self, see: impl Fn(&State) -> State) -> Track {
        Track {
            provisioned: self.provisioned.as_ref().map(&see),
            intent: self.intent.as_ref().map(&see),
            ..self.clone()
        }
    }

    /// Returns the track for a current state. A content that was never managed is replaced with the current one, and is
    /// not restored.
    #[must_use]
    pub fn beside(&self, current: &State) -> Track {
        let is_theirs = self.attributes_only
            && self.provisioned.as_ref().and_then(State::content).is_some_and(|made| self.base.content() == Some(made));
        let (Some(content), true) = (current.content(), is_theirs) else { return self.clone() };
        let see = |state: &State| match state {
            State::File { attributes, .. } => State::File { content: content.clone(), attributes: *attributes },
            other => other.clone(),
        };
        Track { base: see(&self.base), ..self.seen_as(see) }
    }

    /// Returns the mode of the provisioned state and that of the intent.
    pub fn modes(&self) -> impl Iterator<Item = u32> {
        let states = [self.provisioned.as_ref(), self.intent.as_ref()];
        states.into_iter().flatten().filter_map(State::attributes).map(|attributes| attributes.mode)
    }

    /// Returns true if a change was intended, and is not recorded as made.
    pub(crate) fn is_intended(&self) -> bool {
        self.intent.is_some()
    }

    /// Sets the provisioned state, except for a content that is not managed.
    pub(super) fn set_provisioned(&mut self, state: State) {
        let ours = self.provisioned.as_ref().unwrap_or(&self.base);
        self.provisioned = Some(match (state, ours) {
            (State::File { attributes, .. }, State::File { content, .. }) if self.attributes_only => {
                State::File { content: content.clone(), attributes }
            }
            (state, _) => state,
        });
    }

    /// Returns true if a path with this state has no manual changes.
    pub(crate) fn may_be(&self, state: &State) -> bool {
        let known = [Some(&self.base), self.provisioned.as_ref(), self.intent.as_ref(), self.over.as_ref()];
        *state == State::Absent || known.contains(&Some(state))
    }

    /// Writes the base with its extended attributes to a temporary path.
    ///
    /// # Errors
    /// If it cannot be written. No file remains in this case.
    pub(crate) fn write_base(&self, place: &PathHandle, contents: &Contents) -> Result<()> {
        self.base.write_temporary(place, contents, &self.extended)
    }

    /// Returns the contents that may be needed again.
    pub(super) fn contents(&self) -> impl Iterator<Item = &Digest> {
        let states = [Some(&self.base), self.provisioned.as_ref(), self.intent.as_ref(), self.over.as_ref()];
        states.into_iter().flatten().filter_map(State::content)
    }

    pub(super) fn new(base: State) -> Track {
        let (in_place, attributes_only, sensitive) = (false, false, false);
        let extended = ExtendedAttributes::default();
        Track {
            base,
            provisioned: None,
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
        self.0.get(&path_bytes(path)).map(|track| &**track)
    }

    /// Returns all paths in order, with their records.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (PathBuf, &Track)> {
        self.0.iter().map(|(path, track)| (path.to_path_lossy().into_owned(), &**track))
    }

    /// Returns true if no path has a record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a killed run has left changes that must be [recovered](super::Tracker::recover_intents).
    #[must_use]
    pub fn have_intents(&self) -> bool {
        self.0.values().any(|track| track.intent.is_some())
    }

    /// Sets whether the content of a path must not be displayed.
    pub fn set_sensitive(&mut self, path: &Path, sensitive: bool) {
        if let Some(track) = self.0.get_mut(&path_bytes(path)) {
            track.sensitive = sensitive;
        }
    }

    /// Records the current state of a path as provisioned, after a program that we ran has changed it.
    pub fn set_provisioned(&mut self, path: &Path, state: State) {
        if let Some(track) = self.0.get_mut(&path_bytes(path)) {
            track.provisioned = Some(state);
        }
    }

    /// Records that the nine permission bits of a provisioned path are about to change. Returns true if they are different.
    pub fn expect_permissions(&mut self, path: &Path, permissions: u32) -> bool {
        let Some(track) = self.0.get_mut(&path_bytes(path)) else { return false };
        let mut intent = track.provisioned.clone();
        let Some(State::File { attributes, .. } | State::Directory { attributes }) = &mut intent else { return false };
        attributes.mode = attributes.mode & !0o777 | permissions & 0o777;
        let is_new = intent != track.provisioned;
        track.intent = intent.filter(|_| is_new);
        is_new
    }

    /// Removes a track. The state before the next change becomes the base.
    pub fn forget(&mut self, path: &Path) {
        self.0.remove(&path_bytes(path));
    }

    /// Returns the paths that are being taken over, by the entities that had them.
    #[must_use]
    pub fn taken_over(&self) -> BTreeMap<&str, Vec<PathBuf>> {
        let mut by_id: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
        for origin in self.0.values().filter_map(|track| track.taken_from.as_ref()) {
            by_id.entry(&origin.id).or_default().push(origin.path());
        }
        by_id
    }

    /// Returns true if the path is a temporary file for a tracked path.
    #[must_use]
    pub fn is_temporary(&self, path: &Path) -> bool {
        let bytes = path_bytes(path);
        bytes.strip_suffix(TEMPORARY.as_bytes()).is_some_and(|path| self.0.contains_key(path.as_bstr()))
    }

    /// Returns the contents that may be needed again.
    #[must_use]
    pub fn contents(&self) -> BTreeSet<Digest> {
        self.0.values().flat_map(|track| track.contents()).cloned().collect()
    }
}

/// The record of an entity, which includes tracks.
pub trait HasTracks {
    /// Returns the tracks.
    fn tracks(&mut self) -> &mut Tracks;
}

impl HasTracks for Tracks {
    fn tracks(&mut self) -> &mut Tracks {
        self
    }
}

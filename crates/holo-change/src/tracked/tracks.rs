//! The records of paths: what was there before us, what we made, and what we are about to make.

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

/// Everything that an entity has made, by path.
///
/// Most entities have made one path, and a map has room for several values at once: so it has room for their addresses alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Entry>", into = "Vec<Entry>")]
pub struct Tracks(pub(super) BTreeMap<BString, Box<Track>>);

/// The record of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Track {
    /// The state before our first change.
    pub base: State,
    /// The state that we made last.
    #[serde(default, rename = "made", skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<State>,
    /// The state that we are about to make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) intent: Option<State>,
    /// The state that we write over, byte by byte, to make that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) over: Option<State>,
    /// ACLs, capabilities and the like of what was there before us.
    #[serde(default, skip_serializing_if = "ExtendedAttributes::is_empty")]
    pub(super) extended: ExtendedAttributes,
    /// True if the file is written to, and not replaced, also when it is put back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) in_place: bool,
    /// True if the file's content is not our concern: it is not what we made then, whatever it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) attributes_only: bool,
    /// True if nobody may see the file's content.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// The entity that this was taken over from, until that has been told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) taken_from: Option<Origin>,
}

/// An entity that had a path before another one took over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The plugin, as its state directory is called.
    pub(crate) plugin: String,
    /// The entity.
    pub id: String,
    /// The path, as it is in that entity's record.
    pub(super) path: Text,
}

impl Origin {
    /// Returns the path, as it is in the entity's record.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.path.0.to_path_lossy().into_owned()
    }
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
        Tracks(entries.into_iter().map(|entry| (entry.path.0, Box::new(entry.track))).collect())
    }
}

impl From<Tracks> for Vec<Entry> {
    fn from(tracks: Tracks) -> Self {
        tracks.0.into_iter().map(|(path, track)| Entry { path: Text(path), track: *track }).collect()
    }
}

impl Track {
    /// The same with each state that we made, or were about to make, mapped: for callers that do not manage all of it.
    #[must_use]
    pub fn seen_as(&self, see: impl Fn(&State) -> State) -> Track {
        Track {
            provisioned: self.provisioned.as_ref().map(&see),
            intent: self.intent.as_ref().map(&see),
            ..self.clone()
        }
    }

    /// The same beside what is there: a content that was never our concern is what it is by now, and does not come back.
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

    /// Takes a state for what we made of it, but for a content that is not our concern.
    pub(super) fn set_provisioned(&mut self, state: State) {
        let ours = self.provisioned.as_ref().unwrap_or(&self.base);
        self.provisioned = Some(match (state, ours) {
            (State::File { attributes, .. }, State::File { content, .. }) if self.attributes_only => {
                State::File { content: content.clone(), attributes }
            }
            (state, _) => state,
        });
    }

    /// Returns true if a path in this state has no changes of a user.
    pub(crate) fn may_be(&self, state: &State) -> bool {
        let known = [Some(&self.base), self.provisioned.as_ref(), self.intent.as_ref(), self.over.as_ref()];
        *state == State::Absent || known.contains(&Some(state))
    }

    /// Writes the base, with its ACL and the like, to a temporary place.
    ///
    /// # Errors
    /// If it cannot be written: then nothing is left there.
    pub(crate) fn write_base(&self, place: &PathHandle, contents: &Contents) -> Result<()> {
        self.base.write_temporary(place, contents, &self.extended)
    }

    /// The contents that may be needed again.
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

    /// All paths, in their order, with their records.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (PathBuf, &Track)> {
        self.0.iter().map(|(path, track)| (path.to_path_lossy().into_owned(), &**track))
    }

    /// Returns true if there is no record of any path.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a killed run has left something that has to be [recovered](super::Tracker::recover_intents).
    #[must_use]
    pub fn have_intents(&self) -> bool {
        self.0.values().any(|track| track.intent.is_some() || track.taken_from.is_some())
    }

    /// Marks whether nobody may see the content at a path.
    pub fn set_sensitive(&mut self, path: &Path, sensitive: bool) {
        if let Some(track) = self.0.get_mut(&path_bytes(path)) {
            track.sensitive = sensitive;
        }
    }

    /// Takes what is at a path for what we made: a program that we called has changed it.
    pub fn set_provisioned(&mut self, path: &Path, state: State) {
        if let Some(track) = self.0.get_mut(&path_bytes(path)) {
            track.provisioned = Some(state);
        }
    }

    /// Expects that a path whose mode we have made has these nine bits of it; returns true if that is another mode than was made.
    pub fn expect_permissions(&mut self, path: &Path, permissions: u32) -> bool {
        let provisioned = self.0.get_mut(&path_bytes(path)).and_then(|track| track.provisioned.as_mut());
        let Some(State::File { attributes, .. } | State::Directory { attributes }) = provisioned else { return false };
        let before = attributes.mode;
        attributes.mode = before & !0o777 | permissions & 0o777;
        attributes.mode != before
    }

    /// Forgets a path: what is there when it is made the next time is its base.
    pub fn forget(&mut self, path: &Path) {
        self.0.remove(&path_bytes(path));
    }

    /// Returns true if a name beside the paths is that of a file that we began to write, and did not come to move to its path.
    #[must_use]
    pub fn is_temporary(&self, path: &Path) -> bool {
        let bytes = path_bytes(path);
        bytes.strip_suffix(TEMPORARY.as_bytes()).is_some_and(|path| self.0.contains_key(path.as_bstr()))
    }

    /// The contents that may be needed again.
    #[must_use]
    pub fn contents(&self) -> BTreeSet<Digest> {
        self.0.values().flat_map(|track| track.contents()).cloned().collect()
    }
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

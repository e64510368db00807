//! Requests for resource files that describe what there is, and their outcomes.

use bstr::{BStr, BString, ByteSlice};
use holo_protocol::AdoptMessage;
use std::path::{Path, PathBuf};

/// The request for the resource files of one thing.
#[derive(Clone, Copy, Debug)]
pub struct Adoption<'a> {
    /// The ID of an entity, which need not exist, or the path of a file.
    pub id: &'a BStr,
    /// The empty directory into which they are written.
    pub directory: &'a Path,
    /// The file that was named as a conflict before, without one now.
    pub resolved: Option<&'a Path>,
    /// The IDs of what is adopted in the same group.
    pub with: &'a [BString],
}

/// The outcome of an [`Adoption`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// The plugin does not know such a thing.
    Unknown,
    /// It is the entity with this ID, which is to be asked for.
    Entity(BString),
    /// It is as the resource files have it.
    Unchanged,
    /// The directory has its resource files, or this definition describes it.
    Done {
        /// The definition; empty if there is none.
        definition: BString,
    },
    /// Both a person and the resource files have changed the same of it, and this file has both.
    Conflict(PathBuf),
}

impl Adopted {
    /// Returns the outcome that a plugin says so.
    pub(super) fn new(messages: Vec<AdoptMessage>, definition: Vec<u8>) -> Adopted {
        match messages.into_iter().next() {
            Some(AdoptMessage::Unknown) => Adopted::Unknown,
            Some(AdoptMessage::NotChanged) => Adopted::Unchanged,
            Some(AdoptMessage::Entity(id)) => Adopted::Entity(id),
            Some(AdoptMessage::Conflict(path)) => Adopted::Conflict(path),
            None => Adopted::Done { definition: definition.into() },
        }
    }

    /// Returns the messages among what a plugin writes to file descriptor 3.
    pub(super) fn messages(said: &[u8]) -> Vec<AdoptMessage> {
        said.lines().filter_map(AdoptMessage::parse).collect()
    }
}

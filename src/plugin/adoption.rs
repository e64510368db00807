//! Requests to adopt an entity, and their outcomes.

use bstr::{BStr, BString, ByteSlice};
use holo_protocol::AdoptMessage;
use std::path::{Path, PathBuf};

/// A request for resource files that describe an entity.
#[derive(Clone, Copy, Debug)]
pub struct Adoption<'a> {
    /// The ID of an entity, which need not exist, or the path of a file.
    pub id: &'a BStr,
    /// The empty directory to write them to.
    pub directory: &'a Path,
    /// The file that was reported as a conflict before, now resolved.
    pub resolved: Option<&'a Path>,
    /// The IDs of the entities that are adopted in the same group.
    pub with: &'a [BString],
}

/// The outcome of an [`Adoption`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// The plugin does not recognise the entity or path.
    Unknown,
    /// It is the entity with this ID, which must be requested instead.
    Entity(BString),
    /// It matches its resource files.
    Unchanged,
    /// The directory contains its resource files, or this definition describes it.
    Done {
        /// The definition; empty if there is none.
        definition: BString,
    },
    /// A manual change and the resource files conflict; this file contains both versions.
    Conflict(PathBuf),
}

impl Adopted {
    /// Parses the outcome from a plugin's messages and output.
    pub(super) fn new(messages: Vec<AdoptMessage>, definition: Vec<u8>) -> Adopted {
        match messages.into_iter().next() {
            Some(AdoptMessage::Unknown) => Adopted::Unknown,
            Some(AdoptMessage::NotChanged) => Adopted::Unchanged,
            Some(AdoptMessage::Entity(id)) => Adopted::Entity(id),
            Some(AdoptMessage::Conflict(path)) => Adopted::Conflict(path),
            None => Adopted::Done { definition: definition.into() },
        }
    }

    /// Returns the messages in a plugin's output to file descriptor 3.
    pub(super) fn messages(said: &[u8]) -> Vec<AdoptMessage> {
        said.lines().filter_map(AdoptMessage::parse).collect()
    }
}

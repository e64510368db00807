//! What is asked of a plugin for entities, and what becomes of that.

use bstr::{BStr, BString};
use holo_protocol::session::Stream;
use holo_protocol::{FilePair, Message};
use std::time::Duration;

/// The operation that is wanted of a plugin for an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// To find out what applying it would do.
    Check,
    /// To bring it into its desired state.
    Apply,
    /// The same, overwriting what a person changed.
    ForceApply,
}

/// An entity to work on.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Its ID.
    pub id: &'a BStr,
    /// True if it is to be refreshed: something that it depends on has changed.
    pub refresh: bool,
    /// True if something earlier in a check may bring what it lacks.
    pub pending: bool,
    /// The values that were sent to it as it is to be refreshed, and those that it receives by its definition, each `KEY=VALUE`.
    pub received: &'a [BString],
    /// The names of the values that others receive from it.
    pub wanted: &'a [BString],
    /// True if what it receives is something else than when it was listed.
    pub renewed: bool,
}

impl<'a> Job<'a> {
    /// Returns an entity to ask something of.
    #[must_use]
    pub fn new(id: &'a BStr) -> Job<'a> {
        Job { id, refresh: false, pending: false, received: &[], wanted: &[], renewed: false }
    }
}

/// A sign of life from a plugin while it works on an entity.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Something for the user to see.
    Output(Stream, &'a [u8]),
    /// A message of file descriptor 3.
    Message(Message),
    /// The two files that show what a person changed: after [`Message::RequiresForceToOverwrite`], or as all that a plugin of version 3
    /// can say when it is asked to check.
    Diff(FilePair),
    /// There should be two such files, but the plugin cannot name them.
    CannotDiff(String),
    /// Something about the plugin itself that a person should know.
    Warning(String),
    /// It is being worked on, and has been for so long.
    Waiting(Duration),
    /// This is about no entity: what follows has been said already, so that nothing is waited for in between.
    Burst {
        /// True if that was all of it.
        is_over: bool,
    },
    /// The entity is done with.
    Done,
    /// The entity is done with, and failed.
    Failed(Failure),
}

/// The ways in which a plugin fails with an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It has said why itself.
    Told,
    /// It ended with an exit status that says so, whatever else it has said; the text names the status.
    Status(String),
    /// It could not do its work; the text says why.
    Broken(String),
}

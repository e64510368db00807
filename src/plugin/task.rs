//! Requests to a plugin about entities, and their progress.

use bstr::{BStr, BString};
use holo_protocol::session::Stream;
use holo_protocol::{FilePair, Message};
use std::time::Duration;

/// The operation requested for an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Find out what an apply would do.
    Check,
    /// Bring it into its desired state.
    Apply,
    /// Like `Apply`, but overwrite manual changes.
    ForceApply,
}

/// An entity to work on.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Its ID.
    pub id: &'a BStr,
    /// Whether it must be refreshed because an entity that it depends on has changed.
    pub refresh: bool,
    /// Whether, in a check, a pending entity may provide what this one lacks.
    pub pending: bool,
    /// The values sent to it with its refresh, and those that it receives by its definition, each `KEY=VALUE`.
    pub received: &'a [BString],
    /// The names of the values that others receive from it.
    pub wanted: &'a [BString],
    /// Whether its received values have changed since it was scanned.
    pub renewed: bool,
}

impl<'a> Job<'a> {
    /// Returns a job for an entity, without a refresh or values.
    #[must_use]
    pub fn new(id: &'a BStr) -> Job<'a> {
        Job { id, refresh: false, pending: false, received: &[], wanted: &[], renewed: false }
    }
}

/// The progress of a plugin's work on an entity.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Output for the user.
    Output(Stream, &'a [u8]),
    /// A message from file descriptor 3.
    Message(Message),
    /// The two files that show a manual change. Follows [`Message::RequiresForceToOverwrite`], or is the whole answer
    /// of a plugin of version 3 to a check.
    Diff(FilePair),
    /// Two files were expected, but the plugin could not provide them.
    CannotDiff(String),
    /// A warning about the plugin itself.
    Warning(String),
    /// It has been worked on for this time.
    Waiting(Duration),
    /// Not about an entity: marks progress that has arrived together, so that no wait occurs within it.
    Burst {
        /// Whether this is the end.
        is_over: bool,
    },
    /// The entity is finished.
    Done,
    /// The entity is finished, and failed.
    Failed(Failure),
}

/// The ways in which a plugin fails with an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It has reported the reason itself.
    Told,
    /// It ended with this unsuccessful status.
    Status(String),
    /// It could not do its work, for this reason.
    Broken(String),
}

//! Messages of plugins about entities, stored until they are shown.

use crate::plugin::{Failure, Progress};
use crate::view::View;
use bstr::{BStr, BString};
use holo_protocol::Message;
use holo_protocol::message::MAX_SENT;
use holo_protocol::session::Stream;

/// A message about an entity. It is owned, because the buffer that it came in may be reused.
pub(super) enum Said {
    Output(Stream, BString),
    Message(Message),
    Diff(Vec<u8>),
    Warning(String),
    Error(String),
    /// An unparsable message. The entity has failed, but is not finished.
    Malformed(String),
    Failed(Failure),
    /// The plugin has reported an error that a pending change of the entity with this ID may fix.
    TooEarly(BString),
    Done,
}

impl Said {
    /// Converts a message about the entity with this ID. If `forces` is set, refusals become changes.
    pub(super) fn new(progress: Progress<'_>, id: &BStr, forces: bool, view: View<'_>) -> Said {
        let cannot_diff = |reason: &dyn std::fmt::Display| Said::Error(format!("cannot diff {id}: {reason}"));
        match progress {
            Progress::Output(stream, bytes) => Said::Output(stream, bytes.into()),
            // The entity may have changed in any way, because the message is lost.
            Progress::Message(Message::Malformed(line)) => Said::Malformed(malformed(&line)),
            Progress::Message(message) if forces => Said::Message(forced(message)),
            Progress::Message(message) => Said::Message(message),
            Progress::Diff(pair) => view.difference(&pair).map_or_else(|error| cannot_diff(&error), Said::Diff),
            Progress::CannotDiff(reason) => cannot_diff(&reason),
            Progress::Warning(text) => Said::Warning(text),
            Progress::Done | Progress::Waiting(_) | Progress::Burst { .. } => Said::Done,
            Progress::Failed(failure) => Said::Failed(failure),
        }
    }

    /// Returns true if the entity is finished.
    pub(super) fn is_last(&self) -> bool {
        matches!(self, Said::Done | Said::Failed(_) | Said::TooEarly(_))
    }
}

/// Returns the message that a refusal becomes under force.
fn forced(message: Message) -> Message {
    let text = match &message {
        Message::RequiresForceToOverwrite => BString::from("would overwrite what a user has changed"),
        Message::RequiresForceToRestore => BString::from("would restore what a user has deleted"),
        Message::RequiresForce(reason) => [&b"would proceed, although "[..], reason].concat().into(),
        _ => return message,
    };
    Message::WouldChange(text)
}

fn malformed(line: &BString) -> String {
    const SHOWN: usize = 200;
    let shown = BStr::new(line.get(..SHOWN).unwrap_or(line));
    format!(
        "cannot understand the plugin's message {shown:?}: expected \"send: KEY=VALUE\" or \"keep: KEY=VALUE\", with a key of letters, digits and _, \
         and {MAX_SENT} bytes at most"
    )
}

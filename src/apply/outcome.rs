//! The outcome of an entity, which the messages of its plugin determine.

use crate::diff::View;
use crate::discovery::remembered::Finding;
use crate::plugin::{Failure, Progress, Task};
use crate::report::End;
use bstr::{BStr, BString};
use holo_protocol::message::MAX_SENT;
use holo_protocol::session::Stream;
use holo_protocol::{Message, Sent, Witness};
use std::mem;

/// The rules by which the messages of a set are read.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    /// The operation.
    pub(super) task: Task,
    /// Whether a check previews a forced apply, so that refusals count as pending changes.
    pub(super) forces: bool,
    /// Resolves the names of files.
    pub(super) view: View<'a>,
    /// Whether the plugin can write resource files that describe a manual change.
    pub(super) adopts: bool,
}

/// The outcome of an entity so far.
#[derive(Debug)]
pub(super) struct Outcome<'a> {
    task: Task,
    /// The ID of an entity that precedes this one and that an apply would have changed by then. If a check fails
    /// because of it, the outcome is unknown rather than failed.
    pending: Option<&'a BStr>,
    /// The worst outcome reported so far.
    end: Option<End>,
    /// The values that it sends to the entities that receive them, or that it refreshes.
    pub(super) sent: Vec<Sent>,
    /// The values that describe its current state, each `KEY=VALUE`.
    pub(super) kept: Vec<BString>,
    /// The files on which the answer that it is unchanged rests.
    witnesses: Vec<Witness>,
    /// Whether its plugin has said more about it than that it is unchanged.
    says_more: bool,
    /// Whether it was changed, if known.
    touched: Option<bool>,
    /// Whether the plugin has reported that it would be changed.
    pub(super) would_change: bool,
    is_over: bool,
}

impl<'a> Outcome<'a> {
    /// Returns the outcome of an entity before the work on it has begun.
    pub(super) fn new(task: Task, pending: Option<&'a BStr>) -> Outcome<'a> {
        Outcome {
            task,
            pending,
            end: None,
            sent: Vec::new(),
            kept: Vec::new(),
            witnesses: Vec::new(),
            says_more: false,
            touched: None,
            would_change: false,
            is_over: false,
        }
    }

    /// Takes a message about the entity, which has this ID, and returns its meaning. Messages after the last one have
    /// no effect on the outcome.
    pub(super) fn take(&mut self, progress: Progress<'_>, id: &BStr, rules: Rules<'_>) -> Said {
        let said = match (Said::new(progress, id, rules), self.pending) {
            (Said::Failed(Failure::Told | Failure::Status(_)), Some(first)) => Said::TooEarly(first.to_owned()),
            (said, _) => said,
        };
        if !self.is_over {
            self.note(&said);
            self.is_over = said.is_last();
        }
        said
    }

    fn note(&mut self, said: &Said) {
        match said {
            Said::Message(Message::Witness(witness)) => return self.witnesses.push(witness.clone()),
            Said::Done | Said::Message(Message::NotChanged | Message::Keep(_) | Message::Part(_)) => {}
            _ => self.says_more = true,
        }
        match said {
            Said::Message(Message::WouldChange(_)) => self.would_change = true,
            Said::Diff(text) => self.would_change |= !text.is_empty(),
            Said::Message(Message::Send(sent)) => self.sent.push(sent.clone()),
            Said::Message(Message::Keep(value)) => self.kept.push(value.clone()),
            Said::Message(Message::NotChanged | Message::Deferred(_)) => self.touched = self.touched.or(Some(false)),
            Said::Malformed(_) => self.touched = Some(true),
            Said::Message(message) if message.is_change() => self.touched = Some(true),
            _ => {}
        }
        self.end = self.end.max(self.end_by(said));
    }

    /// Returns the outcome that a message implies, if any.
    fn end_by(&self, said: &Said) -> Option<End> {
        match said {
            Said::Message(Message::NotChanged) => Some(End::Unchanged),
            Said::Message(Message::Skipped(_)) => Some(End::ConditionNotMet),
            Said::Message(message) if message.is_change() => Some(End::Changed),
            Said::Message(Message::WouldChange(_) | Message::Unknown | Message::Deferred(_)) | Said::TooEarly(_) => {
                Some(End::Pending)
            }
            Said::Message(message) if message.is_refusal() => Some(End::Refused),
            // When asked to check, a plugin of version 3 reports a difference and no other result.
            Said::Diff(text) if self.task == Task::Check && self.end.is_none() => {
                Some(if text.is_empty() { End::Unchanged } else { End::Pending })
            }
            Said::Malformed(_) | Said::Failed(_) => Some(End::Failed),
            _ => None,
        }
    }

    /// Returns the outcome.
    pub(super) fn end(&self) -> End {
        self.end.unwrap_or(match self.task {
            Task::Check => End::Pending,
            Task::Apply | Task::ForceApply | Task::Forget => End::Changed,
        })
    }

    /// Returns the files on which it rests that the entity is in its desired state, and the values to keep of that state,
    /// if its plugin need not be asked again before one of the files changes.
    pub(super) fn take_finding(&mut self) -> Option<Finding> {
        let is_fixed = self.end() == End::Unchanged && !self.says_more && !self.witnesses.is_empty();
        is_fixed.then(|| Finding { witnesses: mem::take(&mut self.witnesses), kept: self.kept.clone() })
    }

    /// Whether its plugin has reported that it was not changed, which is possible for a failure too.
    pub(super) fn is_untouched(&self) -> bool {
        self.touched == Some(false)
    }

    /// Whether its plugin cannot tell what an apply would do.
    pub(super) fn is_unknown(&self) -> bool {
        self.end() == End::Pending && !self.would_change
    }

    /// Whether it was changed according to its plugin, which may report that by sending no message.
    pub(super) fn is_changed(&self) -> bool {
        self.task != Task::Check && self.end() == End::Changed
    }
}

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
    fn new(progress: Progress<'_>, id: &BStr, rules: Rules<'_>) -> Said {
        let cannot_diff = |reason: &dyn std::fmt::Display| Said::Error(format!("cannot diff {id}: {reason}"));
        match progress {
            Progress::Output(stream, bytes) => {
                Said::Output(stream, rules.view.resources.show_originals(bytes.into()).into_owned())
            }
            // The entity may have changed in any way, because the message is lost.
            Progress::Message(Message::Malformed(line)) => Said::Malformed(malformed(&line)),
            Progress::Message(message) if rules.forces => Said::Message(forced(message)),
            Progress::Message(message) => Said::Message(message),
            Progress::Diff(pair) => rules.view.difference(&pair).map_or_else(|error| cannot_diff(&error), Said::Diff),
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

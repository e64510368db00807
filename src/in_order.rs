//! From what plugins say, in any order, to events in the entities' order, and to how each entity ended.

use crate::entity::Entity;
use crate::plugin::{Failure, Progress, Task};
use crate::report::{End, Event, Remarks, Reporter};
use crate::view::View;
use bstr::{BStr, BString};
use holo_protocol::Message;
use holo_protocol::message::MAX_SENT;
use holo_protocol::session::Stream;

/// Shows what is said of the first unfinished entity at once, and keeps what is said of the others until it is their turn.
pub struct InOrder<'a> {
    entities: &'a [&'a Entity],
    /// True for each entity that is to be refreshed, as long as it has not been told.
    refresh: Vec<bool>,
    /// The ID of an entity that each comes after and that would have been changed by then, if there is any.
    pending: Vec<Option<&'a BStr>>,
    task: Task,
    /// True if a check looks at what force would do.
    forces: bool,
    view: View<'a>,
    reporter: &'a mut dyn Reporter,
    first_unfinished: usize,
    kept: Vec<Vec<Said>>,
    /// The worst that was said of each entity.
    ends: Vec<Option<End>>,
    /// The values that each entity sends to those that are refreshed because of it.
    sent: Vec<Vec<BString>>,
    /// True or false for each that is known to have been changed or not.
    touched: Vec<Option<bool>>,
    /// True for each of which it is known that something would be changed.
    would_change: Vec<bool>,
}

/// The end of the work on an entity, and what it sends to those that are refreshed because of it.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The end itself.
    pub end: End,
    /// The values that it sends, each `KEY=VALUE`.
    pub sent: Vec<BString>,
    /// True if its plugin has said that nothing was changed, which it may know of a failure too.
    pub is_untouched: bool,
    /// True if it was looked at, and its plugin cannot tell what applying it would do.
    pub is_unknown: bool,
}

/// Something that was said of an entity; it is owned, as the buffer it came in may be reused.
enum Said {
    Output(Stream, BString),
    Message(Message),
    Diff(Vec<u8>),
    Warning(String),
    Error(String),
    /// Something that cannot be understood. The entity has failed, but is not done with.
    Malformed(String),
    Failed(Failure),
    /// The plugin has found something wrong that the entity with this ID may put right before.
    TooEarly(BString),
    Done,
}

/// Returns the message that a refusal becomes when force is used.
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
        "cannot understand the plugin's message {shown:?}: expected \"send: KEY=VALUE\", with a key of letters, digits and _, \
         and {MAX_SENT} bytes at most"
    )
}

impl<'a> InOrder<'a> {
    /// Takes what is said while the entities are worked on.
    pub fn new(
        entities: &'a [&'a Entity],
        refresh: Vec<bool>,
        task: Task,
        view: View<'a>,
        reporter: &'a mut dyn Reporter,
    ) -> InOrder<'a> {
        let kept = std::iter::repeat_with(Vec::new).take(entities.len()).collect();
        let ends = vec![None; entities.len()];
        let sent = vec![Vec::new(); entities.len()];
        let touched = vec![None; entities.len()];
        let mut in_order = InOrder {
            entities,
            refresh,
            pending: Vec::new(),
            task,
            forces: false,
            view,
            reporter,
            first_unfinished: 0,
            kept,
            ends,
            sent,
            touched,
            would_change: vec![false; entities.len()],
        };
        in_order.begin();
        in_order
    }

    /// Says what each entity comes after that an apply would have changed by then. Of an entity that fails for the lack of that, it cannot
    /// be told.
    #[must_use]
    pub fn after(self, pending: Vec<Option<&'a BStr>>) -> InOrder<'a> {
        InOrder { pending, ..self }
    }

    /// Takes what is refused for want of force for a change that would be made.
    #[must_use]
    pub fn with_force(self, forces: bool) -> InOrder<'a> {
        InOrder { forces, ..self }
    }

    /// Returns the end of each entity.
    #[must_use]
    pub fn ends(self) -> Vec<Ended> {
        let silent = self.silent();
        let ended = |(index, sent): (usize, Vec<BString>)| {
            let end = self.ends[index].unwrap_or(silent);
            let is_untouched = self.touched[index] == Some(false);
            Ended { end, sent, is_untouched, is_unknown: end == End::Pending && !self.would_change[index] }
        };
        self.sent.into_iter().enumerate().map(ended).collect()
    }

    /// Returns the end of an entity of which nothing is said.
    fn silent(&self) -> End {
        match self.task {
            Task::Check => End::Pending,
            Task::Apply | Task::ForceApply => End::Changed,
        }
    }

    /// Takes what is said of the entity at this place.
    pub fn take(&mut self, index: usize, progress: Progress<'_>) {
        if let Progress::Waiting(time) = progress {
            // It is at work, although another one may be shown.
            return self.reporter.event(Event::Waiting(self.entities[index], time));
        }
        let said = match (self.understand(self.entities[index].id(), progress), self.pending.get(index)) {
            (Said::Failed(Failure::Told | Failure::Status(_)), Some(Some(first))) => {
                Said::TooEarly((*first).to_owned())
            }
            (said, _) => said,
        };
        if index > self.first_unfinished {
            // By its turn it has come farther.
            if matches!(said, Said::Message(Message::Progress(_))) {
                return;
            }
            self.kept[index].push(said);
            return;
        }
        self.show(index, &said);
        // Showing may have finished this entity: then the next ones have their turn.
        let mut shown = usize::MAX;
        while shown != self.first_unfinished && self.first_unfinished < self.entities.len() {
            shown = self.first_unfinished;
            for said in std::mem::take(&mut self.kept[shown]) {
                self.show(shown, &said);
            }
        }
    }

    fn understand(&self, id: &BStr, progress: Progress<'_>) -> Said {
        match progress {
            Progress::Output(stream, bytes) => Said::Output(stream, bytes.into()),
            // It may have done anything: what it wanted to say is not known.
            Progress::Message(Message::Malformed(line)) => Said::Malformed(malformed(&line)),
            Progress::Message(message) if self.forces => Said::Message(forced(message)),
            Progress::Message(message) => Said::Message(message),
            Progress::Diff(pair) => match self.view.difference(&pair) {
                Ok(text) => Said::Diff(text),
                Err(reason) => Said::Error(format!("cannot diff {id}: {reason}")),
            },
            Progress::CannotDiff(reason) => Said::Error(format!("cannot diff {id}: {reason}")),
            Progress::Warning(text) => Said::Warning(text),
            Progress::Done | Progress::Waiting(_) => Said::Done,
            Progress::Failed(failure) => Said::Failed(failure),
        }
    }

    fn show(&mut self, index: usize, said: &Said) {
        let is_over = index < self.first_unfinished;
        if !is_over && !matches!(said, Said::Message(Message::Skipped(_)) | Said::Done) {
            self.tell_refresh(index);
        }
        let reporter = &mut *self.reporter;
        match said {
            Said::Output(stream, bytes) if is_over => return reporter.event(Event::Belated(*stream, bytes)),
            // Nothing else counts of an entity that is done with.
            _ if is_over => return,
            Said::Output(stream, bytes) => reporter.output(*stream, bytes),
            Said::Message(message) => reporter.event(Event::Message(message)),
            Said::Diff(text) => reporter.event(Event::Diff(text)),
            Said::Warning(text) => reporter.warning(text),
            Said::Error(text) => reporter.error(text),
            Said::Malformed(text) => reporter.event(Event::Failed(Some(text))),
            Said::Failed(Failure::Told) => reporter.event(Event::Failed(None)),
            Said::Failed(Failure::Status(reason) | Failure::Broken(reason)) => {
                reporter.event(Event::Failed(Some(reason)));
            }
            Said::TooEarly(first) => {
                reporter.warning(format!("{first} comes first, and would be changed"));
                reporter.event(Event::Message(&Message::Unknown));
            }
            Said::Done => {}
        }
        match said {
            Said::Message(Message::WouldChange(_)) => self.would_change[index] = true,
            Said::Diff(text) => self.would_change[index] |= !text.is_empty(),
            Said::Message(Message::Send(value)) => self.sent[index].push(value.clone()),
            Said::Message(Message::NotChanged) => self.touched[index] = self.touched[index].or(Some(false)),
            Said::Malformed(_) => self.touched[index] = Some(true),
            Said::Message(message) if message.is_change() => self.touched[index] = Some(true),
            _ => {}
        }
        if let Some(end) = self.end_by(index, said) {
            self.ends[index] = self.ends[index].max(Some(end));
        }
        if matches!(said, Said::Done | Said::Failed(_) | Said::TooEarly(_)) {
            self.finish();
        }
    }

    /// Returns the end that a message gives to an entity, if it does.
    fn end_by(&self, index: usize, said: &Said) -> Option<End> {
        match said {
            Said::Message(Message::NotChanged) => Some(End::Unchanged),
            Said::Message(Message::Skipped(_)) => Some(End::ConditionNotMet),
            Said::Message(message) if message.is_change() => Some(End::Changed),
            Said::Message(Message::WouldChange(_) | Message::Unknown) | Said::TooEarly(_) => Some(End::Pending),
            Said::Message(message) if message.is_refusal() => Some(End::Refused),
            // A plugin of version 3 that is asked to check has nothing else to say.
            Said::Diff(text) if self.task == Task::Check && self.ends[index].is_none() => {
                Some(if text.is_empty() { End::Unchanged } else { End::Pending })
            }
            Said::Malformed(_) | Said::Failed(_) => Some(End::Failed),
            _ => None,
        }
    }

    fn finish(&mut self) {
        let index = self.first_unfinished;
        if self.ends[index] != Some(End::ConditionNotMet) {
            self.tell_refresh(index);
        }
        self.first_unfinished += 1;
        self.reporter.event(Event::End(self.entities[index], self.ends[index].unwrap_or(self.silent())));
        self.begin();
    }

    /// Tells that an entity is refreshed, once it is known that it does not leave itself out.
    fn tell_refresh(&mut self, index: usize) {
        if std::mem::take(&mut self.refresh[index]) {
            let entity = self.entities[index];
            self.reporter.event(match self.task {
                Task::Check => Event::WouldRefresh(entity),
                Task::Apply | Task::ForceApply => Event::Refresh(entity),
            });
        }
    }

    fn begin(&mut self) {
        if let Some(next) = self.entities.get(self.first_unfinished) {
            self.reporter.event(Event::Begin(next));
        }
    }
}

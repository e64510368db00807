//! Turns plugin messages, which arrive in any order, into events in the order of the entities, and determines the
//! outcome of each entity.

use crate::diff::View;
use crate::diff::preview::Preview;
use crate::entities::Entity;
use crate::entities::node::{Table, define_index};
use crate::plugin::{Failure, Progress, Task};
use crate::report::{End, Event, Remarks, Reporter};
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::message::MAX_SENT;
use holo_protocol::session::Stream;
use holo_protocol::{Message, Sent};
use std::mem;
use std::time::{Duration, Instant};

define_index! {
    /// The index of an entity among those that are worked on together.
    WorkIndex
}

/// Shows messages about the first unfinished entity immediately, and buffers those about the others until their turn
/// comes.
pub struct InOrder<'a> {
    works: Table<WorkIndex, Work<'a>>,
    task: Task,
    /// Whether a check previews a forced apply.
    forces: bool,
    /// The reason for which entities are only checked although they should have been applied.
    held_back: Option<&'static str>,
    view: View<'a>,
    /// The preview of each entity, where available.
    previews: Vec<Option<Preview>>,
    reporter: &'a mut dyn Reporter,
    /// The unfinished entities after the current one.
    next: Box<dyn Iterator<Item = WorkIndex> + 'a>,
    /// The first unfinished entity.
    current: Option<WorkIndex>,
    /// The time at which the plugin received the request, or finished the previous entity.
    done_before: Instant,
}

/// The work on an entity.
pub struct Work<'a> {
    entity: &'a Entity,
    /// The entities whose change refreshes it, until that has been reported.
    refreshed_by: Vec<BString>,
    /// The ID of an entity that precedes this one and that an apply would have changed by then.
    pending: Option<&'a BStr>,
    kept: Vec<Said>,
    /// The worst outcome reported so far.
    end: Option<End>,
    /// The values that it sends to the entities that it refreshes.
    sent: Vec<Sent>,
    /// The values that describe its current state.
    to_keep: Vec<BString>,
    /// Whether it was changed, if known.
    touched: Option<bool>,
    /// Whether the plugin has reported that it would be changed.
    would_change: bool,
    /// The time that the entity took, since the plugin received the request or finished the previous entity.
    duration: Duration,
}

/// The outcome of an entity, and the values that it sends to the entities that it refreshes.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The outcome.
    pub end: End,
    /// The values that it sends, each `KEY=VALUE`.
    pub sent: Vec<Sent>,
    /// The values that describe its current state, each `KEY=VALUE`.
    pub kept: Vec<BString>,
    /// Whether its plugin has reported that it was not changed, which is possible for a failure too.
    pub is_untouched: bool,
    /// Whether it was checked, and its plugin cannot tell what an apply would do.
    pub is_unknown: bool,
}

impl<'a> Work<'a> {
    /// Returns the work on an entity before it has begun. If its check fails while an entity that it depends on is
    /// pending, its outcome is unknown rather than failed.
    #[must_use]
    pub fn new(entity: &'a Entity, refreshed_by: Vec<BString>, pending: Option<&'a BStr>) -> Work<'a> {
        Work {
            entity,
            refreshed_by,
            pending,
            kept: Vec::new(),
            end: None,
            sent: Vec::new(),
            to_keep: Vec::new(),
            touched: None,
            would_change: false,
            duration: Duration::ZERO,
        }
    }

    /// Records the effects of a message.
    fn note(&mut self, said: &Said, task: Task) {
        match said {
            Said::Message(Message::WouldChange(_)) => self.would_change = true,
            Said::Diff(text) => self.would_change |= !text.is_empty(),
            Said::Message(Message::Send(sent)) => self.sent.push(sent.clone()),
            Said::Message(Message::Keep(value)) => self.to_keep.push(value.clone()),
            Said::Message(Message::NotChanged) => self.touched = self.touched.or(Some(false)),
            Said::Malformed(_) => self.touched = Some(true),
            Said::Message(message) if message.is_change() => self.touched = Some(true),
            _ => {}
        }
        self.end = self.end.max(self.end_by(said, task));
    }

    /// Returns the outcome that a message implies, if any.
    fn end_by(&self, said: &Said, task: Task) -> Option<End> {
        match said {
            Said::Message(Message::NotChanged) => Some(End::Unchanged),
            Said::Message(Message::Skipped(_)) => Some(End::ConditionNotMet),
            Said::Message(message) if message.is_change() => Some(End::Changed),
            Said::Message(Message::WouldChange(_) | Message::Unknown) | Said::TooEarly(_) => Some(End::Pending),
            Said::Message(message) if message.is_refusal() => Some(End::Refused),
            // When asked to check, a plugin of version 3 reports a difference and no other result.
            Said::Diff(text) if task == Task::Check && self.end.is_none() => {
                Some(if text.is_empty() { End::Unchanged } else { End::Pending })
            }
            Said::Malformed(_) | Said::Failed(_) => Some(End::Failed),
            _ => None,
        }
    }

    fn ended(self, task: Task) -> Ended {
        let end = self.end.unwrap_or(silent(task));
        Ended {
            end,
            sent: self.sent,
            kept: self.to_keep,
            is_untouched: self.touched == Some(false),
            is_unknown: end == End::Pending && !self.would_change,
        }
    }
}

/// Returns the default outcome of an entity for which the plugin sent no message.
fn silent(task: Task) -> End {
    match task {
        Task::Check => End::Pending,
        Task::Apply | Task::ForceApply => End::Changed,
    }
}

impl<'a> InOrder<'a> {
    /// Returns a receiver for the messages of a plugin that is working on entities.
    pub fn new(works: Vec<Work<'a>>, task: Task, view: View<'a>, reporter: &'a mut dyn Reporter) -> InOrder<'a> {
        let works = Table::from(works);
        let next = Box::new(works.indexes());
        let (previews, done_before) = (Vec::new(), Instant::now());
        let mut in_order = InOrder {
            works,
            task,
            forces: false,
            held_back: None,
            view,
            previews,
            reporter,
            next,
            current: None,
            done_before,
        };
        in_order.begin_next();
        in_order
    }

    /// Sets whether entities that are refused for lack of force count as pending changes.
    #[must_use]
    pub fn with_force(self, forces: bool) -> InOrder<'a> {
        InOrder { forces, ..self }
    }

    /// Sets the reason, if any, that is shown for entities that would be changed but are held back.
    #[must_use]
    pub fn held_back(self, held_back: Option<&'static str>) -> InOrder<'a> {
        InOrder { held_back, ..self }
    }

    /// Sets the previews that are shown for entities that are changed, or would be.
    #[must_use]
    pub fn with_previews(self, previews: Vec<Option<Preview>>) -> InOrder<'a> {
        InOrder { previews, ..self }
    }

    /// Returns the outcome of each entity.
    #[must_use]
    pub fn ends(self) -> Vec<Ended> {
        let task = self.task;
        self.works.into_iter().map(|work| work.ended(task)).collect()
    }

    /// Takes a message about the entity with this index.
    pub fn take(&mut self, index: usize, progress: Progress<'_>) {
        if let Progress::Burst { is_over } = progress {
            return self.reporter.event(Event::Burst { is_over });
        }
        let index = WorkIndex::from(index);
        let Work { entity, pending, .. } = self.works[index];
        if let Progress::Waiting(time) = progress {
            // The entity is being worked on even if output of another one is on display.
            return self.reporter.event(Event::Waiting(entity, time));
        }
        let said = match (Said::new(progress, entity.id(), self.forces, self.view), pending) {
            (Said::Failed(Failure::Told | Failure::Status(_)), Some(first)) => Said::TooEarly(first.to_owned()),
            (said, _) => said,
        };
        if said.is_last() {
            let before = mem::replace(&mut self.done_before, Instant::now());
            self.works[index].duration = self.done_before - before;
        }
        if self.current.is_some_and(|current| index > current) {
            // Progress is outdated by the time its turn comes.
            if !matches!(said, Said::Message(Message::Progress(_))) {
                self.works[index].kept.push(said);
            }
            return;
        }
        self.show(index, &said);
        // This may have finished the entity; then it is the turn of the next ones.
        let mut shown = None;
        while let Some(current) = self.current.filter(|_| shown != self.current) {
            shown = Some(current);
            for said in mem::take(&mut self.works[current].kept) {
                self.show(current, &said);
            }
        }
    }

    fn show(&mut self, index: WorkIndex, said: &Said) {
        if self.current.is_none_or(|current| index < current) {
            // Messages about a finished entity are ignored, except for output.
            if let Said::Output(stream, bytes) = said {
                self.reporter.event(Event::Belated(*stream, bytes));
            }
            return;
        }
        if !matches!(said, Said::Message(Message::Skipped(_)) | Said::Done) {
            self.tell_refresh(index);
        }
        self.emit(said);
        if matches!(said, Said::Message(message) if message.is_refusal()) {
            self.tell_definition(index);
        }
        self.works[index].note(said, self.task);
        if said.is_last() {
            self.finish(index);
        }
    }

    fn emit(&mut self, said: &Said) {
        let reporter = &mut *self.reporter;
        match said {
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
    }

    fn finish(&mut self, index: WorkIndex) {
        if self.works[index].end != Some(End::ConditionNotMet) {
            self.tell_refresh(index);
        }
        self.show_preview(index);
        let Work { entity, end, duration, .. } = self.works[index];
        if let Some(reason) = self.held_back.filter(|_| end == Some(End::Pending)) {
            self.reporter.warning(reason);
        }
        self.reporter.event(Event::End(entity, end.unwrap_or(silent(self.task)), duration));
        self.begin_next();
    }

    fn show_preview(&mut self, index: WorkIndex) {
        let Work { end, would_change, .. } = self.works[index];
        let Some(preview) = self.previews.get_mut(usize::from(index)).and_then(Option::take) else { return };
        let differences = match (self.task, end) {
            (Task::Check, Some(End::Pending)) if would_change => preview.pending(),
            // A plugin that sent no message has changed the entity.
            (Task::Apply | Task::ForceApply, Some(End::Changed) | None) => preview.applied(self.view),
            _ => return,
        };
        for difference in &differences {
            self.reporter.event(Event::Preview { difference, is_alone: false });
        }
    }

    /// Shows where a refused entity is defined, for users who want to keep a manual change by adopting it into the
    /// definition.
    fn tell_definition(&mut self, index: WorkIndex) {
        let entity = self.works[index].entity;
        if !entity.has_edges() {
            return;
        }
        let edges = entity.edges();
        if let Some(written) = edges.written.iter().find(|written| written.id == entity.id()) {
            let location = self.view.resources.show(written.location.as_bstr());
            self.reporter.warning([b"defined in ", location.as_bytes()].concat());
        }
    }

    /// Reports that an entity is refreshed, once it is certain that the entity is not skipped.
    fn tell_refresh(&mut self, index: WorkIndex) {
        let work = &mut self.works[index];
        let sources = mem::take(&mut work.refreshed_by);
        if !sources.is_empty() {
            self.reporter.event(match self.task {
                Task::Check => Event::WouldRefresh(work.entity, &sources),
                Task::Apply | Task::ForceApply => Event::Refresh(work.entity, &sources),
            });
        }
    }

    fn begin_next(&mut self) {
        self.current = self.next.next();
        if let Some(current) = self.current {
            self.reporter.event(Event::Begin(self.works[current].entity));
        }
    }
}

/// A message about an entity. It is owned, because the buffer that it came in may be reused.
pub(crate) enum Said {
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
    pub(crate) fn new(progress: Progress<'_>, id: &BStr, forces: bool, view: View<'_>) -> Said {
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
    pub(crate) fn is_last(&self) -> bool {
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

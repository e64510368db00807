//! Shows messages of plugins, which arrive in any order, as events in the order of the entities.

use super::outcome::{Outcome, Rules, Said};
use crate::diff::preview::Preview;
use crate::entities::Entity;
use crate::entities::node::{Table, define_index};
use crate::plugin::{Failure, Task};
use crate::report::{End, Event, Remarks, Reporter};
use bstr::{BString, ByteSlice};
use holo_protocol::Message;
use std::mem;
use std::time::{Duration, Instant};

define_index! {
    /// The index of an entity among those that are worked on together.
    WorkIndex
}

/// Shows messages about the first unfinished entity immediately, and buffers those about the others until their turn
/// comes.
pub(super) struct InOrder<'a> {
    works: Table<WorkIndex, Work<'a>>,
    rules: Rules<'a>,
    /// The reason for which entities are only checked although they should have been applied.
    held_back: Option<&'static str>,
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

/// An entity that is worked on.
pub(super) struct Work<'a> {
    entity: &'a Entity,
    /// The entities whose change refreshes it, until that has been reported.
    refreshed_by: Vec<BString>,
    kept: Vec<Said>,
    /// The outcome, once it is finished.
    result: Option<WorkResult>,
}

#[derive(Clone, Copy)]
struct WorkResult {
    end: End,
    would_change: bool,
    is_changed: bool,
    /// The time that the entity took, since the plugin received the request or finished the previous entity.
    duration: Duration,
}

impl<'a> Work<'a> {
    /// Returns the work on an entity before it has begun.
    pub(super) fn new(entity: &'a Entity, refreshed_by: Vec<BString>) -> Work<'a> {
        Work { entity, refreshed_by, kept: Vec::new(), result: None }
    }
}

impl<'a> InOrder<'a> {
    /// Returns a receiver for the messages of a plugin that is working on entities. For those that would be changed but
    /// are held back, it shows this reason; for those that are changed, or would be, these previews.
    pub(super) fn new(
        works: Vec<Work<'a>>,
        rules: Rules<'a>,
        held_back: Option<&'static str>,
        previews: Vec<Option<Preview>>,
        reporter: &'a mut dyn Reporter,
    ) -> InOrder<'a> {
        let works = Table::from(works);
        let next = Box::new(works.indexes());
        let done_before = Instant::now();
        let mut in_order = InOrder { works, rules, held_back, previews, reporter, next, current: None, done_before };
        in_order.begin_next();
        in_order
    }

    /// Marks the beginning or the end of messages that have arrived together.
    pub(super) fn burst(&mut self, is_over: bool) {
        self.reporter.event(Event::Burst { is_over });
    }

    /// Shows that the entity with this index is still being worked on, even if output of another one is on display.
    pub(super) fn waiting(&mut self, index: usize, time: Duration) {
        self.reporter.event(Event::Waiting(self.works[WorkIndex::from(index)].entity, time));
    }

    /// Takes a message about the entity with this index, and its outcome so far.
    pub(super) fn take(&mut self, index: usize, said: Said, outcome: &Outcome<'_>) {
        let index = WorkIndex::from(index);
        if said.is_last() {
            let before = mem::replace(&mut self.done_before, Instant::now());
            let (end, would_change, is_changed) = (outcome.end(), outcome.would_change, outcome.is_changed());
            let duration = self.done_before - before;
            self.works[index].result.get_or_insert(WorkResult { end, would_change, is_changed, duration });
        }
        if self.current.is_some_and(|current| index > current) {
            // Progress is outdated by the time its turn comes.
            if !matches!(said, Said::Message(Message::Progress(_) | Message::Witness(_))) {
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
        if matches!(said, Said::Message(Message::RequiresForceToOverwrite)) && self.rules.adopts {
            let id = self.works[index].entity.id();
            self.reporter.advise(format!("to keep the change: holo adopt {id}"));
        }
        if let Some(result) = self.works[index].result.filter(|_| said.is_last()) {
            self.finish(index, result);
        }
    }

    fn emit(&mut self, said: &Said) {
        let reporter = &mut *self.reporter;
        match said {
            Said::Output(stream, bytes) => reporter.output(*stream, bytes),
            Said::Message(Message::Witness(_)) => {}
            Said::Message(message) => reporter.event(Event::Message(message)),
            Said::Diff(text) => reporter.event(Event::Diff(text)),
            Said::Warning(text) => reporter.warning(text),
            Said::Error(text) => reporter.error(text),
            Said::Malformed(text) => reporter.event(Event::Failed(Some(text))),
            Said::Failed(Failure::Told) => reporter.event(Event::Failed(None)),
            Said::Failed(Failure::Status(reason)) => reporter.event(Event::Failed(Some(reason))),
            Said::Failed(Failure::Broken(reason)) => {
                reporter.event(Event::Failed(Some(reason)));
                reporter.event(Event::Broken);
            }
            Said::TooEarly(first) => {
                reporter.warning(format!("{first} comes first, and would be changed"));
                reporter.event(Event::Message(&Message::Unknown));
            }
            Said::Done => {}
        }
    }

    fn finish(&mut self, index: WorkIndex, result: WorkResult) {
        let WorkResult { end, duration, .. } = result;
        if end != End::ConditionNotMet {
            self.tell_refresh(index);
        }
        self.show_preview(index, result);
        if let Some(reason) = self.held_back.filter(|_| end == End::Pending) {
            self.reporter.warning(reason);
        }
        self.reporter.event(Event::End(self.works[index].entity, end, duration));
        self.begin_next();
    }

    fn show_preview(&mut self, index: WorkIndex, WorkResult { end, would_change, is_changed, .. }: WorkResult) {
        let Some(preview) = self.previews.get_mut(usize::from(index)).and_then(Option::take) else { return };
        let differences = match end {
            End::Pending if would_change && self.rules.task == Task::Check => preview.pending(),
            _ if is_changed => preview.applied(self.rules.view),
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
            let location = self.rules.view.resources.show(written.location.as_bstr());
            self.reporter.warning([b"defined in ", location.as_bytes()].concat());
        }
    }

    /// Reports that an entity is refreshed, once it is certain that the entity is not skipped.
    fn tell_refresh(&mut self, index: WorkIndex) {
        let work = &mut self.works[index];
        let sources = mem::take(&mut work.refreshed_by);
        if !sources.is_empty() {
            self.reporter.event(match self.rules.task {
                Task::Check => Event::WouldRefresh(work.entity, &sources),
                Task::Apply | Task::ForceApply => Event::Refresh(work.entity, &sources),
                Task::Forget => return,
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

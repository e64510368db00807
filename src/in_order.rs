//! From what plugins say, in any order, to events in the entities' order, and to how each entity ended.

mod said;

use crate::entity::Entity;
use crate::index::{Table, define_index};
use crate::plugin::{Failure, Progress, Task};
use crate::preview::Preview;
use crate::report::{End, Event, Remarks, Reporter};
use crate::view::View;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::{Message, Sent};
use said::Said;
use std::mem;
use std::time::{Duration, Instant};

define_index! {
    /// The index of an entity among those that are worked on together.
    WorkIndex
}

/// Shows what is said of the first unfinished entity at once, and keeps what is said of the others until it is their turn.
pub struct InOrder<'a> {
    works: Table<WorkIndex, Work<'a>>,
    task: Task,
    /// True if a check looks at what force would do.
    forces: bool,
    /// The reason for which entities that would be changed are not, if they should have been.
    held_back: Option<&'static str>,
    view: View<'a>,
    /// The previews of the entities that have one.
    previews: Vec<Option<Preview>>,
    reporter: &'a mut dyn Reporter,
    /// The entities that are not done with, but for the first, which is the current one.
    next: Box<dyn Iterator<Item = WorkIndex> + 'a>,
    /// The first entity that is not done with.
    current: Option<WorkIndex>,
    /// The time at which the plugin was asked, or had done with an entity.
    done_before: Instant,
}

/// The work on an entity.
pub struct Work<'a> {
    entity: &'a Entity,
    /// The entities whose change refreshes it, as long as that has not been told.
    refreshed_by: Vec<BString>,
    /// The ID of an entity that this one comes after and that an apply would have changed by then.
    pending: Option<&'a BStr>,
    kept: Vec<Said>,
    /// The worst that was said of it.
    end: Option<End>,
    /// The values that it sends to those that are refreshed because of it.
    sent: Vec<Sent>,
    /// The values that belong to the state that it is in now.
    to_keep: Vec<BString>,
    /// True or false if it is known to have been changed or not.
    touched: Option<bool>,
    /// True if it is known that something would be changed.
    would_change: bool,
    /// The time that it took until it was done with, since its plugin was asked, or had done with the one before.
    duration: Duration,
}

/// The end of the work on an entity, and what it sends to those that are refreshed because of it.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The end itself.
    pub end: End,
    /// The values that it sends, each `KEY=VALUE`.
    pub sent: Vec<Sent>,
    /// The values that belong to the state that it is in now, each `KEY=VALUE`.
    pub kept: Vec<BString>,
    /// True if its plugin has said that nothing was changed, which it may know of a failure too.
    pub is_untouched: bool,
    /// True if it was looked at, and its plugin cannot tell what applying it would do.
    pub is_unknown: bool,
}

impl<'a> Work<'a> {
    /// Returns the work on an entity before it has begun. If the entity fails for the lack of one that is pending, its end cannot be told.
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

    /// Notes what was said.
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

    /// Returns the end that a message gives to the entity, if it does.
    fn end_by(&self, said: &Said, task: Task) -> Option<End> {
        match said {
            Said::Message(Message::NotChanged) => Some(End::Unchanged),
            Said::Message(Message::Skipped(_)) => Some(End::ConditionNotMet),
            Said::Message(message) if message.is_change() => Some(End::Changed),
            Said::Message(Message::WouldChange(_) | Message::Unknown) | Said::TooEarly(_) => Some(End::Pending),
            Said::Message(message) if message.is_refusal() => Some(End::Refused),
            // A plugin of version 3 that is asked to check has nothing else to say.
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

/// Returns the end of an entity of which nothing is said.
fn silent(task: Task) -> End {
    match task {
        Task::Check => End::Pending,
        Task::Apply | Task::ForceApply => End::Changed,
    }
}

impl<'a> InOrder<'a> {
    /// Takes what is said while entities are worked on.
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

    /// Takes what is refused for want of force for a change that would be made.
    #[must_use]
    pub fn with_force(self, forces: bool) -> InOrder<'a> {
        InOrder { forces, ..self }
    }

    /// Says of each entity that would be changed why it is not, if there is a reason.
    #[must_use]
    pub fn held_back(self, held_back: Option<&'static str>) -> InOrder<'a> {
        InOrder { held_back, ..self }
    }

    /// Shows what the work makes of each entity, or would make, as these previews have it.
    #[must_use]
    pub fn with_previews(self, previews: Vec<Option<Preview>>) -> InOrder<'a> {
        InOrder { previews, ..self }
    }

    /// Returns the end of each entity.
    #[must_use]
    pub fn ends(self) -> Vec<Ended> {
        let task = self.task;
        self.works.into_iter().map(|work| work.ended(task)).collect()
    }

    /// Takes what is said of the entity with this index.
    pub fn take(&mut self, index: usize, progress: Progress<'_>) {
        if let Progress::Burst { is_over } = progress {
            return self.reporter.event(Event::Burst { is_over });
        }
        let index = WorkIndex::from(index);
        let Work { entity, pending, .. } = self.works[index];
        if let Progress::Waiting(time) = progress {
            // It is at work, although another one may be shown.
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
            // By its turn it has come farther.
            if !matches!(said, Said::Message(Message::Progress(_))) {
                self.works[index].kept.push(said);
            }
            return;
        }
        self.show(index, &said);
        // Showing may have finished this entity: then the next ones have their turn.
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
            // Nothing but output counts of an entity that is done with.
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
            // A plugin that says nothing has changed it.
            (Task::Apply | Task::ForceApply, Some(End::Changed) | None) => preview.applied(self.view),
            _ => return,
        };
        for difference in &differences {
            self.reporter.event(Event::Preview { difference, is_alone: false });
        }
    }

    /// Tells where an entity is defined: whoever wants to keep what a person has done has to change that.
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

    /// Tells that an entity is refreshed, once it is known that it does not leave itself out.
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

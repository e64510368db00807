//! The answers for a set of entities.

use super::answers::{Answers, Wire};
use crate::index::{Table, define_index};
use crate::serve::{applied_messages, foresee, send, verdict_messages};
use crate::{Applied, Entity, ForceTo, Host, Output, SetAnswers, Sink, Verdict};
use bstr::BString;
use holo_facts::REGISTRY_SNAPSHOT;
use holo_protocol::session::{Outcome, Stream};
use holo_protocol::{Message, Progress, Sent, Witness};
use std::collections::HashMap;

define_index! {
    /// The index of an entity in a set.
    JobIndex
}

/// The answers for a set, each with the ID of its entity.
pub(super) struct EntitySet<'a, E, W> {
    host: &'a Host,
    /// The entities with their IDs and the names of the values that others receive from them.
    entities: Table<JobIndex, (&'a BString, &'a E, &'a [BString])>,
    answers: &'a mut Answers<W>,
    /// The entity to which output belongs.
    speaker: JobIndex,
    /// The values that entities send or keep, until their results.
    sent: HashMap<JobIndex, Vec<Message>>,
    /// Whether the witnesses of unchanged entities are reported.
    remembers: bool,
    /// Whether the parts of entities are reported.
    watches: bool,
}

impl<'a, E, W> EntitySet<'a, E, W> {
    /// Creates the answers for a set of entities with their IDs and the names of the values that others receive from
    /// them.
    pub(super) fn new(
        host: &'a Host,
        entities: impl Iterator<Item = (&'a BString, &'a E, &'a [BString])>,
        answers: &'a mut Answers<W>,
        (remembers, watches): (bool, bool),
    ) -> EntitySet<'a, E, W> {
        let (speaker, sent) = (JobIndex::from(0), HashMap::new());
        EntitySet { host, entities: entities.collect(), answers, speaker, sent, remembers, watches }
    }
}

impl<E: Entity, W> EntitySet<'_, E, W> {
    /// Returns messages with the witnesses of an unchanged entity, if they are requested and known.
    fn witnesses(&self, entity: &E) -> Vec<Message> {
        let witnesses = if self.remembers { entity.witnesses(self.host) } else { None };
        let can_be_said = |witnesses: &Vec<Witness>| witnesses.iter().all(|witness| witness.to_text().is_some());
        witnesses.filter(can_be_said).unwrap_or_default().into_iter().map(Message::Witness).collect()
    }

    /// Returns messages with the parts of an entity, if they are requested.
    fn parts(&self, entity: &E) -> impl Iterator<Item = Message> + use<E, W> {
        let mut parts = if self.watches { entity.parts(self.host) } else { Vec::new() };
        // Which of the entities has read it is not known, and it concerns all as little as facts do.
        if self.watches && self.host.knowledge().reads_registry() {
            parts.push(format!("/{REGISTRY_SNAPSHOT}").into());
        }
        parts.into_iter().filter(|path| !path.contains(&b'\n')).map(Message::Part)
    }
}

impl<E: Entity, W: Wire> SetAnswers<Verdict> for EntitySet<'_, E, W> {
    /// Not announced, because a check that is interrupted leaves no entity unfinished.
    fn begin(&mut self, _: usize) {}

    fn output(&mut self, index: usize) -> Output<'_> {
        self.speaker = JobIndex::from(index);
        Output::new(self)
    }

    fn end(&mut self, index: usize, verdict: Verdict) {
        let index = JobIndex::from(index);
        let (id, entity, wanted) = self.entities[index];
        self.speaker = index;
        foresee(entity, &verdict, self.host, wanted, &mut Output::new(self));
        let mut sent = self.sent.remove(&index).unwrap_or_default();
        if verdict == Verdict::InDesiredState {
            sent.extend(self.witnesses(entity));
        }
        sent.extend(self.parts(entity));
        if verdict == Verdict::NeedsForce(ForceTo::Overwrite)
            && self.host.shows_differences()
            && let Some(pair) = entity.diff(self.host)
        {
            self.answers.diff(id, &pair);
        }
        match verdict_messages(&verdict) {
            Some(messages) => self.answers.result(id, messages.into_iter().chain(sent), Outcome::Done),
            None => self.answers.result(id, None, Outcome::Failed),
        }
    }
}

impl<E: Entity, W: Wire> SetAnswers for EntitySet<'_, E, W> {
    fn begin(&mut self, index: usize) {
        let (id, ..) = self.entities[JobIndex::from(index)];
        self.answers.begin(id);
    }

    fn output(&mut self, index: usize) -> Output<'_> {
        self.speaker = JobIndex::from(index);
        Output::new(self)
    }

    fn end(&mut self, index: usize, applied: Applied) {
        let index = JobIndex::from(index);
        let (id, entity, wanted) = self.entities[index];
        self.speaker = index;
        send(entity, &applied, self.host, wanted, &mut Output::new(self));
        let mut messages = applied_messages(&applied);
        messages.extend(self.sent.remove(&index).unwrap_or_default());
        if applied == Applied::Unchanged {
            messages.extend(self.witnesses(entity));
        }
        messages.extend(self.parts(entity));
        let result = if let Applied::Failed { version_3_status, .. } = applied {
            self.answers.wire.fail_with(version_3_status);
            Outcome::Failed
        } else {
            Outcome::Done
        };
        if applied == Applied::NeedsForce(ForceTo::Overwrite)
            && self.host.shows_differences()
            && let Some(pair) = entity.diff(self.host)
        {
            self.answers.diff(id, &pair);
        }
        let changed = applied != Applied::Unchanged;
        self.answers.result(id, messages, result);
        // The user may be waiting for it.
        if changed {
            self.answers.hand_over();
        }
    }

    fn hold_back(&mut self) {
        self.answers.hold_back(true);
    }

    fn flush(&mut self) {
        self.answers.hold_back(false);
    }
}

impl<E, W: Wire> Sink for EntitySet<'_, E, W> {
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let (id, ..) = self.entities[self.speaker];
        self.answers.output(Some(id), stream, bytes);
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        let (id, ..) = self.entities[self.speaker];
        self.answers.progress(id, progress);
    }

    fn send(&mut self, sent: &Sent) {
        self.sent.entry(self.speaker).or_default().push(Message::Send(sent.clone()));
    }

    fn replaced(&mut self, text: &str) {
        self.sent.entry(self.speaker).or_default().push(Message::Replaced(text.into()));
    }

    fn keep(&mut self, text: &str) {
        self.sent.entry(self.speaker).or_default().push(Message::Keep(text.into()));
    }
}

//! Repairs drifted entities, as far as that is allowed, and detects fights with another program over an entity.

use super::known::{Definitions, Fingerprint, State};
use super::paths::Heard;
use super::{LOCK_PATIENCE, Watcher};
use crate::cli::Apply;
use crate::commands::apply;
use crate::commands::check::{Finding, Findings};
use crate::entities::node::EntityIndex;
use crate::error::FatalError;
use crate::host::settings::{RunId, Settings};
use crate::report::{End, Event, Noticed};
use bstr::{BStr, BString, ByteSlice};
use holo_events::Writer;
use holo_protocol::Limit;
use holo_schedule as schedule;
use jiff::Zoned;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

impl Watcher<'_> {
    /// Applies entities that have drifted, and those that this may affect, if `--apply` is given.
    pub(super) fn repair(&mut self, drifted: Vec<EntityIndex>) -> Result<(), FatalError> {
        if !self.arguments.apply {
            return Ok(());
        }
        let able: Vec<EntityIndex> = drifted.into_iter().filter(|&entity| self.may_repair(entity)).collect();
        if able.is_empty() {
            return Ok(());
        }
        let mut applied = self.known.with_dependents(&able);
        applied.retain(|&entity| !self.fights.is_left_alone(self.known.entities[entity].id.as_bstr(), Instant::now()));
        let arguments = Apply {
            force: self.arguments.force,
            wait: Some(LOCK_PATIENCE),
            selection: self.known.selection(applied),
            ..Apply::default()
        };
        let mut findings = Findings::new(self.reporter, &mut self.told);
        // Each repair is a run of its own.
        let settings = Settings { run: RunId::now(), ..self.settings.clone() };
        self.queue.writers.take();
        let done = apply::apply(&arguments, &settings, self.interrupt, &mut findings);
        let found = findings.into_found();
        self.queue.writers.skip();
        self.learn_repairs(found);
        match done {
            Ok(_) => Ok(()),
            Err(fatal) => {
                let entities = able.into_iter().map(|entity| (entity, None)).collect();
                self.postpone(fatal, Heard { entities, ..Heard::default() })
            }
        }
    }

    fn may_repair(&mut self, entity: EntityIndex) -> bool {
        if self.known.entities[entity].controls().noop || self.awaits_opening(entity) {
            return false;
        }
        let limit = self.known.limit(entity);
        let id = self.known.entities[entity].id.as_bstr();
        match self.fights.judge(id, limit, Instant::now()) {
            Verdict::Repair => true,
            Verdict::LeftAlone => false,
            Verdict::Stop(until) => {
                let writer = self.fights.writer(id);
                self.reporter.event(Event::Noticed(Noticed::LeftAlone { id, limit, until, writer }));
                false
            }
        }
    }

    /// Returns true if the schedule of an entity is closed now. Then the entity is checked when it opens.
    fn awaits_opening(&mut self, entity: EntityIndex) -> bool {
        let Some(schedule) = &self.known.entities[entity].controls().schedule else { return false };
        let now = Zoned::now();
        let is_closed = !schedule::is_open(schedule, &now);
        if is_closed {
            self.timers.await_opening(entity, schedule, &now, Instant::now());
        }
        is_closed
    }

    /// Records and reports the outcomes of applied entities.
    fn learn_repairs(&mut self, found: Vec<Finding>) {
        let mut definitions = Definitions::new(&self.known.beginnings, &self.settings.root);
        let fingerprints: Vec<_> = found.iter().map(|finding| definitions.fingerprint(&finding.sources)).collect();
        for (finding, definition) in found.into_iter().zip(fingerprints) {
            let Some(entity) = self.known.find(finding.id.as_bstr()) else { continue };
            let before = self.known.entities[entity].state;
            let (state, noticed) = match finding.end {
                End::Changed => {
                    let now = Instant::now();
                    self.fights.repaired(finding.id.as_bstr(), definition, now);
                    self.queue.listen_to_writers(entity, now + self.known.limit(entity).within);
                    let changes = &finding.changes;
                    (State::Desired, Some(Noticed::Repaired { id: finding.id.as_bstr(), changes }))
                }
                End::Unchanged | End::ConditionNotMet => {
                    let returned = Noticed::Returned(finding.id.as_bstr());
                    (State::Desired, Some(returned).filter(|_| before != Some(State::Desired)))
                }
                // It is due for a refresh, but must not be changed now.
                End::Pending if before != Some(State::Drifted) => {
                    self.awaits_opening(entity);
                    let reason = finding.reason();
                    let id = finding.id.as_bstr();
                    (
                        State::Drifted,
                        Some(Noticed::Drifted { id, reason, writer: None, needs_force: false, is_edited: false }),
                    )
                }
                // That it needs force has been reported.
                End::Refused | End::Pending => (State::Drifted, None),
                End::Failed | End::DependencyFailed => {
                    (State::Failed, Some(finding.failure()).filter(|_| before != Some(State::Failed)))
                }
            };
            if let Some(noticed) = noticed {
                self.reporter.event(Event::Noticed(noticed));
                self.last_change = Instant::now();
            }
            self.known.entities[entity].state = Some(state);
            self.timers.retry(entity, finding.is_broken, Instant::now());
        }
    }
}

/// The time after which an abandoned entity is repaired again.
const LEFT_ALONE: Duration = Duration::from_secs(60 * 60);

/// The entities that have been repaired.
#[derive(Debug, Default)]
pub(super) struct Fights(HashMap<BString, Fight>);

/// The repairs of an entity.
#[derive(Debug, Default)]
struct Fight {
    repairs: VecDeque<Instant>,
    /// The time until which it is not repaired.
    left_alone: Option<Instant>,
    /// The last process known to have written a file of it.
    writer: Option<Writer<'static>>,
    /// Its definition at the first repair, if known.
    definition: Option<Fingerprint>,
}

/// Whether an entity may be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may be repaired.
    Repair,
    /// It was repaired too often. From now on it is not repaired until this time.
    Stop(Instant),
    /// It is not repaired for now.
    LeftAlone,
}

impl Fights {
    /// Decides whether an entity may be repaired now.
    pub(super) fn judge(&mut self, id: &BStr, limit: Limit, now: Instant) -> Verdict {
        if self.is_left_alone(id, now) {
            return Verdict::LeftAlone;
        }
        let Some(fight) = self.0.get_mut(id) else { return Verdict::Repair };
        fight.left_alone = None;
        fight.repairs.retain(|&at| now.duration_since(at) < limit.within);
        let times = usize::try_from(limit.times).unwrap_or(usize::MAX);
        let Some(&first) = fight.repairs.len().checked_sub(times).and_then(|index| fight.repairs.get(index)) else {
            return Verdict::Repair;
        };
        let until = (now + LEFT_ALONE).max(first + limit.within);
        fight.left_alone = Some(until);
        Verdict::Stop(until)
    }

    /// Returns true if an entity was repaired too often, and is not repaired for now.
    pub(super) fn is_left_alone(&self, id: &BStr, now: Instant) -> bool {
        self.0.get(id).and_then(|fight| fight.left_alone).is_some_and(|until| now < until)
    }

    /// Records a repair of an entity with this definition.
    pub(super) fn repaired(&mut self, id: &BStr, definition: Option<Fingerprint>, now: Instant) {
        let fight = self.0.entry(id.to_owned()).or_default();
        fight.repairs.push_back(now);
        fight.definition = fight.definition.or(definition);
    }

    /// Returns true if an entity has been repaired.
    pub(super) fn has(&self, id: &BStr) -> bool {
        self.0.contains_key(id)
    }

    /// Forgets the entities whose definitions are unknown or differ from these.
    pub(super) fn forget_unless(&mut self, definitions: &HashMap<BString, Fingerprint>) {
        self.0.retain(|id, fight| fight.definition.is_some() && fight.definition.as_ref() == definitions.get(id));
    }

    /// Records the process that has written a file of an entity.
    pub(super) fn written(&mut self, id: &BStr, writer: &Writer<'static>) {
        self.0.entry(id.to_owned()).or_default().writer = Some(writer.clone());
    }

    /// Returns the last process known to have written a file of an entity.
    pub(super) fn writer(&self, id: &BStr) -> Option<&Writer<'static>> {
        self.0.get(id)?.writer.as_ref()
    }

    /// Returns the earliest time at which an entity may be repaired again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().filter_map(|fight| fight.left_alone).min()
    }

    /// Returns the entities that may be repaired again.
    pub(super) fn release(&mut self, now: Instant) -> Vec<BString> {
        let is_due = |fight: &mut Fight| fight.left_alone.take_if(|until| *until <= now).is_some();
        self.0.iter_mut().filter_map(|(id, fight)| is_due(fight).then(|| id.clone())).collect()
    }
}

#[cfg(test)]
mod fights_tests {
    use super::*;

    const LIMIT: Limit = Limit { times: 3, within: Duration::from_secs(600) };
    const DEFINITION: Fingerprint = Fingerprint::for_test(1);

    #[test]
    fn often_repaired_entity_is_left_alone_for_an_hour() {
        let id = BStr::new("file:/x");
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut fights = Fights::default();
        for second in [0, 10, 20] {
            assert_eq!(fights.judge(id, LIMIT, at(second)), Verdict::Repair);
            fights.repaired(id, Some(DEFINITION), at(second));
        }
        assert_eq!(fights.next(), None);
        assert_eq!(fights.judge(id, LIMIT, at(30)), Verdict::Stop(at(3630)));
        assert_eq!(fights.judge(id, LIMIT, at(3000)), Verdict::LeftAlone);
        assert_eq!(fights.judge("file:/y".into(), LIMIT, at(30)), Verdict::Repair);
        assert_eq!(fights.next(), Some(at(3630)));
        assert_eq!(fights.release(at(3630)), [id]);
        assert_eq!(fights.next(), None);
        assert_eq!(fights.judge(id, LIMIT, at(3630)), Verdict::Repair);
    }

    #[test]
    fn changed_definition_resets_repairs() {
        let (changed, same, gone) = (BStr::new("file:/x"), BStr::new("file:/y"), BStr::new("file:/z"));
        let now = Instant::now();
        let mut fights = Fights::default();
        for id in [changed, same, gone] {
            (0..3).for_each(|_| fights.repaired(id, Some(DEFINITION), now));
            assert!(matches!(fights.judge(id, LIMIT, now), Verdict::Stop(_)), "{id}");
        }
        let definitions = [(changed.to_owned(), Fingerprint::for_test(2)), (same.to_owned(), DEFINITION)];
        fights.forget_unless(&definitions.into());
        assert_eq!([changed, same, gone].map(|id| fights.is_left_alone(id, now)), [false, true, false]);
        assert_eq!(fights.judge(changed, LIMIT, now), Verdict::Repair);
    }

    #[test]
    fn old_repairs_do_not_count() {
        let id = BStr::new("file:/x");
        let begin = Instant::now();
        let mut fights = Fights::default();
        for minutes in (0..100).step_by(6) {
            let now = begin + Duration::from_secs(minutes * 60);
            assert_eq!(fights.judge(id, LIMIT, now), Verdict::Repair, "after {minutes} min");
            fights.repaired(id, Some(DEFINITION), now);
        }
    }

    #[test]
    fn limit_longer_than_an_hour_extends_the_pause() {
        let id = BStr::new("file:/x");
        let begin = Instant::now();
        let at = |hours: u64| begin + Duration::from_secs(hours * 3600);
        let limit = Limit { times: 2, within: Duration::from_secs(24 * 3600) };
        let mut fights = Fights::default();
        for hour in [0, 2, 5] {
            fights.repaired(id, Some(DEFINITION), at(hour));
        }
        // Two of the three count: the third was made by a manual apply.
        assert_eq!(fights.judge(id, limit, at(6)), Verdict::Stop(at(26)));
        assert_eq!(fights.release(at(25)), [""; 0]);
        assert_eq!(fights.judge(id, limit, at(26)), Verdict::Repair);
    }
}

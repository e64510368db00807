//! Rounds of health checks, between complete runs and in parallel with the watch: `holo health` makes no changes and
//! needs no lock.
//!
//! After each complete run, all entities are checked, then only those with health checks. If there are none, the next
//! round is after the next complete run.

use super::{Daemon, unexpected};
use crate::agenda::retry_after;
use crate::child::{ChildEvent, ChildId, Ended, Running, Task};
use crate::service::{Level, say};
use holo_events::{HealthState, Line};
use holo_process::Status;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// The timeout for a round.
const LIMIT: Duration = Duration::from_secs(10 * 60);
/// The timeout for a round to terminate.
const TIME_TO_END: Duration = Duration::from_secs(10);
/// The maximum number of entities in a command line; if there are more, all are checked.
const MOST_NAMED: usize = 1000;

/// The health of an entity, as reported by a round.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) entity: String,
    pub(super) state: HealthState,
    pub(super) text: Option<String>,
    requires: BTreeSet<String>,
}

/// The rounds of health checks.
#[derive(Default)]
pub(super) struct HealthRounds {
    round: Option<Round>,
    /// The time of the next round.
    next: Option<Instant>,
    /// The entities with health checks, with those that each requires; `None` until all entities have been checked.
    checked: Option<BTreeMap<String, BTreeSet<String>>>,
    /// The number of consecutive failed rounds.
    failures: u32,
    pub(super) repairs: Repairs,
}

struct Round {
    id: ChildId,
    child: Box<dyn Running>,
    /// The deadline; `None` after the child was killed.
    limit: Option<Instant>,
    /// True if its result is obsolete.
    is_abandoned: bool,
    is_whole: bool,
    found: Vec<Found>,
    /// The exit code that it has reported.
    exit_code: Option<u8>,
    error: Option<String>,
}

impl HealthRounds {
    pub(super) fn is(&self, id: ChildId) -> bool {
        self.round.as_ref().is_some_and(|round| round.id == id)
    }

    pub(super) fn is_running(&self) -> bool {
        self.round.is_some()
    }

    /// Returns true if the last round failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Schedules a round for all entities immediately.
    pub(super) fn look_at_all(&mut self, now: Instant) {
        self.checked = None;
        self.next = Some(now);
    }

    /// Schedules the next round.
    pub(super) fn look_again(&mut self, at: Instant) {
        self.next = Some(at);
    }

    /// Terminates the current round and discards its result, because the system is about to change.
    pub(super) fn abandon(&mut self, now: Instant) {
        self.next = None;
        if let Some(round) = self.round.as_mut().filter(|round| !round.is_abandoned) {
            round.is_abandoned = true;
            round.limit = Some(now + TIME_TO_END);
            round.child.end();
        }
    }

    /// Kills a round after its deadline.
    pub(super) fn kill_if_late(&mut self, now: Instant) {
        let Some(round) = &mut self.round else { return };
        if round.limit.take_if(|limit| *limit <= now).is_some() {
            round.child.kill();
        }
    }

    /// Returns true if a round is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.round.is_none() && self.next.is_some_and(|next| next <= now)
    }

    /// Returns the time of the next action.
    pub(super) fn next_wake(&self, may_begin: bool) -> Option<Instant> {
        match &self.round {
            Some(round) => round.limit,
            None => self.next.filter(|_| may_begin),
        }
    }

    /// Returns the entities to check; empty for all.
    fn named(&self) -> Vec<String> {
        let checked = self.checked.as_ref().filter(|checked| checked.len() <= MOST_NAMED);
        checked.map(|checked| checked.keys().cloned().collect()).unwrap_or_default()
    }

    /// Records a failed round, and returns the delay before the next one.
    fn failed(&mut self, now: Instant, interval: Duration) -> Duration {
        self.failures += 1;
        // The set of entities may have changed.
        self.checked = None;
        let wait = interval.max(retry_after(self.failures));
        self.next = Some(now + wait);
        wait
    }

    /// Processes the result of a round. Critical entities become due for an apply.
    fn take(&mut self, round: &Round, is_once: bool, now: Instant, interval: Duration) {
        self.failures = 0;
        if round.is_whole {
            let checks = round.found.iter().map(|found| (found.entity.clone(), found.requires.clone()));
            self.checked = Some(checks.collect());
        }
        self.next = (!round.found.is_empty()).then(|| now + interval);
        for Found { entity, state, .. } in &round.found {
            if *state == HealthState::Critical {
                let requires = self.checked.as_ref().and_then(|checked| checked.get(entity)).cloned();
                self.repairs.want(entity, &requires.unwrap_or_default(), is_once, now);
            }
        }
    }
}

impl Round {
    fn hear(&mut self, line: &Line<'_>) {
        match line {
            Line::Health { id, state, text, requires, .. } => self.found.push(Found {
                entity: id.to_string(),
                state: *state,
                text: text.as_ref().map(ToString::to_string),
                requires: requires.iter().map(ToString::to_string).collect(),
            }),
            Line::Error { text, .. } => self.error = Some(text.to_string()),
            Line::Summary { exit_code, .. } => self.exit_code = Some(*exit_code),
            _ => {}
        }
    }

    /// Returns the reason why a round has no result.
    fn failure(&self, ended: &Ended) -> Option<String> {
        let has_answer = matches!(self.exit_code, Some(0 | 1));
        let status = || ended.status.map_or_else(|| "it is lost".to_owned(), Status::in_words);
        let said = || ended.diagnostics.lines().last().filter(|line| !line.is_empty()).map(str::to_owned);
        (!has_answer).then(|| self.error.clone().or_else(said).unwrap_or_else(status))
    }
}

impl Daemon<'_> {
    pub(super) fn begin_health_round(&mut self) {
        let entities = self.health.named();
        let (is_whole, now) = (entities.is_empty(), Instant::now());
        let (id, child) = self.start(&Task::Health { entities });
        match child {
            Ok(child) => {
                let (found, limit) = (Vec::new(), Some(now + LIMIT));
                let round =
                    Round { id, child, limit, is_abandoned: false, is_whole, found, exit_code: None, error: None };
                self.health.next = None;
                self.health.round = Some(round);
            }
            Err(error) => self.health_failed(&error.to_string()),
        }
    }

    pub(super) fn hear_health(&mut self, said: ChildEvent) {
        match said {
            ChildEvent::Line(line) => self.health.round.iter_mut().for_each(|round| round.hear(&line)),
            ChildEvent::News(_) => {}
            ChildEvent::Garbage(text) => unexpected(&text),
            ChildEvent::Ended(ended) => {
                if let Some(round) = self.health.round.take().filter(|round| !round.is_abandoned) {
                    self.finish_health_round(round, &ended);
                }
            }
        }
    }

    fn finish_health_round(&mut self, round: Round, ended: &Ended) {
        if let Some(failure) = round.failure(ended) {
            self.health_failed(&failure);
            return;
        }
        if let Some(error) = round.error.as_ref().filter(|_| round.is_whole) {
            say(Level::Warning, format_args!("holo health: {error}"));
        }
        // If a plugin has failed, its entities keep their previous state.
        let is_complete = round.is_whole && round.error.is_none();
        self.health.take(&round, self.is_once, Instant::now(), self.config.health_interval);
        if round.is_whole {
            self.registry.is_checked();
        }
        let news = self.known.learn_health(round.found, is_complete, self.clock.now());
        let states = self.known.health.iter().map(|(entity, health)| (entity, health.state));
        self.outlets.metrics.set_health(states);
        self.publish(news);
    }

    fn health_failed(&mut self, reason: &str) {
        let wait = self.health.failed(Instant::now(), self.config.health_interval);
        say(Level::Error, format_args!("holo health: {reason}; it is tried again in {wait:?}"));
    }
}

/// The time for which an apply is not tried again after holo has left an entity alone, unless a complete run says
/// otherwise.
const PAUSE: Duration = Duration::from_secs(60 * 60);

/// The applies of critical entities. holo counts them, together with other repairs.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    /// The entities to apply: critical ones, and those that they require.
    due: BTreeSet<String>,
    critical: BTreeSet<String>,
    /// The entities that were repaired too often, and the time until which they are not applied.
    left_alone: BTreeMap<String, Instant>,
}

impl Repairs {
    /// Schedules an apply of a critical entity, and of those that it requires, unless it is left alone. An agent that ends
    /// after one round applies an entity only once.
    pub(super) fn want(&mut self, entity: &str, requires: &BTreeSet<String>, is_once: bool, now: Instant) {
        if self.left_alone.get(entity).is_some_and(|until| *until > now) {
            return;
        }
        self.critical.insert(entity.to_owned());
        self.due.insert(entity.to_owned());
        self.due.extend(requires.iter().cloned());
        if is_once {
            self.left_alone.insert(entity.to_owned(), now + PAUSE);
        }
    }

    /// Notes which entities a run has left alone because they were repaired too often.
    pub(super) fn are_left_alone(&mut self, entities: impl Iterator<Item = String>, is_whole: bool, now: Instant) {
        if is_whole {
            self.left_alone.clear();
        }
        self.left_alone.extend(entities.map(|entity| (entity, now + PAUSE)));
    }

    /// Returns true if applies are due.
    pub(super) fn are_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes the entities to apply, and the critical ones among them.
    pub(super) fn take(&mut self) -> (Vec<String>, Vec<String>) {
        let Repairs { due, critical, .. } = self;
        [due, critical].map(|entities| std::mem::take(entities).into_iter().collect()).into()
    }
}

#[cfg(test)]
mod repairs_tests {
    use super::*;

    #[test]
    fn what_holo_leaves_alone_is_tried_again_after_an_hour_or_a_complete_run() {
        let begun = Instant::now();
        let (mut repairs, requires) = (Repairs::default(), BTreeSet::from(["package:x".to_owned()]));
        let mut applied = Vec::new();
        for minute in 0..200 {
            let now = begun + Duration::from_secs(60 * minute);
            repairs.want("service:x", &requires, false, now);
            if repairs.are_due() {
                let due = ["package:x", "service:x"].map(str::to_owned).into();
                assert_eq!(repairs.take(), (due, vec!["service:x".to_owned()]));
                applied.push(minute);
                // The third one says so.
                if applied.len() > 2 {
                    repairs.are_left_alone(["service:x".to_owned()].into_iter(), false, now);
                }
            }
            if minute == 150 {
                repairs.are_left_alone([].into_iter(), true, now);
            }
        }
        assert_eq!(applied, [0, 1, 2, 62, 122, 151]);
    }
}

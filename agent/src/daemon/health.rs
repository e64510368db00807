//! Rounds of health checks, between whole runs and beside the watch: `holo health` changes nothing, and needs no lock.
//!
//! After each whole run, all entities are asked; then only those that have checks. If there are none, there is no other round before the
//! next whole run.

use super::Daemon;
use super::repairs::Repairs;
use crate::agenda::retry_after;
use crate::child::{ChildId, Ended, Running, Said, Task};
use crate::journal::{Level, say};
use holo_events::{HealthState, Line};
use holo_process::Status;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// The time that a round may take.
const LIMIT: Duration = Duration::from_secs(10 * 60);
/// The time that a round has to end which was asked to.
const TIME_TO_END: Duration = Duration::from_secs(10);
/// The number of entities that a command line names at most; otherwise all are asked.
const MOST_NAMED: usize = 1000;

/// The health of an entity, as a round has found it.
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
    /// The time of the next one.
    next: Option<Instant>,
    /// The entities that have checks, with what each requires; nothing until all have been asked.
    checked: Option<BTreeMap<String, BTreeSet<String>>>,
    /// The number of rounds in a row that have failed.
    failures: u32,
    pub(super) repairs: Repairs,
}

struct Round {
    id: ChildId,
    child: Box<dyn Running>,
    /// The time at which it is killed; none once that was done.
    limit: Option<Instant>,
    /// True if its answer is not wanted any more.
    is_abandoned: bool,
    is_whole: bool,
    found: Vec<Found>,
    /// The exit code that it has announced.
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

    /// Returns true if the last round could not be done.
    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Has the next round ask for all entities, at once.
    pub(super) fn look_at_all(&mut self, now: Instant) {
        self.checked = None;
        self.next = Some(now);
    }

    /// Has the next round at a time.
    pub(super) fn look_again(&mut self, at: Instant) {
        self.next = Some(at);
    }

    /// Asks the round that is at work to end, and does not want its answer: what it looks at is about to change.
    pub(super) fn abandon(&mut self, now: Instant) {
        self.next = None;
        if let Some(round) = self.round.as_mut().filter(|round| !round.is_abandoned) {
            round.is_abandoned = true;
            round.limit = Some(now + TIME_TO_END);
            round.child.end();
        }
    }

    /// Ends a round that takes too long.
    pub(super) fn kill_if_late(&mut self, now: Instant) {
        let Some(round) = &mut self.round else { return };
        if round.limit.take_if(|limit| *limit <= now).is_some() {
            round.child.kill();
        }
    }

    /// Returns true if a round is to begin.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.round.is_none() && self.next.is_some_and(|next| next <= now)
    }

    /// Returns the time at which there is something to do about it.
    pub(super) fn next_wake(&self, may_begin: bool) -> Option<Instant> {
        match &self.round {
            Some(round) => round.limit,
            None => self.next.filter(|_| may_begin),
        }
    }

    /// Returns the entities to be asked; all if there are none.
    fn named(&self) -> Vec<String> {
        let checked = self.checked.as_ref().filter(|checked| checked.len() <= MOST_NAMED);
        checked.map(|checked| checked.keys().cloned().collect()).unwrap_or_default()
    }

    /// Notes that a round could not be done, and returns the time until the next one.
    fn failed(&mut self, now: Instant, interval: Duration) -> Duration {
        self.failures += 1;
        // There may be other entities than before.
        self.checked = None;
        let wait = interval.max(retry_after(self.failures));
        self.next = Some(now + wait);
        wait
    }

    /// Takes the answer of a round. What is critical is to be applied.
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
            } else {
                self.repairs.forget(entity);
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

    /// Returns the reason for which it has no answer.
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

    pub(super) fn hear_health(&mut self, said: Said) {
        match said {
            Said::Line(line) => self.health.round.iter_mut().for_each(|round| round.hear(&line)),
            Said::Garbage(text) => say(Level::Warning, format_args!("holo health said what is {text}")),
            Said::Ended(ended) => {
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
        // Of a plugin that has failed, what was known before goes on to count.
        let is_complete = round.is_whole && round.error.is_none();
        self.health.take(&round, self.is_once, Instant::now(), self.config.health_interval);
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

//! A complete run, from its start to its event.

use super::TIME_TO_END;
use super::known::Troubles;
use crate::child::{ChildId, Ended, Running, Task};
use crate::event::{DefinitionError, RunEvent, RunResult};
use crate::metrics::{Outcomes, outcome_name};
use crate::report::TroubleKind;
use crate::request::Answer;
use holo_events::{Line, Outcome, Refusal, Stream, Tally, Writer};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The maximum number of failed entities named in an event.
const NAMED: usize = 100;

/// A complete run in progress.
pub(super) struct CurrentRun {
    pub(super) id: ChildId,
    /// `None` if a watch does it.
    pub(super) child: Option<Box<dyn Running>>,
    pub(super) verb: &'static str,
    /// True if a watch has begun to do it.
    pub(super) has_begun: bool,
    /// The entities to apply; empty for all.
    entities: Vec<String>,
    pub(super) began: Timestamp,
    since: Instant,
    /// The time at which it was asked to terminate.
    ending: Option<Instant>,
    is_late: bool,
    is_killed: bool,
    run: Option<String>,
    tally: Tally,
    exit_code: Option<u8>,
    /// The reason why it could not begin, or ended early.
    pub(super) error: Option<String>,
    busy: Option<Writer<'static>>,
    refreshes_due: usize,
    generation: Option<u32>,
    outcomes: Outcomes,
    troubles: Troubles,
    /// The entities that are left alone because they were repaired too often, with the reasons in words.
    left_alone: BTreeMap<String, String>,
    /// The clients that wait for its result.
    clients: Vec<oneshot::Sender<Answer>>,
}

/// A finished complete run.
pub(super) struct Finished {
    pub(super) event: RunEvent,
    pub(super) outcomes: Outcomes,
    pub(super) troubles: Troubles,
    pub(super) left_alone: BTreeMap<String, String>,
    pub(super) clients: Vec<oneshot::Sender<Answer>>,
}

impl CurrentRun {
    pub(super) fn new(id: ChildId, task: &Task, began: Timestamp, clients: Vec<oneshot::Sender<Answer>>) -> CurrentRun {
        let entities = match task {
            Task::Apply { entities, .. } => entities.clone(),
            _ => Vec::new(),
        };
        let seen = (!entities.is_empty()).then(BTreeSet::new);
        CurrentRun {
            id,
            child: None,
            verb: task.verb(),
            has_begun: false,
            entities,
            began,
            since: Instant::now(),
            ending: None,
            is_late: false,
            is_killed: false,
            run: None,
            tally: Tally::default(),
            exit_code: None,
            error: None,
            busy: None,
            outcomes: Outcomes::new(),
            refreshes_due: 0,
            generation: None,
            troubles: Troubles { seen, ..Troubles::default() },
            left_alone: BTreeMap::new(),
            clients,
        }
    }

    /// Processes a line of its output.
    pub(super) fn hear(&mut self, line: &Line<'_>) {
        match line {
            Line::End { id, plugin, result, reason, would_change, refused, .. } => {
                *self.outcomes.entry((plugin.to_string(), outcome_name(*result))).or_default() += 1;
                let entity = id.to_string();
                self.troubles.seen.iter_mut().for_each(|seen| seen.extend([entity.clone()]));
                match result {
                    Outcome::Failed => {
                        let reason = reason.as_ref().map(ToString::to_string);
                        let reason = reason.or_else(|| self.troubles.last_error(&entity));
                        self.troubles.failed.insert(entity, reason);
                    }
                    Outcome::Pending => {
                        let reason = would_change.first().or(reason.as_ref()).map(ToString::to_string);
                        let reason = reason.or_else(|| self.troubles.last_error(&entity));
                        match self.left_alone.get(&entity) {
                            Some(reason) => drop(self.troubles.failed.insert(entity, Some(reason.clone()))),
                            None => drop(self.troubles.drifted.insert(entity, (TroubleKind::Drifted, reason))),
                        }
                    }
                    Outcome::Refused => {
                        let (kind, reason) = refusal(refused);
                        let reason = reason.or_else(|| self.troubles.last_error(&entity));
                        self.troubles.drifted.insert(entity, (kind, reason));
                    }
                    // It was refreshed nevertheless.
                    Outcome::Changed => drop(self.left_alone.remove(&entity)),
                    Outcome::Unchanged | Outcome::Skipped => {}
                }
            }
            Line::Failed { id, reason } => {
                self.left_alone.insert(id.to_string(), reason.to_string());
            }
            Line::Error { id: Some(id), text } => {
                self.troubles.error = Some((id.to_string(), text.to_string()));
            }
            // A plugin may print the reason itself.
            Line::Output { id: Some(id), stream: Stream::Stderr, text } => {
                let text = text.to_string();
                let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
                if let Some(last) = last {
                    let last = last.strip_prefix("!! ").unwrap_or(last).to_owned();
                    self.troubles.error = Some((id.to_string(), last));
                }
            }
            Line::Error { id: None, text } => {
                self.troubles.definition_errors.extend(DefinitionError::parse(&text.to_string()));
            }
            Line::Summary { run, tally, refreshes_due, generation, exit_code, error, busy, .. } => {
                self.busy = busy.clone().map(Writer::into_owned);
                (self.refreshes_due, self.generation) = (*refreshes_due, *generation);
                self.run = run.as_ref().map(ToString::to_string);
                self.tally = tally.unwrap_or_default();
                self.exit_code = Some(*exit_code);
                self.error = error.as_ref().map(ToString::to_string);
            }
            _ => {}
        }
    }

    /// Asks it to terminate.
    pub(super) fn end(&mut self, now: Instant) {
        if self.ending.is_none() {
            self.ending = Some(now);
            self.child.iter().for_each(|child| child.end());
        }
    }

    /// Asks it to terminate after the timeout, and kills it if it does not. Returns true if it was asked to terminate.
    pub(super) fn end_if_late(&mut self, now: Instant, limit: Duration) -> bool {
        if now >= self.since + limit && self.ending.is_none() {
            self.is_late = true;
            self.end(now);
        }
        if self.ending.is_some_and(|at| now >= at + TIME_TO_END) && !self.is_killed {
            self.is_killed = true;
            self.child.iter().for_each(|child| child.kill());
        }
        self.ending.is_some()
    }

    /// Returns the time of the next timeout.
    pub(super) fn next_wake(&self, limit: Duration) -> Option<Instant> {
        let end = self.ending.map_or(self.since + limit, |at| at + TIME_TO_END);
        (!self.is_killed).then_some(end)
    }

    /// Returns its result. `ended` is `None` if it could not be started.
    pub(super) fn finish(self, ended: Option<&Ended>) -> Finished {
        let exit_code = ended.and_then(|ended| ended.status?.code());
        let result = self.result(exit_code);
        let error = match result {
            RunResult::Interrupted if self.is_late => Some("it took too long".to_owned()),
            RunResult::Error => self.error.clone().or_else(|| ended.map(how_it_died)),
            RunResult::Busy => {
                self.busy.as_ref().map(|holder| format!("{holder} holds the lock")).or_else(|| self.error.clone())
            }
            _ => self.error.clone().or_else(|| self.first_trouble(result)),
        };
        let event = RunEvent {
            run: self.run,
            verb: self.verb.to_owned(),
            entities: self.entities,
            result,
            began: self.began,
            duration: (self.since.elapsed().as_secs_f64() * 1000.0).round() / 1000.0,
            exit_code,
            tally: self.tally,
            refreshes_due: self.refreshes_due,
            generation: self.generation,
            failed: self.troubles.failed.keys().take(NAMED).cloned().collect(),
            error,
            busy: self.busy,
        };
        Finished {
            event,
            outcomes: self.outcomes,
            troubles: self.troubles,
            left_alone: self.left_alone,
            clients: self.clients,
        }
    }

    /// Returns the first reason for which a run has failed or was refused.
    fn first_trouble(&self, result: RunResult) -> Option<String> {
        let Troubles { definition_errors, failed, drifted, .. } = &self.troubles;
        let of_entity = |(entity, reason): (&String, &Option<String>)| match reason {
            Some(reason) => format!("{entity}: {reason}"),
            None => entity.clone(),
        };
        let mut refused = drifted.iter().filter(|(_, (kind, _))| *kind != TroubleKind::Drifted);
        match result {
            RunResult::Failed => {
                let error = definition_errors.first().map(ToString::to_string);
                error.or_else(|| failed.iter().next().map(of_entity))
            }
            RunResult::Refused => refused.next().map(|(entity, (_, reason))| of_entity((entity, reason))),
            _ => None,
        }
    }

    fn result(&self, exit_code: Option<i32>) -> RunResult {
        let Tally { changed, pending, refused, failed, .. } = self.tally;
        if self.ending.is_some() && exit_code != Some(0) {
            return RunResult::Interrupted;
        }
        if self.busy.is_some() {
            return RunResult::Busy;
        }
        // Without a summary it has crashed, and with another exit status than in the summary it is not the real holo.
        let is_flawed = !self.troubles.definition_errors.is_empty();
        let is_whole = self.exit_code.is_some() && self.exit_code.map(i32::from) == exit_code;
        match exit_code {
            Some(0) if is_whole && changed > 0 => RunResult::Changed,
            Some(0) if is_whole => RunResult::Unchanged,
            Some(3) if is_whole => RunResult::Pending,
            Some(1) if is_whole && failed == 0 && refused + pending > 0 && !is_flawed => RunResult::Refused,
            Some(1) if is_whole => RunResult::Failed,
            _ => RunResult::Error,
        }
    }
}

/// Returns the kind of problem of a refused entity, and the reason.
fn refusal(refused: &[Refusal<'_>]) -> (TroubleKind, Option<String>) {
    let kind = match refused.first() {
        Some(Refusal::Overwrite | Refusal::Restore) => TroubleKind::Edited,
        Some(Refusal::Other { .. }) | None => TroubleKind::Refused,
    };
    (kind, refused.first().map(ToString::to_string))
}

/// Describes the end of a holo that did not report it itself.
fn how_it_died(ended: &Ended) -> String {
    let status = ended.status.map_or_else(|| "it is lost".to_owned(), holo_process::Status::in_words);
    let said = ended.diagnostics.lines().last().unwrap_or_default();
    if said.is_empty() { status } else { format!("{status}: {said}") }
}

/// Describes a finished run on one line.
pub(crate) fn in_words(event: &RunEvent) -> String {
    let RunEvent { verb, result, tally, duration, error, run, .. } = event;
    let run = run.as_ref().map(|run| format!(" {run}")).unwrap_or_default();
    match (result, error) {
        (RunResult::Error | RunResult::Busy, Some(error)) => format!("{verb}{run} could not be done: {error}"),
        (RunResult::Interrupted, Some(error)) => format!("{verb}{run} was ended after {duration:.1}s: {error}"),
        (_, Some(error)) => format!("{verb}{run} {}: {tally} in {duration:.1}s: {error}", result.name()),
        _ => format!("{verb}{run} {}: {tally} in {duration:.1}s", result.name()),
    }
}

//! The start and end of runs, of all entities or critical ones, and of those that a previous agent has started.

use super::run::{self, CurrentRun};
use super::{Daemon, Task, unexpected};
use crate::agenda::retry_after;
use crate::child::{ChildEvent, ChildId, Ended, Running, TRIGGER};
use crate::event::{RunEvent, RunResult, What};
use crate::request::Answer;
use crate::service::{Level, say};
use holo_events::{Line, RunLine, Tally};
use jiff::Timestamp;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

impl Daemon<'_> {
    /// Begins a complete run.
    pub(super) fn begin_run(&mut self) {
        // The machine may have been suspended since.
        self.look_at_window(Instant::now());
        let requested = self.requested.take();
        // Runs begin at least half an interval apart, see `Rhythm::until_next`. The single run of an agent has no rhythm.
        let time = if self.is_once { Duration::ZERO } else { self.config.interval / 2 };
        let unattended = Some(time).filter(|_| requested.is_none());
        let task = if self.may_change() {
            Task::Apply { entities: Vec::new(), critical: Vec::new(), unattended }
        } else {
            Task::Check
        };
        // The complete run applies these too.
        self.health.repairs.take();
        self.begin(&task, requested.unwrap_or_default());
    }

    /// Applies the critical entities and those that they require.
    pub(super) fn begin_repairs(&mut self) {
        let (entities, critical) = self.health.repairs.take();
        let unattended = Some(self.config.interval / 2);
        self.begin(&Task::Apply { entities, critical, unattended }, Vec::new());
    }

    fn begin(&mut self, task: &Task, clients: Vec<oneshot::Sender<Answer>>) {
        self.health.abandon(Instant::now());
        let began = self.clock.now();
        // Before it begins, so that no run is lost in a crash.
        self.last.set_begun(Some(began));
        if let Some(watch) = self.watch.ask(&task.arguments()) {
            self.run = Some(CurrentRun::new(watch, task, began, clients));
            return;
        }
        let (id, child) = self.start(task);
        let mut run = CurrentRun::new(id, task, began, clients);
        match child {
            Ok(child) => {
                run.child = Some(child);
                self.run = Some(run);
            }
            Err(error) => {
                run.error = Some(error.to_string());
                self.finish(run.finish(None));
            }
        }
    }

    pub(super) fn hear_run(&mut self, said: ChildEvent) {
        match said {
            ChildEvent::Line(line) => self.run.iter_mut().for_each(|run| run.hear(&line)),
            ChildEvent::News(_) => {}
            ChildEvent::Garbage(text) => unexpected(&text),
            ChildEvent::Ended(ended) => self.end_run(&ended),
        }
    }

    pub(super) fn end_run(&mut self, ended: &Ended) {
        if let Some(run) = self.run.take() {
            self.finish(run.finish(Some(ended)));
        }
    }

    /// Processes a run that has ended, or could not begin.
    fn finish(&mut self, ended: run::Finished) {
        let run::Finished { event, outcomes, troubles, left_alone, clients } = ended;
        say(if event.result.is_good() { Level::Info } else { Level::Error }, run::in_words(&event));
        if event.result.is_complete() {
            self.outlets.metrics.set_standing(&event);
            if event.entities.is_empty() {
                self.outlets.metrics.set_entities(&outcomes);
            }
            for (entity, reason) in &left_alone {
                say(Level::Error, format_args!("{entity}: {reason}"));
            }
            self.health.repairs.are_left_alone(left_alone.into_keys(), event.entities.is_empty(), Instant::now());
            let news = self.known.learn(troubles, self.clock.now());
            self.publish(news);
        }
        self.are_runs_good &= event.result.is_good();
        if event.entities.is_empty() {
            self.end_whole_run(&event);
        } else {
            let wait = if self.is_once { Duration::ZERO } else { self.config.health_interval };
            self.health.look_again(Instant::now() + wait);
        }
        self.publish(vec![What::Run(Box::new(event.clone()))]);
        // After the event, as the run will not be queried any more.
        self.last.set_recorded();
        for client in clients {
            // The client may have disconnected.
            let _ = client.send(Answer::Run(Box::new(event.clone())));
        }
    }

    /// Records a finished complete run, and schedules the next one.
    fn end_whole_run(&mut self, event: &RunEvent) {
        let now = self.clock.now();
        self.outlets.metrics.ran(event, now);
        self.last.ended(event, now);
        self.last.good().iter().for_each(|good| self.outlets.metrics.set_last_good(*good));
        let mut wait = self.rhythm.until_next(now, Some(event.began), self.config.interval);
        self.failures = if matches!(event.result, RunResult::Error | RunResult::Busy) { self.failures + 1 } else { 0 };
        if self.failures > 0 {
            // A manual apply may hold the lock, or a package may be being replaced.
            wait = wait.min(retry_after(self.failures + 4));
        }
        self.next_run = Instant::now() + if self.requested.is_some() { Duration::ZERO } else { wait };
        self.has_run = true;
        self.health.look_at_all(Instant::now());
    }

    /// Queries holo for the result of a run that a previous agent has started.
    pub(super) fn begin_to_catch_up(&mut self) {
        let Some(begun) = self.last.begun() else { return };
        let (id, child) = self.start(&Task::History { since: begun });
        match child {
            Ok(child) => self.catch_up = Some(CatchUp::new(id, child, begun)),
            Err(error) => {
                say(Level::Error, format_args!("holo history: {error}"));
                self.caught_up(CatchUp::unknown(begun));
            }
        }
    }

    pub(super) fn hear_history(&mut self, said: ChildEvent) {
        match said {
            ChildEvent::Line(line) => self.catch_up.iter_mut().for_each(|catch_up| catch_up.hear(&line)),
            ChildEvent::News(_) => {}
            ChildEvent::Garbage(text) => unexpected(&text),
            ChildEvent::Ended(_) => match self.catch_up.take().and_then(CatchUp::finish) {
                Some(runs) => self.caught_up(runs),
                // The run is in progress, and holds the lock.
                None => self.next_run = Instant::now() + LOOK_AGAIN,
            },
        }
    }

    fn caught_up(&mut self, runs: Vec<RunEvent>) {
        self.publish(runs.into_iter().map(|run| What::Run(Box::new(run))).collect());
        self.last.set_begun(None);
    }
}

/// The interval for checking a run that is still in progress.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The timeout for reading the records.
const LIMIT: Duration = Duration::from_secs(5 * 60);

/// A query of the records.
pub(super) struct CatchUp {
    pub(super) id: ChildId,
    child: Box<dyn Running>,
    /// The start time of the run.
    begun: Timestamp,
    runs: Vec<RunEvent>,
    is_running: bool,
    /// The deadline; `None` after the child was killed.
    limit: Option<Instant>,
}

impl CatchUp {
    pub(super) fn new(id: ChildId, child: Box<dyn Running>, begun: Timestamp) -> CatchUp {
        let limit = Some(Instant::now() + LIMIT);
        CatchUp { id, child, begun, runs: Vec::new(), is_running: false, limit }
    }

    pub(super) fn hear(&mut self, line: &Line<'_>) {
        let Line::Run(run) = line else { return };
        // Watches also have records of their repairs, which they have already reported.
        let is_ours = run.trigger.as_ref().is_some_and(|trigger| trigger.to_string() == TRIGGER);
        if !is_ours || run.command.get(1).is_none_or(|verb| verb.to_string() != "apply") {
            return;
        }
        match event(run, self.begun) {
            Some(event) => self.runs.push(event),
            None => self.is_running = true,
        }
    }

    /// Kills the child after the deadline.
    pub(super) fn kill_if_late(&mut self, now: Instant) {
        if self.limit.take_if(|limit| *limit <= now).is_some() {
            self.child.kill();
        }
    }

    /// Returns the deadline.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.limit
    }

    pub(super) fn end(&self) {
        self.child.end();
    }

    /// Returns the runs, oldest first; `None` if one is still in progress.
    pub(super) fn finish(mut self) -> Option<Vec<RunEvent>> {
        if self.is_running {
            return None;
        }
        self.runs.reverse();
        Some(if self.runs.is_empty() { CatchUp::unknown(self.begun) } else { self.runs })
    }

    /// Returns the event for a run without a record.
    pub(super) fn unknown(begun: Timestamp) -> Vec<RunEvent> {
        vec![RunEvent {
            run: None,
            verb: "apply".to_owned(),
            entities: Vec::new(),
            result: RunResult::Interrupted,
            began: begun,
            duration: 0.0,
            exit_code: None,
            tally: Tally::default(),
            refreshes_due: 0,
            generation: None,
            failed: Vec::new(),
            busy: None,
            error: Some("the agent has ended while it was at work, and it has changed nothing since".to_owned()),
        }]
    }
}

/// Returns the event for a recorded run; `None` if it is still in progress.
fn event(run: &RunLine<'_>, begun: Timestamp) -> Option<RunEvent> {
    let result = match &*run.result {
        "running" => return None,
        "unchanged" => RunResult::Unchanged,
        "changed" => RunResult::Changed,
        "pending" => RunResult::Pending,
        "refused" => RunResult::Refused,
        "interrupted" => RunResult::Interrupted,
        _ => RunResult::Failed,
    };
    Some(RunEvent {
        run: Some(run.run.to_string()),
        verb: "apply".to_owned(),
        // The arguments follow `holo apply --json`.
        entities: run.command.iter().skip(3).map(ToString::to_string).filter(|word| !word.starts_with('-')).collect(),
        result,
        began: run.time.as_ref().and_then(|time| time.parse().ok()).unwrap_or(begun),
        duration: run.duration.unwrap_or_default(),
        exit_code: run.exit_code.map(i32::from),
        tally: run.tally,
        refreshes_due: 0,
        generation: None,
        failed: Vec::new(),
        error: run.error.as_ref().map(ToString::to_string),
        busy: None,
    })
}

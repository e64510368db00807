//! The start and end of runs, of all entities or critical ones, and of those that a previous agent has started.

use super::catch_up::{self, CatchUp};
use super::run::{self, CurrentRun};
use super::{Daemon, Task};
use crate::agenda::retry_after;
use crate::child::ChildEvent;
use crate::event::{RunEvent, RunResult, What};
use crate::service::{Level, say};
use std::time::Duration;
use tokio::time::Instant;

impl Daemon<'_> {
    /// Begins a complete run.
    pub(super) fn begin_run(&mut self) {
        // The machine may have been suspended since.
        self.look_at_window(Instant::now());
        let task = if self.may_change() { Task::Apply { entities: Vec::new() } } else { Task::Check };
        // The complete run applies these too.
        self.health.repairs.take();
        self.begin(&task);
    }

    /// Applies the critical entities and those that they require.
    pub(super) fn begin_repairs(&mut self) {
        let entities = self.health.repairs.take();
        self.begin(&Task::Apply { entities });
    }

    fn begin(&mut self, task: &Task) {
        self.health.abandon(Instant::now());
        let began = self.clock.now();
        // Before it begins, so that no run is lost in a crash.
        self.last.set_begun(Some(began));
        let (id, child) = self.start(task);
        let mut run = CurrentRun::new(id, task, began);
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
            ChildEvent::Garbage(text) => say(Level::Warning, format_args!("unexpected output of holo: {text}")),
            ChildEvent::Ended(ended) => {
                if let Some(run) = self.run.take() {
                    self.finish(run.finish(Some(&ended)));
                }
            }
        }
    }

    /// Processes a run that has ended, or could not begin.
    fn finish(&mut self, ended: run::Finished) {
        let run::Finished { event, outcomes, troubles } = ended;
        say(if event.result.is_good() { Level::Info } else { Level::Error }, run::in_words(&event));
        if event.result != RunResult::Error && event.result != RunResult::Interrupted {
            self.outlets.metrics.set_standing(&event);
            if event.entities.is_empty() {
                self.outlets.metrics.set_entities(&outcomes);
            }
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
        self.publish(vec![What::Run(Box::new(event))]);
        // Last, as the run will not be queried any more.
        self.last.set_begun(None);
    }

    /// Records a finished complete run, and schedules the next one.
    fn end_whole_run(&mut self, event: &RunEvent) {
        let now = self.clock.now();
        self.outlets.metrics.ran(event, now);
        self.last.ended(event, now);
        self.last.good().iter().for_each(|good| self.outlets.metrics.set_last_good(*good));
        let mut wait = self.rhythm.until_next(now, Some(event.began), self.config.interval);
        self.failures = if event.result == RunResult::Error { self.failures + 1 } else { 0 };
        if self.failures > 0 {
            // A manual apply may hold the lock, or a package may be being replaced.
            wait = wait.min(retry_after(self.failures + 4));
        }
        self.next_run = Instant::now() + wait;
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
            ChildEvent::Garbage(text) => say(Level::Warning, format_args!("unexpected output of holo history: {text}")),
            ChildEvent::Ended(_) => match self.catch_up.take().and_then(CatchUp::finish) {
                Some(runs) => self.caught_up(runs),
                // The run is in progress, and holds the lock.
                None => self.next_run = Instant::now() + catch_up::LOOK_AGAIN,
            },
        }
    }

    fn caught_up(&mut self, runs: Vec<RunEvent>) {
        self.publish(runs.into_iter().map(|run| What::Run(Box::new(run))).collect());
        self.last.set_begun(None);
    }
}

//! The watch between complete runs: its start, end and retries.

use super::{Daemon, TIME_TO_END};
use crate::agenda::retry_after;
use crate::child::{ChildEvent, ChildId, Ended, Running, Task};
use crate::event::{WatchState, What};
use crate::service::{Level, say};
use holo_events::Line;
use holo_process::Status;
use std::time::Duration;
use tokio::time::Instant;

/// A watch that has run for this time is not considered failed when it ends.
const STEADY: Duration = Duration::from_secs(10 * 60);

/// The running watch, if any, and the time at which another one may start.
#[derive(Default)]
pub(super) struct Watch {
    running: Option<RunningWatch>,
    /// The number of consecutive watches that ended by themselves.
    failures: u32,
    /// The earliest start time of the next one.
    not_before: Option<Instant>,
    /// True if one has started since the agent has.
    has_started: bool,
    /// The reason for which the last one has ended by itself, or could not be started, if it has.
    failure: Option<String>,
    /// The reason for which nothing is watched, until a watch has checked all entities again.
    error: Option<String>,
}

struct RunningWatch {
    id: ChildId,
    child: Box<dyn Running>,
    applies: bool,
    since: Instant,
    entities: Option<usize>,
    last_error: Option<String>,
    /// The time at which it was asked to terminate.
    ending: Option<Instant>,
    is_killed: bool,
}

impl Watch {
    pub(super) fn is(&self, id: ChildId) -> bool {
        self.running.as_ref().is_some_and(|running| running.id == id)
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(super) fn is_ending(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.ending.is_some())
    }

    /// Returns true if the running watch repairs drift.
    pub(super) fn applies(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.applies)
    }

    /// Returns the number of watched entities, if known.
    pub(super) fn entities(&self) -> Option<usize> {
        self.running.as_ref()?.entities
    }

    /// Returns true if a watch has checked all entities, and waits for events.
    pub(super) fn is_up(&self) -> bool {
        self.entities().is_some() && !self.is_ending()
    }

    /// Returns the reason for which nothing is watched, if a watch has failed.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    pub(super) fn may_begin(&self, now: Instant) -> bool {
        self.running.is_none() && self.not_before.is_none_or(|at| at <= now)
    }

    pub(super) fn began(&mut self, id: ChildId, child: Box<dyn Running>, applies: bool, now: Instant) {
        self.not_before = None;
        self.running = Some(RunningWatch {
            id,
            child,
            applies,
            since: now,
            entities: None,
            last_error: None,
            ending: None,
            is_killed: false,
        });
    }

    /// Records that it could not be started, or ended by itself. Returns the delay before a retry.
    pub(super) fn failed(&mut self, reason: String, now: Instant) -> Duration {
        self.failures += 1;
        let wait = retry_after(self.failures);
        self.not_before = Some(now + wait);
        self.error = Some(reason.clone());
        self.failure = Some(reason);
        wait
    }

    /// Returns the event about a watch that has just started, if it is the first one or follows one that has failed.
    fn news_of_start(&mut self) -> Option<What> {
        let is_first = !std::mem::replace(&mut self.has_started, true);
        let state = if is_first { WatchState::Started } else { WatchState::Restarted };
        let reason = self.failure.take();
        (is_first || reason.is_some()).then_some(What::Watch { state, reason })
    }

    pub(super) fn hear(&mut self, line: &Line<'_>) {
        let Some(running) = &mut self.running else { return };
        match line {
            Line::Watching { entities } => {
                running.entities = Some(*entities);
                self.error = None;
            }
            Line::Error { id: None, text } => running.last_error = Some(text.to_string()),
            _ => {}
        }
    }

    /// Returns the reason if it has ended by itself.
    pub(super) fn ended(&mut self, ended: &Ended, now: Instant) -> Option<String> {
        let running = self.running.take()?;
        if running.ending.is_some() {
            self.failures = 0;
            return None;
        }
        if now.duration_since(running.since) >= STEADY {
            self.failures = 0;
        }
        let status = ended.status.map_or_else(|| "it is lost".to_owned(), Status::in_words);
        let said = running.last_error.or_else(|| ended.diagnostics.lines().last().map(str::to_owned));
        let said = said.map(|said| format!(": {said}")).unwrap_or_default();
        let wait = self.failed(format!("{status}{said}"), now);
        say(Level::Error, format_args!("holo watch has ended ({status}){said}; it is tried again in {wait:?}"));
        self.failure.clone()
    }

    /// Asks it to terminate.
    pub(super) fn end(&mut self, now: Instant) {
        if let Some(running) = self.running.as_mut().filter(|running| running.ending.is_none()) {
            running.ending = Some(now);
            running.child.end();
        }
    }

    /// Kills it if it was asked to terminate and the timeout is over.
    pub(super) fn kill_if_late(&mut self, now: Instant) {
        let Some(running) = &mut self.running else { return };
        if running.ending.is_some_and(|at| now >= at + TIME_TO_END) && !running.is_killed {
            running.is_killed = true;
            running.child.kill();
        }
    }

    /// Returns the time of the next action.
    pub(super) fn next_wake(&self, is_wanted: bool) -> Option<Instant> {
        match &self.running {
            Some(running) => running.ending.filter(|_| !running.is_killed).map(|at| at + TIME_TO_END),
            None => self.not_before.filter(|_| is_wanted),
        }
    }
}

impl Daemon<'_> {
    pub(super) fn watch_as_wanted(&mut self, now: Instant) {
        let apply = self.may_change();
        if self.watch.is_running() {
            if self.watch.applies() != apply {
                self.watch.end(now);
            }
        } else if self.watch.may_begin(now) {
            let task = Task::Watch { apply };
            let (id, child) = self.start(&task);
            match child {
                Ok(child) => {
                    self.watch.began(id, child, apply, now);
                    self.known.begin_watch();
                    let news = self.watch.news_of_start();
                    self.publish(news.into_iter().collect());
                }
                Err(error) => {
                    let wait = self.watch.failed(error.to_string(), now);
                    say(Level::Error, format_args!("holo watch: {error}; it is tried again in {wait:?}"));
                }
            }
        }
    }

    pub(super) fn hear_watch(&mut self, said: ChildEvent) {
        match said {
            ChildEvent::Line(line) => {
                let news = self.known.hear_watch(&line, self.clock.now());
                self.watch.hear(&line);
                self.publish(news);
            }
            ChildEvent::Garbage(text) => say(Level::Warning, format_args!("unexpected output of holo watch: {text}")),
            ChildEvent::Ended(ended) => {
                let reason = self.watch.ended(&ended, Instant::now());
                let ended = reason.map(|reason| What::Watch { state: WatchState::Ended, reason: Some(reason) });
                self.publish(ended.into_iter().collect());
            }
        }
    }
}

//! The watch: its start and end, signs of life, retries, and the runs that it is asked for.

use super::{Daemon, TIME_TO_END, unexpected};
use crate::agenda::retry_after;
use crate::child::{ChildEvent, ChildId, Ended, Running, Task};
use crate::config::OnEdit;
use crate::event::{DefinitionError, WatchState, What};
use crate::service::{Level, say};
use holo_events::Line;
use holo_process::Status;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// A watch that has run for this time is not considered failed when it ends.
const STEADY: Duration = Duration::from_secs(10 * 60);

/// The time without any output after which a watch is asked whether it is alive, and the time for an answer. It is asked
/// twice, because the agent itself may have been stopped.
const QUIET: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(12);
const PINGS: u32 = 2;

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
    /// The reason for which nothing is watched, until all entities have been checked again.
    error: Option<String>,
}

struct RunningWatch {
    id: ChildId,
    child: Box<dyn Running>,
    kind: WatchKind,
    since: Instant,
    entities: Option<usize>,
    last_error: Option<String>,
    /// The time at which it was asked to terminate.
    ending: Option<Instant>,
    is_killed: bool,
    /// The time of its last output, or of the last ping.
    heard: Instant,
    /// The number of pings since its last output.
    pings: u32,
}

/// What a watch does. For something else, another one is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WatchKind {
    /// True if drift is repaired.
    apply: bool,
    on_edit: OnEdit,
    holo: Option<PathBuf>,
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
        self.running.as_ref().is_some_and(|running| running.kind.apply)
    }

    /// Returns the number of watched entities, if known.
    pub(super) fn entities(&self) -> Option<usize> {
        self.running.as_ref()?.entities
    }

    /// Returns true if a watch has checked all entities, and waits for events.
    pub(super) fn is_up(&self) -> bool {
        self.lasting().is_some_and(|running| running.entities.is_some())
    }

    /// Returns the reason for which nothing is watched, if a watch has failed.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns the reason for which a watch was killed that has not ended yet.
    fn hung(&self) -> Option<&str> {
        self.running.as_ref().filter(|running| running.is_killed).and(self.error())
    }

    pub(super) fn may_begin(&self, now: Instant) -> bool {
        self.running.is_none() && self.not_before.is_none_or(|at| at <= now)
    }

    pub(super) fn began(&mut self, id: ChildId, child: Box<dyn Running>, kind: WatchKind, now: Instant) {
        self.not_before = None;
        self.running = Some(RunningWatch {
            id,
            child,
            kind,
            since: now,
            entities: None,
            last_error: None,
            ending: None,
            is_killed: false,
            heard: now,
            pings: 0,
        });
    }

    /// Returns the watch unless it is about to end.
    fn lasting(&self) -> Option<&RunningWatch> {
        self.running.as_ref().filter(|running| running.ending.is_none() && !running.is_killed)
    }

    /// Asks the watch to do a run. Returns the watch, if there is one and it takes the request.
    pub(super) fn ask(&self, words: &[String]) -> Option<ChildId> {
        let running = self.lasting()?;
        running.child.request(words).then_some(running.id)
    }

    /// Pings a watch that is quiet, and kills it if it does not answer. Returns the reason then.
    fn ping_if_quiet(&mut self, now: Instant) -> Option<String> {
        let running = self.running.as_mut().filter(|running| running.ending.is_none() && !running.is_killed)?;
        if running.next_ping() > now {
            return None;
        }
        if running.pings < PINGS {
            // If the request is not taken, there is no answer either.
            running.child.request(&["ping".to_owned()]);
            running.pings += 1;
            running.heard = now;
            return None;
        }
        running.is_killed = true;
        running.child.kill();
        let quiet = QUIET + PATIENCE * PINGS;
        self.error = Some(format!("it did not answer for {quiet:?}"));
        self.error.clone()
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

    pub(super) fn hear(&mut self, line: &Line<'_>, now: Instant) {
        let Some(running) = &mut self.running else { return };
        (running.heard, running.pings) = (now, 0);
        match line {
            Line::Watching { entities } => {
                running.entities = Some(*entities);
                self.error = None;
            }
            Line::Blind { reason } => {
                running.entities = None;
                let reason = reason.as_ref().map(ToString::to_string).or_else(|| running.last_error.take());
                self.error = reason.or_else(|| Some("entities cannot be determined".to_owned()));
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
        if running.is_killed {
            let wait = self.failed(self.error.clone().unwrap_or_default(), now);
            say(Level::Error, format_args!("holo watch was killed; it is tried again in {wait:?}"));
            return None;
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
        if let Some(running) = self.running.as_mut().filter(|running| running.ending.is_none() && !running.is_killed) {
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
            Some(running) if running.is_killed => None,
            Some(running) => Some(running.ending.map_or(running.next_ping(), |at| at + TIME_TO_END)),
            None => self.not_before.filter(|_| is_wanted),
        }
    }
}

impl RunningWatch {
    /// Returns the time of the next ping. After the last ping, it is the deadline for an answer.
    fn next_ping(&self) -> Instant {
        self.heard + if self.pings == 0 { QUIET } else { PATIENCE }
    }
}

impl Daemon<'_> {
    /// Returns what a watch should do now; `None` if there should be none.
    fn wanted_watch(&self) -> Option<WatchKind> {
        let (apply, on_edit) = (self.may_change(), self.config.defaults.on_edit);
        self.config.watch.then(|| WatchKind { apply, on_edit, holo: self.config.holo.clone() })
    }

    pub(super) fn is_watch_as_wanted(&self) -> bool {
        self.watch.lasting().map(|running| &running.kind) == self.wanted_watch().as_ref()
    }

    pub(super) fn look_after_watch(&mut self, now: Instant) {
        if let Some(reason) = self.watch.ping_if_quiet(now) {
            say(Level::Error, format_args!("holo watch hangs: {reason}; it is killed"));
            self.publish(vec![What::Watch { state: WatchState::Hung, reason: Some(reason) }]);
        }
    }

    pub(super) fn watch_as_wanted(&mut self, now: Instant) {
        let wanted = self.wanted_watch();
        if self.watch.is_running() {
            if !self.is_watch_as_wanted() {
                self.watch.end(now);
            }
        } else if let Some(kind) = wanted.filter(|_| self.watch.may_begin(now)) {
            let (id, child) = self.start(&Task::Watch { apply: kind.apply });
            match child {
                Ok(child) => {
                    self.watch.began(id, child, kind, now);
                    self.known.begin_watch();
                    self.registry.begin_watch();
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
        let asked = self.run.as_mut().filter(|run| self.watch.is(run.id));
        match said {
            ChildEvent::Line(line) => {
                self.watch.hear(&line, Instant::now());
                match (asked, &*line) {
                    (Some(run), Line::Begun { .. }) => run.has_begun = true,
                    (Some(run), Line::Summary { exit_code, .. }) if run.has_begun => {
                        run.hear(&line);
                        self.end_run(&Ended::with(Status::Exited((*exit_code).into())));
                    }
                    (Some(run), _) if run.has_begun => run.hear(&line),
                    (_, Line::Registry { services, read }) => self.hear_registry(services, *read),
                    _ => {
                        if matches!(*line, Line::Watching { .. }) {
                            self.registry.is_surveyed();
                        }
                        if let Line::Error { id: None, text } = &*line
                            && DefinitionError::parse(&text.to_string()).is_none()
                        {
                            say(Level::Error, format_args!("holo watch: {text}"));
                        }
                        let news = self.known.hear_watch(&line, self.clock.now());
                        self.publish(news);
                    }
                }
            }
            ChildEvent::News(_) => {}
            ChildEvent::Garbage(text) => unexpected(&text),
            ChildEvent::Ended(ended) => {
                let is_asked = asked.is_some();
                asked.into_iter().for_each(|run| run.error = self.watch.hung().map(str::to_owned));
                let reason = self.watch.ended(&ended, Instant::now());
                let state = What::Watch { state: WatchState::Ended, reason: reason.clone() };
                self.publish(reason.map(|_| state).into_iter().collect());
                if is_asked {
                    self.end_run(&ended);
                }
            }
        }
    }
}

//! The loop: children are started and ended as the agenda has it, and what they say is kept.

mod catch_up;
mod known;
mod run;
mod watch;
mod window;

use crate::agenda::{Rhythm, retry_after};
use crate::child::{ChildId, Launcher, Said, Task};
use crate::config::{Config, ConfigSource, Mode};
use crate::event::{EventSink, RunEvent, RunResult, What};
use crate::http::Endpoint;
use crate::journal::{Level, say};
use crate::metrics::Metrics;
use crate::status::{Connection, Doing, Status};
use crate::{service, written};
use catch_up::CatchUp;
use holo_definitions::DocumentError;
use jiff::Timestamp;
use jiff::Zoned;
use jiff::tz::TimeZone;
use known::Known;
use run::CurrentRun;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use watch::Watch;
use window::Window;

/// The time that a child has to end which was asked to: it may have to wait for a transaction of a package manager.
const TIME_TO_END: Duration = Duration::from_secs(30 * 60);
/// The time after which it is tried again to keep events that could not be kept.
const RETRY_SPOOL: Duration = Duration::from_secs(60);
/// The number of lines of children that wait to be taken.
const LINES: usize = 256;

/// Something from outside.
#[derive(Debug)]
pub enum Input {
    /// The configuration is to be read anew.
    Reload,
    /// The agent is to end.
    End,
    /// Somebody asks for the state.
    Status(oneshot::Sender<Status>),
}

/// The time of day.
pub trait Clock {
    /// Returns it.
    fn now(&self) -> Timestamp;

    /// Returns it in the time zone of the machine.
    fn local(&self) -> Zoned {
        self.now().to_zoned(TimeZone::system())
    }
}

/// The clock of the system.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The parts that the agent is made of.
pub struct Parts<'a> {
    /// The source of the configuration.
    pub source: Box<dyn ConfigSource + 'a>,
    /// The starter of children.
    pub launcher: Box<dyn Launcher + 'a>,
    /// The sink of events.
    pub sink: Box<dyn EventSink + 'a>,
    /// The time of day.
    pub clock: Box<dyn Clock + 'a>,
    /// The moment of this machine.
    pub rhythm: Rhythm,
    /// The file of the last runs.
    pub last: PathBuf,
    /// The metrics.
    pub metrics: Metrics,
}

/// The last runs, as they are kept on disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Last {
    run: Option<RunEvent>,
    good: Option<Timestamp>,
    /// The time at which a run began that has not ended as far as is known.
    begun: Option<Timestamp>,
}

/// The agent at work.
pub struct Daemon<'a> {
    parts: Parts<'a>,
    config: Config,
    config_error: Option<String>,
    started: Timestamp,
    /// What children say: their end of it, and ours.
    sayings: mpsc::Sender<(ChildId, Said)>,
    said: mpsc::Receiver<(ChildId, Said)>,
    next_id: u64,
    /// The time of the next whole run.
    next_run: Instant,
    /// The number of whole runs in a row that could not begin.
    failures: u32,
    run: Option<CurrentRun>,
    catch_up: Option<CatchUp>,
    window: Window,
    watch: Watch,
    known: Known,
    last: Last,
    endpoint: Option<Endpoint>,
    endpoint_error: Option<String>,
    retry_spool: Option<Instant>,
    is_stopping: bool,
    /// The text that systemd was told last.
    told: String,
}

impl<'a> Daemon<'a> {
    /// An agent that is about to begin.
    ///
    /// # Errors
    /// If the configuration cannot be used.
    pub fn new(mut parts: Parts<'a>) -> Result<Daemon<'a>, DocumentError> {
        let config = parts.source.load()?;
        parts.launcher.set_program(config.holo.clone());
        let last = read_last(&parts.last);
        last.good.iter().for_each(|good| parts.metrics.set_last_good(*good));
        let now = parts.clock.now();
        let wait = parts.rhythm.until_first(now, last.good, config.interval);
        let (sayings, said) = mpsc::channel(LINES);
        let window = Window::new(config.maintenance.as_ref(), &parts.clock.local());
        Ok(Daemon {
            config,
            config_error: None,
            started: now,
            sayings,
            said,
            next_id: 0,
            next_run: Instant::now() + wait,
            failures: 0,
            run: None,
            catch_up: None,
            window,
            watch: Watch::default(),
            known: Known::default(),
            last,
            endpoint: None,
            endpoint_error: None,
            retry_spool: None,
            is_stopping: false,
            told: String::new(),
            parts,
        })
    }

    /// Works until it is to end, and no child is left.
    pub async fn go(&mut self, inputs: &mut mpsc::Receiver<Input>) {
        self.use_config();
        service::ready();
        let watchdog = service::watchdog();
        let mut alive = watchdog.map(|interval| Instant::now() + interval);
        loop {
            self.step();
            if self.is_over() {
                return;
            }
            self.tell();
            let wake = [self.next_wake(), alive].into_iter().flatten().min();
            tokio::select! {
                Some((id, said)) = self.said.recv() => self.hear(id, said),
                Some(input) = inputs.recv() => self.take(input),
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            }
            if let (Some(interval), Some(due)) = (watchdog, alive)
                && due <= Instant::now()
            {
                service::alive();
                alive = Some(Instant::now() + interval);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.is_stopping && self.run.is_none() && self.catch_up.is_none() && !self.watch.is_running()
    }

    /// Does what is due.
    fn step(&mut self) {
        let now = Instant::now();
        if self.retry_spool.is_some_and(|at| at <= now) {
            self.parts.sink.retry();
            self.note_spool();
        }
        if self.window.is_over(now) {
            self.look_at_window(now);
        }
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.kill_if_late(now);
            return;
        }
        if let Some(run) = &mut self.run {
            run.end_if_late(now, self.config.timeout);
            return;
        }
        self.watch.kill_if_late(now);
        if self.is_stopping {
            return;
        }
        if self.next_run <= now {
            // Both would wait for one lock, and each would take the other's changes for drift.
            if self.watch.is_running() {
                self.watch.end(now);
                return;
            }
            if self.last.begun.is_some() {
                self.begin_to_catch_up();
                return;
            }
            self.begin_run();
            if self.run.is_some() {
                return;
            }
        }
        if self.config.watch {
            self.watch_as_wanted(now);
        } else if self.watch.is_running() {
            self.watch.end(now);
        }
    }

    /// Looks if something may be changed now. When that begins to be so, there is something to make up for.
    fn look_at_window(&mut self, now: Instant) {
        let before = self.window.is_open();
        self.window = Window::new(self.config.maintenance.as_ref(), &self.parts.clock.local());
        if self.window.is_open() && !before {
            self.next_run = now;
        }
    }

    fn may_change(&self) -> bool {
        self.config.mode == Mode::Enforce && self.window.is_open()
    }

    fn watch_as_wanted(&mut self, now: Instant) {
        let apply = self.may_change();
        if self.watch.is_running() {
            if self.watch.applies() != apply {
                self.watch.end(now);
            }
        } else if self.watch.may_begin(now) {
            let task = Task::Watch { apply };
            let id = self.new_id();
            match self.parts.launcher.start(&task, id, self.sayings.clone()) {
                Ok(child) => {
                    self.watch.began(id, child, apply, now);
                    self.known.begin_watch();
                }
                Err(error) => {
                    let wait = self.watch.failed(now);
                    say(Level::Error, format_args!("holo watch: {error}; it is tried again in {wait:?}"));
                }
            }
        }
    }

    fn begin_run(&mut self) {
        // The machine may have slept since.
        self.look_at_window(Instant::now());
        let task = if self.may_change() { Task::Apply } else { Task::Check };
        let id = self.new_id();
        let began = self.parts.clock.now();
        let child = self.parts.launcher.start(&task, id, self.sayings.clone());
        let mut run = CurrentRun::new(id, &task, began);
        match child {
            Ok(child) => {
                run.child = Some(child);
                self.run = Some(run);
                self.last.begun = Some(began);
                self.keep_last();
            }
            Err(error) => {
                run.error = Some(error.to_string());
                self.finish(run.finish(None));
            }
        }
    }

    fn new_id(&mut self) -> ChildId {
        self.next_id += 1;
        ChildId(self.next_id)
    }

    /// Asks holo what became of a run that an agent before this one has begun.
    fn begin_to_catch_up(&mut self) {
        let Some(begun) = self.last.begun else { return };
        let id = self.new_id();
        let task = Task::History { since: begun };
        match self.parts.launcher.start(&task, id, self.sayings.clone()) {
            Ok(child) => self.catch_up = Some(CatchUp::new(id, child, begun)),
            Err(error) => {
                say(Level::Error, format_args!("holo history: {error}"));
                self.caught_up(CatchUp::unknown(begun));
            }
        }
    }

    fn caught_up(&mut self, runs: Vec<RunEvent>) {
        self.last.begun = None;
        self.keep_last();
        self.publish(runs.into_iter().map(|run| What::Run(Box::new(run))).collect());
    }

    fn hear(&mut self, id: ChildId, said: Said) {
        if self.catch_up.as_ref().is_some_and(|catch_up| catch_up.id == id) {
            match said {
                Said::Line(line) => self.catch_up.iter_mut().for_each(|catch_up| catch_up.hear(&line)),
                Said::Garbage(text) => say(Level::Warning, format_args!("holo history said what is {text}")),
                Said::Ended(_) => match self.catch_up.take().and_then(CatchUp::finish) {
                    Some(runs) => self.caught_up(runs),
                    // It goes on, and holds the lock.
                    None => self.next_run = Instant::now() + catch_up::LOOK_AGAIN,
                },
            }
        } else if self.run.as_ref().is_some_and(|run| run.id == id) {
            match said {
                Said::Line(line) => self.run.iter_mut().for_each(|run| run.hear(&line)),
                Said::Garbage(text) => say(Level::Warning, format_args!("holo said what is {text}")),
                Said::Ended(ended) => {
                    if let Some(run) = self.run.take() {
                        self.finish(run.finish(Some(&ended)));
                    }
                }
            }
        } else if self.watch.is(id) {
            match said {
                Said::Line(line) => {
                    let news = self.known.hear_watch(&line, self.parts.clock.now());
                    self.watch.hear(&line);
                    self.publish(news);
                }
                Said::Garbage(text) => say(Level::Warning, format_args!("holo watch said what is {text}")),
                Said::Ended(ended) => self.watch.ended(&ended, Instant::now()),
            }
        }
    }

    /// Takes a whole run that has ended, or could not begin.
    fn finish(&mut self, ended: run::Finished) {
        let now = self.parts.clock.now();
        let run::Finished { event, outcomes, troubles } = ended;
        say(if event.result.is_good() { Level::Info } else { Level::Error }, run::in_words(&event));
        self.parts.metrics.ran(&event, now);
        if event.result != RunResult::Error && event.result != RunResult::Interrupted {
            self.parts.metrics.set_entities(&outcomes);
            let news = self.known.learn(troubles, now);
            self.publish(news);
        }
        if event.result.is_good() {
            self.last.good = Some(now);
            self.parts.metrics.set_last_good(now);
        }
        let mut wait = self.parts.rhythm.until_next(now, Some(event.began), self.config.interval);
        self.failures = if event.result == RunResult::Error { self.failures + 1 } else { 0 };
        if self.failures > 0 {
            // It may be that a person's apply holds the lock, or that a package is being replaced.
            wait = wait.min(retry_after(self.failures + 4));
        }
        self.next_run = Instant::now() + wait;
        self.last.begun = None;
        self.last.run = Some(event.clone());
        self.keep_last();
        self.publish(vec![What::Run(Box::new(event))]);
    }

    /// Keeps events, and says those that a person may want to see.
    fn publish(&mut self, news: Vec<What>) {
        for what in news {
            match &what {
                What::Drifted { entity, reason } => {
                    self.parts.metrics.drifted();
                    let reason = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
                    say(Level::Warning, format_args!("drifted {entity}{reason}"));
                }
                What::Repaired { entity, .. } => {
                    self.parts.metrics.repaired();
                    say(Level::Info, format_args!("repaired {entity}"));
                }
                What::Returned { entity } => say(Level::Info, format_args!("returned {entity}")),
                What::Failed { entity, reason } => say(Level::Error, format_args!("failed {entity}: {reason}")),
                What::Run(_) | What::Merged(_) => {}
            }
            let event = self.known.event(what, self.parts.clock.now());
            self.parts.sink.record(event);
        }
        self.parts.metrics.set_failed(self.known.failed.keys());
        self.note_spool();
        self.write_textfile();
    }

    /// Notes if events wait to be kept.
    fn note_spool(&mut self) {
        let is_new = self.retry_spool.is_none();
        self.retry_spool = self.parts.sink.obstacle().map(|obstacle| {
            if is_new {
                say(Level::Error, format_args!("events wait in memory, as they cannot be kept: {obstacle}"));
            }
            Instant::now() + RETRY_SPOOL
        });
    }

    fn keep_last(&self) {
        let written = serde_json::to_vec(&self.last).map_err(Into::into);
        if let Err(error) = written.and_then(|text| written::replace(&self.parts.last, &text, 0o600)) {
            say(Level::Error, format_args!("{}: {error}", self.parts.last.display()));
        }
    }

    fn write_textfile(&self) {
        let Some(path) = &self.config.textfile else { return };
        // Collectors run as other users.
        if let Err(error) = written::replace(path, &self.parts.metrics.text(), 0o644) {
            say(Level::Error, format_args!("{}: {error}", path.display()));
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Reload => self.reload(),
            Input::End => {
                service::stopping();
                self.is_stopping = true;
                let now = Instant::now();
                self.run.iter_mut().for_each(|run| run.end(now));
                self.catch_up.iter().for_each(CatchUp::end);
                self.watch.end(now);
            }
            // Whoever has asked may be gone.
            Input::Status(answer) => drop(answer.send(self.status())),
        }
    }

    fn reload(&mut self) {
        service::reloading();
        match self.parts.source.load() {
            Ok(config) => {
                if config.interval != self.config.interval {
                    let (now, last) = (self.parts.clock.now(), self.last.run.as_ref().map(|run| run.began));
                    self.next_run = Instant::now() + self.parts.rhythm.until_next(now, last, config.interval);
                }
                self.config = config;
                self.look_at_window(Instant::now());
                self.config_error = None;
                say(Level::Info, "the configuration was read anew");
                self.use_config();
            }
            Err(error) => {
                say(Level::Error, format_args!("{error}; the configuration from before goes on to count"));
                self.config_error = Some(error.to_string());
            }
        }
        service::ready();
    }

    /// Does what a new configuration asks for at once.
    fn use_config(&mut self) {
        self.parts.launcher.set_program(self.config.holo.clone());
        let is_open = self.endpoint.as_ref().map(Endpoint::address) == self.config.metrics;
        if !is_open || self.endpoint_error.is_some() {
            self.endpoint = None;
            self.endpoint_error = None;
            if let Some(address) = self.config.metrics {
                match Endpoint::open(address, &self.parts.metrics) {
                    Ok(endpoint) => self.endpoint = Some(endpoint),
                    Err(error) => {
                        let error = format!("no metrics at {address}: {error}");
                        say(Level::Error, &error);
                        self.endpoint_error = Some(error);
                    }
                }
            }
        }
        self.write_textfile();
    }

    /// Returns the time at which there is something to do, if nothing happens before.
    fn next_wake(&self) -> Option<Instant> {
        let run = self.run.as_ref().and_then(|run| run.next_wake(self.config.timeout));
        let is_free = self.run.is_none() && self.catch_up.is_none() && !self.is_stopping;
        let watch = self.watch.next_wake(self.config.watch && is_free);
        let next_run = (is_free && !self.watch.is_ending()).then_some(self.next_run);
        let catch_up = self.catch_up.as_ref().and_then(CatchUp::next_wake);
        [run, watch, next_run, catch_up, self.retry_spool, self.window.until()].into_iter().flatten().min()
    }

    fn tell(&mut self) {
        self.parts.metrics.set_watching(self.watch.is_running().then(|| self.watch.applies()));
        let doing = self.doing().to_string();
        if doing != self.told {
            service::status(&doing);
            self.told = doing;
        }
    }

    fn doing(&self) -> Doing {
        if self.is_stopping {
            return Doing::Stopping;
        }
        match &self.run {
            None if self.catch_up.is_some() => Doing::Preparing,
            Some(run) => Doing::Running { verb: run.verb.to_owned(), since: run.began },
            None if self.watch.is_ending() => Doing::Preparing,
            None if self.watch.is_running() => {
                Doing::Watching { entities: self.watch.entities(), apply: self.watch.applies() }
            }
            None if self.config.watch => Doing::Preparing,
            None => Doing::Waiting,
        }
    }

    /// Returns the state as it is known now.
    #[must_use]
    pub fn status(&self) -> Status {
        let wait = self.next_run.saturating_duration_since(Instant::now());
        let next = self.parts.clock.now().checked_add(wait).ok();
        let round = |time: Timestamp| time.round(jiff::Unit::Second).unwrap_or(time);
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started: self.started,
            mode: if self.config.mode == Mode::Enforce { "enforce" } else { "report" }.to_owned(),
            doing: self.doing(),
            last: self.last.run.clone(),
            last_good: self.last.good,
            next: next.map(round).filter(|_| self.run.is_none() && !self.is_stopping),
            drifted: self.known.drifted.clone(),
            failed: self.known.failed.clone(),
            connection: Connection::None,
            config_error: self.config_error.clone().or_else(|| self.endpoint_error.clone()),
            spool_error: self.parts.sink.obstacle().map(str::to_owned),
        }
    }
}

fn read_last(path: &Path) -> Last {
    // Without it, there is a run at once.
    fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;

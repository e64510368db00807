//! The main loop: starts and ends children when due, and processes their output.
//!
//! `step` does the work that is due, `hear` processes the output of children, and `take` processes external inputs. The
//! modules below contain the rest: complete runs, the watch, known deviations, and the outlets for events and metrics.

mod fleet;
mod health;
mod known;
mod outlets;
mod registry;
mod requests;
mod run;
mod state;
mod storms;
mod watch;
mod whole_runs;

use crate::agenda::Rhythm;
use crate::child::{ChildEvent, ChildId, Launcher, Running, StartError, Task};
use crate::config::{Config, ConfigSource, Mode};
use crate::event::{EventSink, Pause, RunEvent, What};
use crate::metrics::Metrics;
use crate::request::{Answer, Request};
use crate::service::{self, Level, say};
use crate::spool;
use fleet::Fleet;
use health::HealthRounds;
use holo_definitions::DocumentError;
use holo_schedule::{Schedule, is_open, next_change};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use known::Known;
use outlets::Outlets;
use registry::Registry;
use run::CurrentRun;
pub(crate) use run::in_words;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use watch::Watch;
use whole_runs::CatchUp;

/// The timeout for a child to terminate: it may have to wait for a package manager's transaction.
const TIME_TO_END: Duration = Duration::from_secs(30 * 60);
/// The capacity of the queue for lines of children.
const LINES: usize = 256;

/// The running agent.
pub struct Daemon<'a> {
    source: Box<dyn ConfigSource + 'a>,
    launcher: Box<dyn Launcher + 'a>,
    clock: Box<dyn Clock + 'a>,
    rhythm: Rhythm,
    config: Config,
    config_error: Option<String>,
    started: Timestamp,
    /// The channel for the output of children: its sender and receiver.
    sayings: mpsc::Sender<(ChildId, ChildEvent)>,
    said: mpsc::Receiver<(ChildId, ChildEvent)>,
    next_id: u64,
    /// The time of the next complete run.
    next_run: Instant,
    /// The clients that wait for the complete run that is due on request, if one is.
    requested: Option<Vec<oneshot::Sender<Answer>>>,
    /// The number of consecutive complete runs that could not begin.
    failures: u32,
    run: Option<CurrentRun>,
    catch_up: Option<CatchUp>,
    window: Window,
    watch: Watch,
    health: HealthRounds,
    fleet: Fleet,
    known: Known,
    registry: Registry,
    last: LastRuns,
    outlets: Outlets<'a>,
    is_stopping: bool,
    /// True if the agent ends after one round.
    is_once: bool,
    /// True if a complete run has ended.
    has_run: bool,
    /// True unless a run has failed.
    are_runs_good: bool,
    /// The status text last sent to systemd.
    told: String,
}

impl<'a> Daemon<'a> {
    /// Creates an agent.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn new(parts: Parts<'a>) -> Result<Daemon<'a>, DocumentError> {
        let Parts { source, launcher, sink, clock, rhythm, last, metrics } = parts;
        let config = source.load()?;
        let registry = Registry::new(last.with_file_name("registry.json"));
        let last = LastRuns::read(last);
        last.good().iter().for_each(|good| metrics.set_last_good(*good));
        let now = clock.now();
        let wait = rhythm.until_first(now, last.good(), config.interval);
        let (sayings, said) = mpsc::channel(LINES);
        let window = Window::new(config.maintenance.as_ref(), &clock.local());
        Ok(Daemon {
            source,
            launcher,
            clock,
            rhythm,
            config,
            config_error: None,
            started: now,
            sayings,
            said,
            next_id: 0,
            next_run: Instant::now() + wait,
            requested: None,
            failures: 0,
            run: None,
            catch_up: None,
            window,
            watch: Watch::default(),
            health: HealthRounds::default(),
            fleet: Fleet::default(),
            known: Known::default(),
            registry,
            last,
            outlets: Outlets::new(sink, metrics),
            is_stopping: false,
            is_once: false,
            has_run: false,
            are_runs_good: true,
            told: String::new(),
        })
    }

    /// Does one complete run and one round of health checks, applies critical entities, and ends. Returns true if there
    /// are no problems.
    pub async fn go_once(&mut self, inputs: &mut mpsc::Receiver<Input>) -> bool {
        self.is_once = true;
        (self.config.watch, self.config.metrics) = (false, None);
        self.next_run = Instant::now();
        self.go(inputs).await;
        self.has_run && self.are_runs_good && !self.known.is_any_critical() && !self.health.has_failed()
    }

    /// Works until it is asked to end and no child is left.
    pub async fn go(&mut self, inputs: &mut mpsc::Receiver<Input>) {
        self.outlets.begin();
        self.use_config();
        // Otherwise, health would be unknown until the next complete run.
        self.health.look_at_all(Instant::now());
        service::ready();
        let watchdog = service::watchdog();
        let mut alive = watchdog.map(|interval| Instant::now() + interval);
        loop {
            self.step();
            if self.is_over() {
                self.outlets.end_storms(self.clock.now(), true);
                self.outlets.end();
                return;
            }
            self.tell();
            self.write_registry();
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
        self.is_stopping
            && self.run.is_none()
            && self.catch_up.is_none()
            && !self.watch.is_running()
            && !self.health.is_running()
            && !self.fleet.is_running()
    }

    /// Does the work that is due.
    fn step(&mut self) {
        let now = Instant::now();
        self.outlets.retry(now);
        self.outlets.end_storms(self.clock.now(), false);
        self.end_pause_if_over();
        self.health.kill_if_late(now);
        self.look_after_fleet(now);
        if self.window.is_over(now) {
            self.look_at_window(now);
        }
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.kill_if_late(now);
            return;
        }
        self.look_after_watch(now);
        self.watch.kill_if_late(now);
        if let Some(run) = &mut self.run {
            if run.end_if_late(now, self.config.timeout) && self.watch.is(run.id) {
                self.watch.end(now);
            }
            return;
        }
        if self.is_stopping {
            return;
        }
        let is_run_due = self.next_run <= now && !(self.is_once && self.has_run);
        if is_run_due || (self.health.repairs.are_due() && self.may_change()) {
            self.run_when_free(is_run_due, now);
            if self.run.is_some() || self.catch_up.is_some() || self.watch.is_ending() {
                return;
            }
        }
        if self.health.is_due(now) {
            self.begin_health_round();
        }
        if self.is_once && self.has_run && !self.health.is_running() {
            self.is_stopping = true;
            return;
        }
        self.watch_as_wanted(now);
    }

    /// Begins a run, of all entities or of critical ones, as soon as possible.
    fn run_when_free(&mut self, is_whole: bool, now: Instant) {
        // A watch that keeps running does the run itself. Two processes would compete for the same lock, and each would
        // report the other's changes as drift.
        if self.watch.is_running() && !self.is_watch_as_wanted() {
            self.watch.end(now);
        } else if self.last.begun().is_some_and(|begun| !self.outlets.has_run(begun)) {
            self.begin_to_catch_up();
        } else if is_whole {
            self.begin_run();
        } else {
            self.begin_repairs();
        }
    }

    /// Checks whether changes are permitted now. When the window opens, missed runs are due.
    fn look_at_window(&mut self, now: Instant) {
        let before = self.window.is_open();
        self.window = Window::new(self.config.maintenance.as_ref(), &self.clock.local());
        if self.window.is_open() && !before {
            self.next_run = now;
        }
    }

    fn may_change(&self) -> bool {
        self.config.mode == Mode::Enforce && self.window.is_open() && self.last.pause().is_none()
    }

    /// Starts a child.
    fn start(&mut self, task: &Task) -> (ChildId, Result<Box<dyn Running>, StartError>) {
        self.next_id += 1;
        let id = ChildId(self.next_id);
        (id, self.launcher.start(task, id, self.sayings.clone()))
    }

    fn hear(&mut self, id: ChildId, said: ChildEvent) {
        if self.catch_up.as_ref().is_some_and(|catch_up| catch_up.id == id) {
            self.hear_history(said);
        } else if self.watch.is(id) {
            self.hear_watch(said);
        } else if self.run.as_ref().is_some_and(|run| run.id == id) {
            self.hear_run(said);
        } else if self.health.is(id) {
            self.hear_health(said);
        } else if self.fleet.is(id) {
            self.hear_fleet(said);
        }
    }

    fn publish(&mut self, news: Vec<What>) {
        self.outlets.metrics.set_failed(self.known.failed.keys());
        self.outlets.publish(news, self.clock.now());
    }

    /// Applies a new configuration.
    fn use_config(&mut self) {
        self.launcher.use_config(&self.config);
        self.outlets.use_config(&self.config);
    }

    /// Returns the time of the next work that is due if there are no events until then.
    fn next_wake(&self) -> Option<Instant> {
        let run = self.run.as_ref().and_then(|run| run.next_wake(self.config.timeout));
        let is_free = self.run.is_none() && self.catch_up.is_none() && !self.is_stopping;
        let watch = self.watch.next_wake(self.config.watch && is_free);
        let next_run = (is_free && !self.watch.is_ending()).then_some(self.next_run);
        let catch_up = self.catch_up.as_ref().and_then(CatchUp::next_wake);
        let health = self.health.next_wake(is_free && !self.watch.is_ending());
        let fleet = self.fleet.next_wake(self.config.fleet.is_some() && !self.is_stopping);
        [
            run,
            watch,
            health,
            fleet,
            next_run,
            catch_up,
            self.outlets.next_wake(),
            self.window.until(),
            self.end_of_pause(),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

/// Logs output of a child that is not what it should be.
fn unexpected(text: &str) {
    say(Level::Warning, format_args!("unexpected output: {text}"));
}

/// The last runs, the pause, and the file in which they survive a restart.
#[derive(Debug)]
struct LastRuns {
    path: PathBuf,
    runs: Runs,
    /// True if the event of the run that began last was recorded.
    is_recorded: bool,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Runs {
    run: Option<RunEvent>,
    good: Option<Timestamp>,
    /// The start time of a run whose end is unknown.
    begun: Option<Timestamp>,
    pause: Option<Pause>,
}

impl LastRuns {
    /// Reads the file. If it cannot be read, there are no known runs.
    fn read(path: PathBuf) -> LastRuns {
        let runs = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        LastRuns { path, runs, is_recorded: false }
    }

    /// Returns the last finished complete run.
    fn run(&self) -> Option<&RunEvent> {
        self.runs.run.as_ref()
    }

    /// Returns the end time of the last successful run.
    fn good(&self) -> Option<Timestamp> {
        self.runs.good
    }

    /// Returns the start time of a run whose end is unknown.
    fn begun(&self) -> Option<Timestamp> {
        self.runs.begun.filter(|_| !self.is_recorded)
    }

    /// Returns the pause, if the agent makes no changes for now.
    fn pause(&self) -> Option<&Pause> {
        self.runs.pause.as_ref()
    }

    /// Records the start of a run; `None` when its end is known.
    fn set_begun(&mut self, begun: Option<Timestamp>) {
        (self.runs.begun, self.is_recorded) = (begun, false);
        self.keep();
    }

    /// Notes that the event of the run that began last was recorded. The file still names its start, so that the next
    /// agent looks for the event: a power cut may happen before it is on disk.
    fn set_recorded(&mut self) {
        self.is_recorded = true;
        self.keep();
    }

    /// Records a pause, or its end. Returns the reason why it will not survive a restart, if so.
    fn set_pause(&mut self, pause: Option<Pause>) -> Option<String> {
        self.runs.pause = pause;
        self.keep()
    }

    /// Records a finished complete run. It is saved together with the next change of `begun`.
    fn ended(&mut self, run: &RunEvent, now: Timestamp) {
        if run.result.is_good() {
            self.runs.good = Some(now);
        }
        self.runs.run = Some(run.clone());
    }

    /// Writes the file. Returns the error, which was logged.
    fn keep(&self) -> Option<String> {
        let written = serde_json::to_vec(&self.runs).map_err(Into::into);
        let error = written.and_then(|text| spool::replace(&self.path, &text, 0o600)).err()?;
        let error = format!("{}: {error}", self.path.display());
        say(Level::Error, &error);
        Some(error)
    }
}

/// An external input.
#[derive(Debug)]
pub enum Input {
    /// Reload the configuration.
    Reload,
    /// The clock was set.
    ClockSet,
    /// Terminate the agent.
    End,
    /// Meet a client's request, and answer it.
    Request(Request, oneshot::Sender<Answer>),
}

/// The time of day.
pub trait Clock {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Returns the current time in the machine's time zone.
    fn local(&self) -> Zoned {
        self.now().to_zoned(TimeZone::system())
    }
}

/// The system's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The components of the agent.
pub struct Parts<'a> {
    /// The source of the configuration.
    pub source: Box<dyn ConfigSource + 'a>,
    /// Starts children.
    pub launcher: Box<dyn Launcher + 'a>,
    /// Records events.
    pub sink: Box<dyn EventSink + 'a>,
    /// The time of day.
    pub clock: Box<dyn Clock + 'a>,
    /// The run times of this machine.
    pub rhythm: Rhythm,
    /// The file for the last runs.
    pub last: PathBuf,
    /// The metrics.
    pub metrics: Metrics,
}

/// The interval for checking the clock, as it may have been set.
const LOOK_AGAIN: Duration = Duration::from_secs(60 * 60);

/// Whether changes are permitted, and until when this is certain.
#[derive(Clone, Copy, Debug)]
struct Window {
    is_open: bool,
    until: Option<Instant>,
}

impl Window {
    fn new(schedule: Option<&Schedule>, now: &Zoned) -> Window {
        let Some(schedule) = schedule else { return Window { is_open: true, until: None } };
        let change = next_change(schedule, now).map(|change| now.duration_until(&change).unsigned_abs());
        let wait = change.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN);
        Window { is_open: is_open(schedule, now), until: Some(Instant::now() + wait) }
    }

    fn is_open(self) -> bool {
        self.is_open
    }

    /// Returns true if the window must be checked again.
    fn is_over(self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Returns the time at which the window must be checked again.
    fn until(self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests;

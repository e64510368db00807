//! A simulation of the agent with fake children and a fake clock.

use crate::agenda::Rhythm;
use crate::child::{ChildEvent, ChildId, Ended, Launcher, Running, StartError, Task};
use crate::config::{Config, ConfigSource};
use crate::daemon::{Clock, Daemon, Input, Parts};
use crate::event::{Event, EventSink, What};
use crate::metrics::Metrics;
use holo_definitions::DocumentError;
use holo_events::{Line, Tally};
use holo_process::Status as Exit;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::borrow::Cow;
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

/// A Friday at midnight in UTC.
const BEGIN: i64 = 1_795_132_800;

/// The agent's actions: seconds since the start, and a word.
type Log = Rc<RefCell<Vec<(u64, String)>>>;

/// A clock that follows the test's time, and is set forward or back at certain times.
#[derive(Clone)]
struct TestClock {
    begun: Instant,
    sets: Vec<(Duration, i64)>,
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let elapsed = self.begun.elapsed();
        let set: i64 = self.sets.iter().filter(|(at, _)| *at <= elapsed).map(|(_, by)| by).sum();
        Timestamp::from_second(BEGIN + set).unwrap() + elapsed
    }

    fn local(&self) -> Zoned {
        self.now().to_zoned(TimeZone::UTC)
    }
}

/// Starts fake children.
struct Actors {
    log: Log,
    begun: Instant,
    /// The duration and exit status of a run.
    run: (Duration, u8),
    /// The time after which a watch ends by itself.
    watch: Duration,
    /// The time that a child takes to terminate.
    end: Duration,
    running: Rc<RefCell<u32>>,
    /// The lines of holo history, and the time that it takes.
    history: Vec<String>,
    history_time: Duration,
    /// The lines of rounds of health checks, the last of which is repeated, and the time that each takes.
    health: RefCell<Vec<Vec<String>>>,
    health_time: Duration,
    /// The times of the applies of critical entities. A fourth one within ten minutes leaves them alone.
    repairs: Rc<RefCell<Vec<Instant>>>,
    /// The time after which watches do not answer any more.
    hang: Duration,
}

struct Actor {
    /// The requests to a watch.
    requests: mpsc::UnboundedSender<Vec<String>>,
    asked: Arc<Notify>,
    killed: Arc<Notify>,
    log: Log,
    begun: Instant,
    verb: &'static str,
    is_noted: bool,
}

impl Actor {
    fn note(&self, what: &str) {
        if self.is_noted {
            self.log.borrow_mut().push((self.begun.elapsed().as_secs(), format!("{what} {}", self.verb)));
        }
    }
}

impl Running for Actor {
    fn end(&self) {
        self.note("end");
        self.asked.notify_one();
    }

    fn kill(&self) {
        self.note("kill");
        self.killed.notify_one();
    }

    fn request(&self, words: &[String]) -> bool {
        let options = ["--json", "--unattended", "--critical"];
        let shown: Vec<&str> = words
            .iter()
            .map(String::as_str)
            .filter(|word| !options.iter().any(|option| word.starts_with(option)))
            .collect();
        let shown = shown.join(" ");
        if shown != "ping" {
            self.log.borrow_mut().push((self.begun.elapsed().as_secs(), shown));
        }
        self.requests.send(words.to_vec()).is_ok()
    }
}

fn has_repaired_too_often(repairs: &RefCell<Vec<Instant>>) -> bool {
    let (now, mut repairs) = (Instant::now(), repairs.borrow_mut());
    repairs.retain(|at| now.duration_since(*at) < Duration::from_secs(600));
    let is_too_often = repairs.len() >= 3;
    repairs.extend([now].iter().filter(|_| !is_too_often));
    is_too_often
}

/// Returns the lines of an apply or a check with this exit status.
fn run_lines(critical: &[String], repairs: &RefCell<Vec<Instant>>, code: u8) -> Vec<Vec<u8>> {
    let (run, tally) = (Some("r".into()), Some(Tally { unchanged: 1, ..Tally::default() }));
    let left_alone = critical.iter().filter(|_| has_repaired_too_often(repairs));
    let left_alone = left_alone.map(|id| {
        let reason = "repaired 3 times".as_bytes();
        Line::Failed { id: id.as_bytes().into(), reason: reason.into() }.to_bytes()
    });
    left_alone.chain([summary(run, tally, code)]).collect()
}

/// What a watch says and does while it runs: it answers pings, and does runs.
struct WatchActor {
    id: ChildId,
    said: mpsc::Sender<(ChildId, ChildEvent)>,
    requests: mpsc::UnboundedReceiver<Vec<String>>,
    run: (Duration, u8),
    repairs: Rc<RefCell<Vec<Instant>>>,
    hang: Duration,
}

impl WatchActor {
    async fn play(mut self) {
        let begun = Instant::now();
        self.say(vec![Line::Watching { entities: 1 }.to_bytes()]).await;
        while let Some(words) = self.requests.recv().await {
            if begun.elapsed() >= self.hang {
                continue;
            }
            if words == ["ping"] {
                self.say(vec![Line::Alive {}.to_bytes()]).await;
                continue;
            }
            let critical = words.iter().filter_map(|word| word.strip_prefix("--critical=")).map(str::to_owned);
            let critical: Vec<String> = critical.collect();
            self.say(vec![Line::Begun { command: Vec::new() }.to_bytes()]).await;
            let end = Instant::now() + self.run.0;
            while Instant::now() < end {
                sleep_until(end.min(Instant::now() + Duration::from_secs(20))).await;
                self.say(vec![Line::Alive {}.to_bytes()]).await;
            }
            self.say(run_lines(&critical, &self.repairs, self.run.1)).await;
        }
        std::future::pending::<()>().await;
    }

    async fn say(&self, lines: Vec<Vec<u8>>) {
        for line in lines {
            let line = Line::parse(&line).unwrap();
            self.said.send((self.id, ChildEvent::Line(Box::new(line)))).await.unwrap();
        }
    }
}

impl Launcher for Actors {
    fn start(
        &mut self,
        task: &Task,
        id: ChildId,
        said: mpsc::Sender<(ChildId, ChildEvent)>,
    ) -> Result<Box<dyn Running>, StartError> {
        let word = match task {
            Task::Watch { apply: true } => "watch --apply".to_owned(),
            Task::Apply { entities, .. } | Task::Health { entities } => {
                [&[task.verb().to_owned()], &entities[..]].concat().join(" ")
            }
            task => task.verb().to_owned(),
        };
        let has_lock = !matches!(task, Task::Health { .. } | Task::History { .. });
        let is_noted = !matches!(task, Task::Health { .. }) || !self.health.borrow().is_empty();
        if is_noted {
            self.log.borrow_mut().push((self.begun.elapsed().as_secs(), word));
        }
        assert!(!has_lock || self.running.replace(1) == 0, "{:?}", self.log.borrow());
        let (asked, killed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (sender, requests) = mpsc::unbounded_channel();
        let watch = matches!(task, Task::Watch { .. }).then(|| WatchActor {
            id,
            said: said.clone(),
            requests,
            run: self.run,
            repairs: Rc::clone(&self.repairs),
            hang: self.hang,
        });
        let actor = Actor {
            requests: sender,
            asked: Arc::clone(&asked),
            killed: Arc::clone(&killed),
            log: Rc::clone(&self.log),
            begun: self.begun,
            verb: task.verb(),
            is_noted,
        };
        let (time, mut lines, code) = match task {
            Task::Watch { .. } | Task::Fleet => (self.watch, Vec::new(), 1),
            Task::History { .. } => {
                (self.history_time, self.history.iter().map(|line| line.clone().into_bytes()).collect(), 0)
            }
            Task::Health { .. } => {
                let mut rounds = self.health.borrow_mut();
                let round = if rounds.len() > 1 { Some(rounds.remove(0)) } else { rounds.first().cloned() };
                let lines = round.unwrap_or_default().into_iter().map(String::into_bytes);
                (self.health_time, lines.chain([summary(None, None, 0)]).collect(), 0)
            }
            Task::Apply { .. } | Task::Check => {
                let critical = if let Task::Apply { critical, .. } = task { &critical[..] } else { &[] };
                (self.run.0, run_lines(critical, &self.repairs, self.run.1), self.run.1)
            }
        };
        let (end, running) = (self.end, Rc::clone(&self.running));
        tokio::task::spawn_local(async move {
            let mut status = Exit::Exited(code.into());
            tokio::select! {
                () = async {
                    match watch {
                        Some(watch) => watch.play().await,
                        None => std::future::pending().await,
                    }
                } => {}
                () = tokio::time::sleep(time) => {}
                () = killed.notified() => {
                    lines.clear();
                    status = Exit::Signaled { signal: 9, core_dumped: false };
                }
                () = asked.notified() => {
                    lines.clear();
                    status = Exit::Exited(143);
                    tokio::select! {
                        () = tokio::time::sleep(end) => {}
                        () = killed.notified() => status = Exit::Signaled { signal: 9, core_dumped: false },
                    }
                }
            }
            for line in lines {
                let line = Line::parse(&line).unwrap();
                said.send((id, ChildEvent::Line(Box::new(line)))).await.unwrap();
            }
            if has_lock {
                running.replace(0);
            }
            let ended = Ended { status: Some(status), diagnostics: String::new() };
            said.send((id, ChildEvent::Ended(ended))).await.unwrap();
        });
        Ok(Box::new(actor))
    }

    fn use_config(&mut self, _: &Config) {}
}

fn summary(run: Option<Cow<'static, str>>, tally: Option<Tally>, exit_code: u8) -> Vec<u8> {
    let (refreshes_due, generation) = (0, None);
    let (time, duration, busy, error) = (None, None, None, None);
    Line::Summary { run, time, duration, tally, refreshes_due, generation, busy, exit_code, error }.to_bytes()
}

/// Keeps events in memory.
#[derive(Clone)]
struct Sink {
    events: Rc<RefCell<Vec<Event>>>,
    last: PathBuf,
    /// The start time of a run whose event is already recorded at the beginning.
    kept: Option<Timestamp>,
}

impl EventSink for Sink {
    fn record(&mut self, event: Event) {
        if let What::Run(run) = &event.what
            && run.run.as_deref() == Some("r")
        {
            // After a crash at this point, the run must still be queried.
            let last = fs::read_to_string(&self.last).unwrap();
            assert!(last.contains(&format!("\"begun\":\"{}\"", run.began)), "{last}");
        }
        self.events.borrow_mut().push(event);
    }

    fn hold(&mut self, _: Vec<Event>) {}

    fn retry(&mut self) {}

    fn has_run(&self, began: Timestamp) -> bool {
        self.kept == Some(began)
    }

    fn obstacle(&self) -> Option<&str> {
        None
    }

    fn last_seq(&self) -> u64 {
        self.events.borrow().last().map_or(0, |event| event.header.seq)
    }
}

/// A configuration that can be changed.
#[derive(Clone)]
struct Source(Rc<RefCell<Config>>);

impl ConfigSource for Source {
    fn load(&self) -> Result<Config, DocumentError> {
        Ok(self.0.borrow().clone())
    }
}

/// The setup of a simulation.
pub(super) struct Stage {
    pub(super) config: Config,
    pub(super) run: (Duration, u8),
    pub(super) watch: Duration,
    pub(super) end: Duration,
    pub(super) last: Option<String>,
    pub(super) kept: Option<Timestamp>,
    pub(super) history: Vec<String>,
    pub(super) history_time: Duration,
    pub(super) health: Vec<Vec<String>>,
    pub(super) health_time: Duration,
    pub(super) once: bool,
    /// The time after which watches do not answer any more.
    pub(super) hang: Duration,
    /// The times at which the clock is set, and by how many seconds.
    pub(super) sets: Vec<(Duration, i64)>,
}

/// The result of a simulation.
pub(super) struct Play {
    pub(super) log: Vec<(u64, String)>,
    pub(super) events: Vec<Event>,
    pub(super) is_well: bool,
}

impl Default for Stage {
    fn default() -> Self {
        Stage {
            config: Config::default(),
            run: (Duration::from_secs(10), 0),
            watch: Duration::MAX,
            end: Duration::from_secs(1),
            last: None,
            kept: None,
            history: Vec::new(),
            history_time: Duration::from_secs(1),
            health: Vec::new(),
            health_time: Duration::from_secs(1),
            once: false,
            hang: Duration::MAX,
            sets: Vec::new(),
        }
    }
}

impl Stage {
    /// Runs the agent for this time, with inputs at their times, and terminates it.
    pub(super) fn play(self, time: Duration, inputs: Vec<(Duration, Config)>) -> Play {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let log = Log::default();
        // In memory, so that writes are fast.
        let memory = Path::new("/dev/shm");
        let folder = if memory.exists() { TempDir::new_in(memory) } else { TempDir::new() }.unwrap();
        let last = folder.path().join("last.json");
        self.last.iter().for_each(|text| fs::write(&last, text).unwrap());
        let sink = Sink { events: Rc::default(), last: last.clone(), kept: self.kept };
        let local = tokio::task::LocalSet::new();
        let is_well = local.block_on(&runtime, async {
            let begun = Instant::now();
            let source = Source(Rc::new(RefCell::new(self.config)));
            let actors = Actors {
                log: Rc::clone(&log),
                begun,
                run: self.run,
                watch: self.watch,
                end: self.end,
                running: Rc::default(),
                history: self.history,
                history_time: self.history_time,
                health: self.health.into(),
                health_time: self.health_time,
                repairs: Rc::default(),
                hang: self.hang,
            };
            let mut daemon = Daemon::new(Parts {
                source: Box::new(source.clone()),
                launcher: Box::new(actors),
                sink: Box::new(sink.clone()),
                clock: Box::new(TestClock { begun, sets: self.sets.clone() }),
                rhythm: Rhythm::new("a machine"),
                last,
                metrics: Metrics::new().unwrap(),
            })
            .unwrap();
            let (sender, mut receiver) = mpsc::channel(4);
            let (setter, sets) = (sender.clone(), self.sets);
            tokio::task::spawn_local(async move {
                for (at, _) in sets {
                    sleep_until(begun + at).await;
                    setter.send(Input::ClockSet).await.unwrap();
                }
            });
            tokio::task::spawn_local(async move {
                for (at, config) in inputs {
                    sleep_until(begun + at).await;
                    source.0.replace(config);
                    sender.send(Input::Reload).await.unwrap();
                }
                sleep_until(begun + time).await;
                sender.send(Input::End).await.unwrap();
                std::future::pending::<()>().await;
            });
            if self.once {
                return daemon.go_once(&mut receiver).await;
            }
            daemon.go(&mut receiver).await;
            true
        });
        Play { log: log.take(), events: sink.events.take(), is_well }
    }
}

impl Play {
    /// Returns the times of an action in seconds.
    pub(super) fn times(&self, what: &str) -> Vec<u64> {
        self.log.iter().filter(|(_, word)| word == what).map(|(time, _)| *time).collect()
    }

    pub(super) fn words(&self) -> Vec<&str> {
        self.log.iter().map(|(_, word)| word.as_str()).collect()
    }
}

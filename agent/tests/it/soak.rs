//! A soak test: whatever happens to a machine and to the agent's processes, what is defined is restored, each drift is an
//! event once, and the agent needs no more than in the beginning.
//!
//! `HOLO_TEST_SOAK` sets the duration in seconds, and `HOLO_TEST_SEED` repeats the plan of a run.
#![expect(clippy::print_stdout, reason = "it prints what it has measured")]

mod booted;
mod drifts;
mod ledger;
mod processes;

use crate::harness::{Agent, PATIENCE, program, system_calls};
use crate::systemd::PROGRAMS;
use drifts::{DRIFTS, Defined, Drift, Kind, Machine, PLUGINS};
use holo_testing::binaries::built;
use holo_testing::overlay::NEEDS_TO_BOOT;
use holo_testing::require::is_complete;
use holo_testing::{Need, Random, ScratchRoot, random, trial_of};
use ledger::{Ledger, Page};
use libtest_mimic::Trial;
use processes::{Needs, Who};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The variable with the duration in seconds.
const SECONDS: &str = "HOLO_TEST_SOAK";
/// The numbers of entities, and the shuffled steps that the usual test takes with each: the first, the last, and how often
/// a definition comes and goes afterwards. What the watch forgets to free at each look at everything adds up then.
const SIZES: [(usize, Range<usize>, usize); 3] =
    [(100, 0..35, 0), (1000, 35..usize::MAX, 4), (10_000, 35..usize::MAX, 8)];
/// By default, there are no more entities than this.
const USUAL_SIZE: usize = 1000;
/// With it, the storm and a kill are on the larger machine.
const USUAL_SEED: u64 = 18_615;
/// The largest number of files that are removed at once.
const STORM: usize = 4000;
/// The time after the last event by which the agent has recorded a storm.
const STORM_ENDS: Duration = Duration::from_millis(2500);
/// The number of looks at idle processes, one of which must find no system call.
const QUIET_WITHIN: usize = 60;
/// How often the disk is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// The time for which processes are stopped.
const STOPPED: Duration = Duration::from_secs(2);

/// What is done to the machine and to the processes while something drifts.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    /// Very many files are removed at once.
    Storm,
    /// A file is removed as soon as it appears.
    Fight,
    /// A definition is invalid for a while.
    BrokenDefinition,
    /// A definition appears, and disappears again.
    Definition,
    /// A process gets a signal, and may be continued after a while.
    Signal(Who, Signal, Option<Duration>),
    /// Another agent is started.
    SecondAgent,
    /// A person applies everything.
    ManualApply,
    /// A person asks for a whole run.
    RunNow,
    /// Events cannot be written for a while.
    NoEvents,
    /// A person pauses the agent for a while.
    Pause,
}

/// All of them occur in each round.
const DISTURBANCES: [Disturbance; 16] = [
    Disturbance::Storm,
    Disturbance::Fight,
    Disturbance::BrokenDefinition,
    Disturbance::Definition,
    Disturbance::Signal(Who::Watch, Signal::KILL, None),
    Disturbance::Signal(Who::Plugin, Signal::KILL, None),
    Disturbance::Signal(Who::Agent, Signal::KILL, None),
    Disturbance::Signal(Who::Watch, Signal::STOP, Some(STOPPED)),
    Disturbance::Signal(Who::Plugin, Signal::STOP, Some(STOPPED)),
    Disturbance::Signal(Who::Agent, Signal::STOP, Some(STOPPED)),
    // Like a machine that is suspended.
    Disturbance::Signal(Who::All, Signal::STOP, Some(STOPPED)),
    Disturbance::SecondAgent,
    Disturbance::ManualApply,
    Disturbance::RunNow,
    Disturbance::NoEvents,
    Disturbance::Pause,
];

/// A step of the plan.
#[derive(Clone, Copy)]
enum Step {
    Drift(&'static Drift),
    Disturbance(Disturbance),
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |(size, steps, definitions): (usize, Range<usize>, usize)| {
        let name = format!("{size} entities live through drifts, storms, fights and kills");
        trial_of(&name, &[Need::Program("strace")], move || soak(size, steps, definitions))
    };
    let is_long = is_complete() || random::given(SECONDS).is_some();
    let sizes = SIZES.into_iter().filter(|(size, ..)| is_long || *size <= USUAL_SIZE);
    let needs: Vec<Need> = NEEDS_TO_BOOT.iter().copied().chain(PROGRAMS.map(Need::Program)).collect();
    let booted =
        trial_of("a booted machine lives through stopped units, lost packages and a full disk", &needs, booted::soak);
    sizes.map(trial).chain([booted]).collect()
}

fn soak(size: usize, usual: Range<usize>, definitions: usize) {
    let given = random::given(SECONDS);
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    // The usual test is always the same.
    let seed = random::given(random::SEED).unwrap_or_else(|| given.map_or(USUAL_SEED, |_| now()));
    let root = root(size);
    let mut soak = Soak::new(&root, size, seed, given.is_some());
    match given {
        Some(seconds) => soak.live(Duration::from_secs(seconds)),
        None => {
            let steps = soak.steps();
            let number = steps.len();
            let steps = steps.into_iter().take(usual.end.min(number)).skip(usual.start);
            steps.for_each(|step| soak.take(step));
            (0..definitions).for_each(|_| soak.take(Step::Disturbance(Disturbance::Definition)));
        }
    }
    println!("{}", soak.end());
}

/// Returns a root with all plugins, and an agent with short intervals.
fn root(size: usize) -> ScratchRoot {
    let root = PLUGINS.iter().fold(ScratchRoot::in_memory().binary(built("holo")), |root, plugin| root.plugin(plugin));
    // Otherwise, there would be nothing but runs.
    let interval = (size / 40).max(10);
    root.dir("etc/holorc.d")
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/machine-id", "0123456789abcdef0123456789abcdef\n")
        .file(CONFIG, format!("interval = \"{interval}s\"\n{ON_EDIT}"))
        .env(RECORD, "1")
        .time_limit(LONG_PATIENCE)
}

/// The variable with which the files plugin remembers valid definitions as on a real machine.
const RECORD: &str = "HOLO_FILES_RECORD";

fn start(root: &ScratchRoot) -> Agent<'_> {
    Agent::start_with(root, |program| {
        program.env(RECORD, "1");
    })
}

const CONFIG: &str = "etc/holo/agent.toml";
const ON_EDIT: &str = "[defaults]\non_edit = \"overwrite\"\n";
/// The timeout for what is done to thousands of entities.
const LONG_PATIENCE: Duration = Duration::from_secs(180);

/// What a step may lead to, beyond one event for each drift and one for each repair.
#[derive(Clone, Copy, Debug, Default)]
struct Leeway {
    /// Someone else may have repaired it before the agent saw it.
    others_repair: bool,
    /// The agent was killed: it may say again what it has forgotten, and what it was about to read is lost.
    agent_forgets: bool,
}

struct Soak<'r> {
    machine: Machine<'r>,
    agent: Option<Agent<'r>>,
    ledger: Ledger<'r>,
    random: Random,
    seed: u64,
    is_told: bool,
    /// The events of the current step.
    page: Page,
    step: String,
    /// The number of steps by name.
    taken: BTreeMap<String, usize>,
    /// The times until a single drift was repaired.
    reactions: Vec<Duration>,
    /// What the agent and the watch needed in the beginning.
    before: [Needs; 2],
    begun: Instant,
}

impl<'r> Soak<'r> {
    fn new(root: &'r ScratchRoot, size: usize, seed: u64, is_told: bool) -> Soak<'r> {
        let machine = Machine::new(root, size);
        let agent = start(root);
        let mut soak = Soak {
            machine,
            agent: Some(agent),
            ledger: Ledger::new(root),
            random: Random::new(seed),
            seed,
            is_told,
            page: Page::default(),
            step: "start".to_owned(),
            taken: BTreeMap::new(),
            reactions: Vec::new(),
            before: [Needs::default(); 2],
            begun: Instant::now(),
        };
        soak.until_calm();
        // A further look at everything leaves freed memory with the allocator.
        root.write("usr/share/holo/files/70-none.toml", "");
        soak.pass_time(Duration::from_secs(1));
        soak.until("that nothing but the agent and its watch runs", |soak| {
            Who::All.find(soak.agent().pid()).len() == 2
        });
        soak.pass_time(Duration::from_secs(1));
        soak.before = soak.needs();
        soak
    }

    fn agent(&mut self) -> &mut Agent<'r> {
        self.agent.as_mut().unwrap()
    }

    /// Fails, and says where.
    fn fail(&self, why: &str) -> ! {
        let differences = self.machine.differences();
        let said = self.agent.as_ref().map(Agent::said).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(60)..].join("\n");
        panic!(
            "{} entities, {}={}, step {} ({}): {why}\nNot as defined: {differences:?}\n{:#?}\nThe agent has said:\n{last}",
            self.machine.defined.len(),
            random::SEED,
            self.seed,
            self.taken.values().sum::<usize>(),
            self.step,
            self.page
        )
    }

    /// Waits until something is so. In the meantime, the agent's output is read.
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            if begun.elapsed() > 3 * PATIENCE + Duration::from_millis(10) * self.machine.defined.len() as u32 {
                self.fail(&format!("not so: {what}"));
            }
            self.agent().overhear(LOOK);
        }
    }

    /// Waits until events are so.
    fn until_events(&mut self, what: &str, is_so: impl Fn(&Page) -> bool) {
        let mut read = None;
        self.until(what, |soak| {
            if read.is_none_or(|read: Instant| read.elapsed() > Duration::from_millis(100)) {
                soak.ledger.read(&mut soak.page);
                read = Some(Instant::now());
            }
            is_so(&soak.page)
        });
    }

    /// Waits until the agent watches, and knows of no problem.
    fn until_calm(&mut self) {
        self.until("that all is well", |soak| {
            let is_calm = |status: &Value| {
                let is_empty = |key: &str| status[key].as_object().is_none_or(serde_json::Map::is_empty);
                status["doing"]["entities"].is_number() && is_empty("drifted") && is_empty("failed")
            };
            soak.agent().try_status().is_ok_and(|status| is_calm(&status))
        });
    }

    fn until_restored(&mut self, drifted: &[usize]) {
        let mut left = drifted.to_vec();
        self.until("that what has drifted is restored", |soak| {
            left.retain(|index| !soak.machine.is_as_defined(*index));
            left.is_empty()
        });
    }

    /// Waits until the events of what has drifted have come, and checks them.
    fn account(&mut self, drifted: &[usize], leeway: Leeway) {
        let ids: Vec<String> = drifted.iter().map(|index| self.machine.defined[*index].id.clone()).collect();
        self.account_for(&ids, leeway);
    }

    fn account_for(&mut self, ids: &[String], leeway: Leeway) {
        let number = ids.len() as u64;
        // What has failed, and is repaired by a run then, has not drifted.
        let is_even = |page: &Page| {
            let (ended, seen) = (page.number("repaired") + page.number("returned"), page.number("drifted"));
            ended == seen || page.changed_by_runs > 0 && ended == seen + page.number("failed")
        };
        self.until_events("that each drift is an event, and each repair", |page| {
            let seen = page.number("drifted");
            leeway.agent_forgets || (leeway.others_repair || seen + page.changed_by_runs >= number) && is_even(page)
        });
        self.until_calm();
        if leeway.others_repair || leeway.agent_forgets || self.page.changed_by_runs > 0 {
            // There may be more events than there must be.
            self.pass_time(STORM_ENDS);
        }
        self.ledger.read(&mut self.page);
        let page = &self.page;
        let times = if leeway.agent_forgets { 2 } else { 1 };
        let most = |kind: &str| ids.iter().map(|id| page.single(kind, id)).max().unwrap_or(0);
        let is_doubled = page.number("drifted") > times * number || most("drifted") > times || most("repaired") > 1;
        let is_about_others = page.entities().find(|entity| !ids.contains(entity));
        if let Some(other) = is_about_others {
            self.fail(&format!("there is an event about {other}"));
        }
        if is_doubled {
            self.fail("an event is doubled");
        }
        if !leeway.agent_forgets && !is_even(page) {
            self.fail("an event is lost or doubled");
        }
        self.page = Page::default();
    }

    /// Returns all kinds of steps in random order.
    fn steps(&mut self) -> Vec<Step> {
        let drifts = DRIFTS.iter().filter(|drift| drift.is_possible()).map(Step::Drift);
        let mut steps: Vec<Step> = drifts.chain(DISTURBANCES.map(Step::Disturbance)).collect();
        self.random.shuffle(&mut steps);
        steps
    }

    /// Takes each step once at least, and further ones until the time is over.
    fn live(&mut self, duration: Duration) {
        let end = Instant::now() + duration;
        self.steps().into_iter().for_each(|step| self.take(step));
        // It takes the agent a minute to notice.
        self.take(Step::Disturbance(Disturbance::Signal(Who::Watch, Signal::STOP, None)));
        while Instant::now() < end {
            for step in self.steps().into_iter().take_while(|_| Instant::now() < end) {
                self.take(step);
            }
        }
    }

    fn take(&mut self, step: Step) {
        self.step = match step {
            Step::Drift(drift) => drift.name.to_owned(),
            Step::Disturbance(disturbance) => format!("{disturbance:?}"),
        };
        let begun = Instant::now();
        match step {
            Step::Drift(drift) => self.drift(drift),
            Step::Disturbance(disturbance) => self.disturb(disturbance),
        }
        if self.is_told {
            println!("  {:6.2} s {}", begun.elapsed().as_secs_f64(), self.step);
        }
        *self.taken.entry(self.step.clone()).or_default() += 1;
    }

    /// Lets something drift, and waits until it is repaired.
    fn drift(&mut self, drift: &Drift) {
        let number = self.random.below(usize::MAX);
        let Some(index) = self.machine.candidate(drift, number) else { return };
        let drifted = self.machine.drift(drift, index);
        if let Some(undo) = drift.undo {
            let Defined { id, path, .. } = self.machine.defined[index].clone();
            self.until_events("that it fails", |page| page.single("failed", &id) == 1);
            undo(&self.machine.root.join(path)).unwrap();
        }
        let begun = Instant::now();
        self.until_restored(&drifted);
        self.reactions.push(begun.elapsed());
        self.account(&drifted, Leeway::default());
    }

    /// Lets some files drift, other than these, and returns them.
    fn some_drift(&mut self, but: &[usize]) -> Vec<usize> {
        let kinds: Vec<&Drift> = DRIFTS.iter().filter(|drift| drift.is_simple() && drift.is_possible()).collect();
        let count = 1 + self.random.below(8);
        let mut drifted: Vec<usize> = Vec::new();
        for _ in 0..count {
            let drift = *self.random.pick(&kinds);
            let number = self.random.below(usize::MAX);
            let is_new = |index: &usize| !but.contains(index) && !drifted.contains(index);
            if let Some(index) = self.machine.candidate(drift, number).filter(is_new) {
                drifted.extend(self.machine.drift(drift, index));
            }
        }
        drifted
    }

    /// Waits for up to this time.
    fn pass(&mut self, most: u64) {
        let time = Duration::from_millis(self.random.number() % most);
        self.pass_time(time);
    }

    fn pass_time(&mut self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            self.agent().overhear(time.saturating_sub(begun.elapsed()));
        }
    }

    /// Runs a command of the agent, which succeeds.
    fn command(&self, arguments: &[&str]) {
        let output = program(self.machine.root, arguments).output().unwrap();
        if output.ended.failure().is_some() {
            self.fail(&format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)));
        }
    }

    fn disturb(&mut self, disturbance: Disturbance) {
        match disturbance {
            Disturbance::Storm => self.storm(),
            Disturbance::Fight => self.fight(),
            Disturbance::BrokenDefinition => self.broken_definition(),
            Disturbance::Definition => self.definition(),
            Disturbance::Signal(who, signal, stopped) => self.signal(who, signal, stopped),
            Disturbance::SecondAgent => {
                let drifted = self.some_drift(&[]);
                let (code, said) = start(self.machine.root).end();
                if code != Some(1) || !said.contains("an agent runs already") {
                    self.fail(&format!("a second agent ends with {code:?}: {said}"));
                }
                self.until_restored(&drifted);
                self.account(&drifted, Leeway::default());
            }
            Disturbance::ManualApply => {
                let drifted = self.some_drift(&[]);
                self.pass(600);
                let run = self.machine.root.holo(&["apply", "--force"]);
                let is_busy = run.status == Some(255) && run.stderr_lossy().contains("lock");
                if !run.success() && !is_busy {
                    self.fail(&format!("an apply ends with {run}"));
                }
                self.until_restored(&drifted);
                self.account(&drifted, Leeway { others_repair: true, ..Leeway::default() });
            }
            Disturbance::RunNow => {
                let drifted = self.some_drift(&[]);
                self.pass(600);
                self.command(&["run-now"]);
                self.until_restored(&drifted);
                self.account(&drifted, Leeway::default());
            }
            Disturbance::NoEvents => self.no_events(),
            Disturbance::Pause => self.pause(),
        }
    }

    fn storm(&mut self) {
        let is_file = |index: &usize| self.machine.defined[*index].kind == Kind::File;
        let files: Vec<usize> = (0..self.machine.defined.len()).filter(is_file).collect();
        let drifted: Vec<usize> = files.into_iter().take(STORM).collect();
        for index in &drifted {
            fs::remove_file(self.machine.root.join(&self.machine.defined[*index].path)).unwrap();
        }
        self.until_restored(&drifted);
        self.account(&drifted, Leeway::default());
    }

    /// Undoes each repair until the file is left alone. A person ends that.
    fn fight(&mut self) {
        let is_fought = |defined: &Defined| defined.kind == Kind::Fought;
        let index = self.machine.defined.iter().position(is_fought).unwrap();
        let Defined { id, path, .. } = self.machine.defined[index].clone();
        let path = self.machine.root.join(path);
        let mut read = Instant::now();
        self.until("that what is fought over is left alone", |soak| {
            // It may be at the right place, but not complete yet.
            let _ = fs::remove_file(&path);
            if read.elapsed() > Duration::from_millis(200) {
                read = Instant::now();
                soak.ledger.read(&mut soak.page);
            }
            soak.page.single("failed", &id) == 1
        });
        self.command(&["resume"]);
        self.until_restored(&[index]);
        self.until_calm();
        self.pass_time(STORM_ENDS);
        self.ledger.read(&mut self.page);
        if self.page.single("failed", &id) != 1 || self.page.number("repaired") > 3 {
            self.fail("a fight goes on");
        }
        self.page = Page::default();
    }

    fn broken_definition(&mut self) {
        let file = "usr/share/holo/files/90-broken.toml";
        self.machine.root.write(file, "[[file]]\npath = \"relative\"\n");
        if self.random.chance(50) {
            self.until_events("that the definition is reported", |page| page.number("definition_error") == 1);
        }
        let drifted = self.some_drift(&[]);
        self.until_restored(&drifted);
        self.until_events("that the definition is reported", |page| page.number("definition_error") == 1);
        fs::remove_file(self.machine.root.join(file)).unwrap();
        self.account(&drifted, Leeway::default());
    }

    fn definition(&mut self) {
        let (file, path) = ("usr/share/holo/files/80-more.toml", "srv/more");
        self.machine.root.write(file, format!("[[file]]\npath = \"/{path}\"\ncontent = \"more\"\n"));
        let root = self.machine.root;
        let ids = [format!("file:/{path}")];
        self.until("that a new file is made", |_| root.exists(path));
        self.account_for(&ids, Leeway::default());
        fs::remove_file(root.join(file)).unwrap();
        self.until("that the file is removed", |_| !root.exists(path));
        self.account_for(&ids, Leeway::default());
    }

    fn signal(&mut self, who: Who, signal: Signal, stopped: Option<Duration>) {
        let mut drifted = self.some_drift(&[]);
        let mut found = Vec::new();
        if who == Who::Plugin {
            let begun = Instant::now();
            // It may be missed.
            while found.is_empty() && begun.elapsed() < Duration::from_secs(3) {
                found = who.find(self.agent().pid());
            }
            found.truncate(1);
        } else {
            self.pass(600);
            found = who.find(self.agent().pid());
        }
        // Some may have ended.
        let send = |signal| {
            for pid in &found {
                let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal);
            }
        };
        send(signal);
        let is_agent = who == Who::Agent;
        if let Some(stopped) = stopped {
            let more = self.some_drift(&drifted);
            std::thread::sleep(stopped);
            send(Signal::CONT);
            let drifted = [drifted, more].concat();
            self.until_restored(&drifted);
            self.account(&drifted, Leeway::default());
            return;
        }
        if signal == Signal::STOP {
            // What has drifted may be repaired already, and then the next step would wait until the agent notices.
            let more = self.some_drift(&drifted);
            drifted.extend(more);
        }
        if is_agent {
            let (code, said) = self.agent.take().unwrap().end();
            assert_eq!(code, None, "{said}");
            self.agent = Some(start(self.machine.root));
        }
        self.until_restored(&drifted);
        self.account(&drifted, Leeway { agent_forgets: is_agent, ..Leeway::default() });
    }

    fn pause(&mut self) {
        self.command(&["pause", "--reason", "they look for something"]);
        self.until("that it watches, and changes nothing", |soak| {
            let is_so = |status: &Value| status["doing"]["apply"] == false && status["doing"]["entities"].is_number();
            soak.agent().try_status().is_ok_and(|status| is_so(&status))
        });
        let drifted = self.some_drift(&[]);
        self.until_events("that what drifts is reported", |page| page.number("drifted") == drifted.len() as u64);
        if drifted.iter().any(|index| self.machine.is_as_defined(*index)) {
            self.fail("a paused agent repairs");
        }
        self.command(&["resume"]);
        self.until_restored(&drifted);
        self.account(&drifted, Leeway::default());
    }

    /// Writing to a directory fails, as on a full disk.
    fn no_events(&mut self) {
        let root = self.machine.root;
        let (events, aside) = (root.join("var/lib/holo-agent/events.jsonl"), root.join("tmp/events"));
        fs::rename(&events, &aside).unwrap();
        fs::create_dir(&events).unwrap();
        let mut drifted = self.some_drift(&[]);
        self.until_restored(&drifted);
        self.until("that events wait", |soak| {
            soak.agent().try_status().is_ok_and(|status| status["spool_error"].is_string())
        });
        fs::remove_dir(&events).unwrap();
        fs::rename(&aside, &events).unwrap();
        // They are written with the next one.
        let more = self.some_drift(&drifted);
        self.until_restored(&more);
        drifted.extend(more);
        self.account(&drifted, Leeway::default());
    }
}

impl Soak<'_> {
    /// Returns what the agent and its watch need.
    fn needs(&self) -> [Needs; 2] {
        let agent = self.agent.as_ref().unwrap().pid();
        let [watch] = Who::Watch.find(agent)[..] else { self.fail("there is not exactly one watch") };
        [agent, watch].map(Needs::of)
    }

    /// Checks that everything is as in the beginning, and returns a report.
    fn end(mut self) -> String {
        self.step = "end".to_owned();
        let root = self.machine.root;
        root.write(CONFIG, format!("interval = \"1h\"\n{ON_EDIT}"));
        self.agent().signal(Signal::HUP);
        self.agent().until_said("the configuration was reloaded");
        self.until_calm();
        let agent = self.agent().pid();
        let mut calls = Vec::new();
        for _ in 0..QUIET_WITHIN {
            let idle = [vec![agent], Who::Watch.find(agent)].concat();
            calls = system_calls(root, &idle);
            if calls.is_empty() {
                break;
            }
        }
        if !calls.is_empty() {
            calls.truncate(50);
            self.fail(&format!("idle processes make system calls: {calls:#?}"));
        }
        let after = self.needs();
        let [agent, watch] = [0, 1].map(|index| format!("{} -> {}", self.before[index], after[index]));
        let entities = self.machine.defined.len();
        if (0..2).any(|index| self.before[index].has_grown(after[index], entities)) {
            self.fail(&format!("the agent ({agent}) or its watch ({watch}) has grown"));
        }
        let check = root.holo(&["check"]);
        if !check.success() || !check.stdout.is_empty() || !check.stderr.is_empty() {
            self.fail(&format!("a check ends with {check}"));
        }
        let differences = self.machine.differences();
        if !differences.is_empty() || !root.refreshes().is_empty() {
            self.fail(&format!("these are not as in the beginning: {differences:?}; due: {:?}", root.refreshes()));
        }
        self.agent.take().unwrap().stop();
        self.ledger.read(&mut self.page);
        self.reactions.sort_unstable();
        let of = |percent: usize| self.reactions.get(self.reactions.len() * percent / 100).copied().unwrap_or_default();
        format!(
            "soak: {} entities, {}={}, {} steps in {:.0?}\n  agent: {agent}\n  watch: {watch}\n  \
             until a drift was repaired: {:.2?} (median), {:.2?} (99 %)\n  events: {:?}",
            self.machine.defined.len(),
            random::SEED,
            self.seed,
            self.taken.values().sum::<usize>(),
            self.begun.elapsed(),
            of(50),
            of(99),
            self.ledger.totals
        )
    }
}

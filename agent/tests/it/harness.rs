//! An agent on a temporary root.

use holo_process::{Channel, Event, Process, Program, Status};
use holo_testing::ScratchRoot;
use holo_testing::binaries::built;
use jsonschema::Validator;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The timeout for waiting on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The output of the agent that is remembered while it is overheard, in bytes.
const MEMORY: usize = 64 << 10;

/// A running agent.
pub(crate) struct Agent<'r> {
    root: &'r ScratchRoot,
    process: Process,
    said: String,
    status: Option<Status>,
}

/// Returns a root with a declared file, and a configuration of the agent.
pub(crate) fn root(config: &str) -> ScratchRoot {
    let root = ScratchRoot::new().binary(built("holo")).plugin("files").dir("etc/holorc.d").dir("srv/app");
    root.file("etc/os-release", "ID=unittest\n")
        .file("etc/machine-id", "0123456789abcdef0123456789abcdef\n")
        .file("etc/holo/agent.toml", config)
        .resource("files/app.toml", "[[file]]\npath = \"/srv/app/conf\"\ncontent = \"port 80\\n\"\n")
}

/// Returns the agent's program for that root.
pub(crate) fn program(root: &ScratchRoot, arguments: &[&str]) -> Program {
    let mut agent = Program::new(built("holo-agent"));
    agent.args(arguments).current_dir(root.path());
    agent.env("HOLO_ROOT_DIR", root.path()).env("TMPDIR", root.join("tmp")).env("LC_ALL", "C");
    agent.env_remove("NOTIFY_SOCKET").env_remove("JOURNAL_STREAM").env_remove("WATCHDOG_USEC");
    agent
}

impl<'r> Agent<'r> {
    /// Starts the agent.
    pub(crate) fn start(root: &'r ScratchRoot) -> Agent<'r> {
        Agent::start_with(root, |_| ())
    }

    /// Starts the agent with changes of its environment.
    pub(crate) fn start_with(root: &'r ScratchRoot, change: impl FnOnce(&mut Program)) -> Agent<'r> {
        let mut program = program(root, &["run"]);
        change(&mut program);
        let process = program.start().unwrap();
        Agent { root, process, said: String::new(), status: None }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Reads its output for a while.
    fn listen(&mut self, until: Instant) {
        let Agent { process, said, status, .. } = self;
        if status.is_some() {
            return;
        }
        Process::wait_for_any([&mut *process], &[], Some(until)).unwrap();
        let taken = process.take(&mut |event| match event {
            Event::Chunk(Channel::Stderr | Channel::Stdout, bytes) => said.push_str(&String::from_utf8_lossy(bytes)),
            Event::Ended(exit) => *status = Some(exit.status),
            _ => {}
        });
        taken.unwrap();
    }

    /// Reads its output until it says something more, but at most for this long, and forgets most of it.
    #[track_caller]
    pub(crate) fn overhear(&mut self, at_most: Duration) {
        self.listen(Instant::now() + at_most);
        assert!(self.status.is_none(), "it has ended ({:?}): {}", self.status, self.said);
        let excess = self.said.len().saturating_sub(MEMORY);
        if excess > 0 {
            let end = self.said.bytes().skip(excess).position(|byte| byte == b'\n').map_or(0, |end| excess + end + 1);
            self.said.drain(..end);
        }
    }

    /// Returns what it has said that was not waited for.
    pub(crate) fn said(&self) -> &str {
        &self.said
    }

    /// Waits for this text after the last one that was waited for, and returns all output up to the end of that line.
    #[track_caller]
    pub(crate) fn until_said(&mut self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.said.find(text)
                && let Some(end) = self.said[at..].find('\n')
            {
                return self.said.drain(..=at + end).collect();
            }
            let is_over = begun.elapsed() > PATIENCE || self.status.is_some();
            assert!(!is_over, "it does not say {text:?}, but {:?} ({:?})", self.said, self.status);
            self.listen(begun + PATIENCE);
        }
    }

    /// Waits until it ends, and returns its exit status and the rest of its output.
    #[track_caller]
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        while self.status.is_none() {
            assert!(begun.elapsed() < PATIENCE, "it does not end, but says {:?}", self.said);
            self.listen(begun + PATIENCE);
        }
        (self.status.and_then(Status::code), self.said)
    }

    /// Asks it to terminate, and checks that it succeeds.
    #[track_caller]
    pub(crate) fn stop(self) -> String {
        self.signal(Signal::TERM);
        let socket = self.root.join("run/holo-agent/control.sock");
        let (code, said) = self.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(!socket.exists());
        said
    }

    /// Returns its status.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.try_status().unwrap()
    }

    /// Returns its status if it already answers.
    pub(crate) fn try_status(&self) -> Result<Value, String> {
        let output = program(self.root, &["status", "--json"]).output().unwrap();
        match output.ended.failure() {
            None => Ok(validated(serde_json::from_slice(&output.stdout).unwrap())),
            Some(_) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Waits until the status meets a condition.
    #[track_caller]
    pub(crate) fn until_status(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let status = self.try_status();
            if let Ok(status) = &status
                && is_so(status)
            {
                return status.clone();
            }
            let is_over = begun.elapsed() > PATIENCE || self.status.is_some();
            assert!(!is_over, "{what} is not so, but {status:#?}; it has said {}", self.said);
            self.listen(Instant::now() + Duration::from_millis(20));
        }
    }

    /// Waits until it watches.
    #[track_caller]
    pub(crate) fn until_watching(&mut self) -> Value {
        self.until_status("watching", |status| status["doing"]["entities"].is_number())
    }
}

/// Returns the events on disk.
#[track_caller]
pub(crate) fn events(root: &ScratchRoot) -> Vec<Value> {
    let text = fs::read_to_string(root.join("var/lib/holo-agent/events.jsonl")).unwrap();
    let events: Vec<Value> = text.lines().map(|line| validated(serde_json::from_str(line).unwrap())).collect();
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|one, other| one < other), "{numbers:?}");
    events
}

/// The schema of the lines of `events --json` and `status --json`.
static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
    let schema = include_str!("../../../schema/holo-agent-events.schema.json");
    jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap()
});

/// Checks a line against the schema, and that no text in it is empty.
#[track_caller]
pub(crate) fn validated(line: Value) -> Value {
    let errors: Vec<String> = SCHEMA.iter_errors(&line).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{line:#}: {errors:?}");
    assert!(["host", "boot", "reason", "error"].iter().all(|key| line[key] != ""), "{line:#}");
    line
}

/// Returns the kinds of events, with the results of runs and the states of watches. That a watch has started is left out.
pub(crate) fn kinds(events: &[Value]) -> Vec<String> {
    let kind = |event: &Value| event["kind"].as_str().unwrap().to_owned();
    let state = |event: &Value| event["state"].as_str().filter(|_| event["kind"] == "watch").map(str::to_owned);
    let result = |event: &Value| event["result"].as_str().map(str::to_owned);
    let name = |event: &Value| match result(event).or_else(|| state(event)) {
        Some(result) => format!("{} {result}", kind(event)),
        None => kind(event),
    };
    events.iter().map(name).filter(|name| name != "watch started").collect()
}

/// Returns the system calls that processes make in a few seconds, other than those in which they already wait.
#[track_caller]
pub(crate) fn system_calls(root: &ScratchRoot, pids: &[u32]) -> Vec<String> {
    let trace = root.join("tmp/trace");
    let mut strace = Program::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(&trace);
    strace.args(pids.iter().flat_map(|pid| ["-p".to_owned(), pid.to_string()]));
    let ended = strace.timeout(Duration::from_secs(5)).run(|_, _| {}).unwrap();
    assert!(ended.timed_out.is_some(), "{:?}", ended.last_lines(3));
    let calls = fs::read_to_string(&trace).unwrap();
    // System calls in which it waits are shown as unfinished.
    let is_made = |line: &&str| !["<unfinished", "<detached", "resumed"].iter().any(|mark| line.contains(mark));
    calls.lines().filter(is_made).map(str::to_owned).collect()
}

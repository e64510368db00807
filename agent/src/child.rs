//! A child process `holo`: its output and its end.

use crate::config::{Config, OnEdit};
use crate::event::What;
use bstr::{BString, ByteSlice};
use holo_events::Line;
use holo_process::{Channel, Event, Process, Program, ProgramError, Status, beside};
use jiff::Timestamp;
use rustix::pipe::{PIPE_BUF, PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fmt::Display;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;
use std::{io, thread};
use tokio::sync::mpsc::Sender;

/// The agent's name in records of runs.
pub const TRIGGER: &str = "holo-agent";
/// The number of bytes of standard error that are kept.
const TAIL: usize = 4 << 10;

/// The purpose of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Apply entities.
    Apply {
        /// Their IDs; all entities if empty.
        entities: Vec<String>,
        /// Those whose health is critical.
        critical: Vec<String>,
        /// The time in which an entity that acts at every apply does so once; `None` if a person asks for the apply, which
        /// then has no limits.
        unattended: Option<Duration>,
    },
    /// Check all entities.
    Check,
    /// Run the health checks of entities.
    Health {
        /// Their IDs; all entities if empty.
        entities: Vec<String>,
    },
    /// Show the records of earlier runs.
    History {
        /// The earliest start time.
        since: Timestamp,
    },
    /// Watch all entities.
    Watch {
        /// True if drift is repaired.
        apply: bool,
    },
    /// Connect to the fleet, with `holo-fleet` instead of `holo`.
    Fleet,
}

impl Task {
    /// Returns the holo command.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Task::Apply { .. } => "apply",
            Task::Check => "check",
            Task::Health { .. } => "health",
            Task::History { .. } => "history",
            Task::Watch { .. } => "watch",
            Task::Fleet => "host",
        }
    }

    /// Returns the command-line arguments.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        if *self == Task::Fleet {
            return ["host", "run"].map(Into::into).into();
        }
        let mut arguments: Vec<String> = vec![self.verb().into(), "--json".into()];
        match self {
            Task::Watch { apply } => {
                // No person reads the output, so a fast reaction is worth a few more lines.
                arguments.extend(["--requests", "--settle=100ms"].map(Into::into));
                arguments.extend(apply.then(|| "--apply".into()));
            }
            Task::History { since } => {
                arguments.extend(["--number", "0", "--since"].map(Into::into));
                arguments.push(since.to_string());
            }
            Task::Apply { entities, critical, unattended } => {
                arguments.extend(unattended.iter().map(|time| format!("--unattended={}ms", time.as_millis())));
                arguments.extend(critical.iter().map(|entity| format!("--critical={entity}")));
                arguments.extend(entities.iter().cloned());
            }
            Task::Health { entities } => arguments.extend(entities.iter().cloned()),
            Task::Check | Task::Fleet => {}
        }
        arguments
    }
}

/// The number of a child, which is unique within this agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildId(pub u64);

/// Output of a child, or its end, which comes last.
#[derive(Debug)]
pub enum ChildEvent {
    /// A line of `--json`.
    Line(Box<Line<'static>>),
    /// A line of `holo-fleet`.
    News(Box<What>),
    /// Other standard output, with the reason why it is not a line.
    Garbage(String),
    /// The child has ended.
    Ended(Ended),
}

/// The end of a child.
#[derive(Debug)]
pub struct Ended {
    /// The exit status; `None` if the system does not report it.
    pub status: Option<Status>,
    /// The end of its standard error.
    pub diagnostics: String,
}

impl Ended {
    /// Returns the end of a run that a watch has done, with this status.
    #[must_use]
    pub fn with(status: Status) -> Ended {
        Ended { status: Some(status), diagnostics: String::new() }
    }
}

/// A running child. It keeps running if this value is dropped.
pub trait Running {
    /// Asks it to terminate.
    fn end(&self);

    /// Kills it.
    fn kill(&self);

    /// Sends a request to a watch: the words of a command, or `ping`. Returns false if it does not take it now.
    fn request(&self, words: &[String]) -> bool;
}

/// Starts children.
pub trait Launcher {
    /// Starts a child. Its output and then its end are sent with its number.
    ///
    /// # Errors
    /// If it cannot be started.
    fn start(
        &mut self,
        task: &Task,
        id: ChildId,
        said: Sender<(ChildId, ChildEvent)>,
    ) -> Result<Box<dyn Running>, StartError>;

    /// Applies a new configuration.
    fn use_config(&mut self, config: &Config);
}

/// The reason why a child cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program cannot be started.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The system lacks resources.
    #[error("cannot wait for holo: {0}")]
    System(#[from] io::Error),
}

/// Starts the program `holo`.
#[derive(Debug, Default)]
pub struct Holo {
    program: Option<PathBuf>,
    on_edit: OnEdit,
}

impl Holo {
    fn program(&self, task: &Task) -> PathBuf {
        let name = if *task == Task::Fleet { "holo-fleet" } else { "holo" };
        let configured = self.program.clone().filter(|_| *task != Task::Fleet);
        configured.unwrap_or_else(|| beside(name))
    }
}

impl Launcher for Holo {
    fn start(
        &mut self,
        task: &Task,
        id: ChildId,
        said: Sender<(ChildId, ChildEvent)>,
    ) -> Result<Box<dyn Running>, StartError> {
        let mut program = Program::new(self.program(task));
        program.args(task.arguments()).env("HOLO_TRIGGER", TRIGGER);
        let has_policy = matches!(task, Task::Apply { .. } | Task::Check | Task::Watch { .. });
        if has_policy && self.on_edit == OnEdit::Overwrite {
            program.arg("--on-edit=overwrite");
        }
        // A fleet's program ends with the agent, because its standard input does.
        let requests = if matches!(task, Task::Watch { .. } | Task::Fleet) {
            let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
            // The agent must not wait for a watch that does not read.
            rustix::io::ioctl_fionbio(&write_end, true).map_err(io::Error::from)?;
            program.stdin_file(read_end.into());
            Some(write_end)
        } else {
            None
        };
        if *task == Task::Fleet {
            // What it says there is for the journal.
            program.stderr_file(io::stderr().as_fd().try_clone_to_owned()?.into());
        }
        let process = program.start()?;
        // The PID still refers to this process, because it has not been waited for.
        let handle = Pid::from_raw(process.id().cast_signed())
            .map(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .transpose()
            .map_err(io::Error::from)?;
        let name = format!("holo {}", task.verb());
        let parse = if *task == Task::Fleet { parse_news } else { parse_line };
        thread::Builder::new().name(name).spawn(move || listen(process, id, parse, &said))?;
        Ok(Box::new(Handle { process: handle, requests }))
    }

    fn use_config(&mut self, config: &Config) {
        self.program = config.holo.clone();
        self.on_edit = config.defaults.on_edit;
    }
}

struct Handle {
    process: Option<OwnedFd>,
    /// The standard input of a watch.
    requests: Option<OwnedFd>,
}

impl Handle {
    fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            // The process may have ended.
            let _ = pidfd_send_signal(process, signal);
        }
    }
}

impl Running for Handle {
    fn end(&self) {
        self.signal(Signal::TERM);
        // A stopped process could not handle the signal.
        self.signal(Signal::CONT);
    }

    fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn request(&self, words: &[String]) -> bool {
        let Some((requests, mut line)) = self.requests.as_ref().zip(serde_json::to_vec(words).ok()) else {
            return false;
        };
        line.push(b'\n');
        // A longer line might be written in part.
        line.len() <= PIPE_BUF && rustix::io::write(requests, &line).is_ok()
    }
}

/// Forwards the output of a child until it ends. Blocks without polling while there is no output.
fn listen(mut process: Process, id: ChildId, parse: Parse, said: &Sender<(ChildId, ChildEvent)>) {
    let (mut lines, mut diagnostics) = (Lines::new(parse), BString::default());
    loop {
        let mut end = None;
        let mut heard = Vec::new();
        let waited = Process::wait_for_any([&mut process], &[], None).and_then(|_| {
            process.take(&mut |event| match event {
                Event::Chunk(Channel::Stdout, bytes) => lines.take(bytes, &mut |line| heard.push(line)),
                Event::Chunk(_, bytes) => {
                    diagnostics.extend_from_slice(bytes);
                    let surplus = diagnostics.len().saturating_sub(TAIL);
                    diagnostics.drain(..surplus);
                }
                Event::Ended(exit) => end = Some(exit.status),
                Event::Stopped(status) => end = Some(status),
                Event::Waiting => {}
            })
        });
        let is_over = end.is_some() || waited.is_err();
        if is_over {
            heard.extend(lines.rest());
            let diagnostics = diagnostics.trim().to_str_lossy().into_owned();
            heard.push(ChildEvent::Ended(Ended { status: end, diagnostics }));
        }
        // The receiver is gone if the agent itself has ended.
        if heard.into_iter().any(|heard| said.blocking_send((id, heard)).is_err()) || is_over {
            return;
        }
    }
}

/// The maximum length of a line; longer ones are skipped.
const MAX_LINE: usize = 16 << 20;

/// Reads a line.
type Parse = fn(&[u8]) -> ChildEvent;

fn parse_line(line: &[u8]) -> ChildEvent {
    Line::parse(line).map_or_else(|error| garbage(&error, line), |line| ChildEvent::Line(Box::new(line)))
}

fn parse_news(line: &[u8]) -> ChildEvent {
    serde_json::from_slice(line).map_or_else(|error| garbage(&error, line), |news| ChildEvent::News(Box::new(news)))
}

fn garbage(error: &dyn Display, line: &[u8]) -> ChildEvent {
    ChildEvent::Garbage(format!("{error}: {}", beginning(line)))
}

/// Splits pieces of output into lines.
struct Lines {
    begun: Vec<u8>,
    is_too_long: bool,
    parse: Parse,
}

impl Lines {
    fn new(parse: Parse) -> Lines {
        Lines { begun: Vec::new(), is_too_long: false, parse }
    }

    fn take(&mut self, bytes: &[u8], seen: &mut dyn FnMut(ChildEvent)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.begun.len() + piece.len() > MAX_LINE {
                self.is_too_long = true;
                self.begun = Vec::new();
            }
            if !self.is_too_long {
                self.begun.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                seen(self.end_line());
            }
        }
    }

    fn end_line(&mut self) -> ChildEvent {
        if std::mem::take(&mut self.is_too_long) {
            return ChildEvent::Garbage(format!("a line of more than {MAX_LINE} bytes"));
        }
        let line = std::mem::take(&mut self.begun);
        (self.parse)(&line)
    }

    fn rest(&mut self) -> Option<ChildEvent> {
        (!self.begun.is_empty() || self.is_too_long).then(|| self.end_line())
    }
}

/// Returns the start of the output on a single line.
fn beginning(text: &[u8]) -> String {
    text.trim().to_str_lossy().chars().take(80).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod lines_tests {
    use super::*;

    #[test]
    fn lines_come_in_pieces_and_garbage_is_told_from_them() {
        let mut said = Vec::new();
        let mut lines = Lines::new(parse_line);
        let text = b"{\"version\":1,\"event\":\"watching\",\"entities\":3}\nnonsense\n{\"version\":1,\"event\":\"wat";
        for byte in text {
            lines.take(&[*byte], &mut |line| said.push(line));
        }
        said.extend(lines.rest());
        let [ChildEvent::Line(line), ChildEvent::Garbage(garbage), ChildEvent::Garbage(rest)] = &said[..] else {
            panic!("{said:?}")
        };
        assert!(matches!(**line, Line::Watching { entities: 3 }));
        assert!(garbage.ends_with(": nonsense") && rest.contains("EOF"), "{garbage} {rest}");
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let mut said = Vec::new();
        let mut lines = Lines::new(parse_line);
        for _ in 0..40 {
            lines.take(&vec![b'x'; 1 << 20], &mut |line| said.push(line));
            assert!(lines.begun.len() <= MAX_LINE);
        }
        lines.take(b"x\n{\"version\":1,\"event\":\"watching\",\"entities\":3}\n", &mut |line| said.push(line));
        assert!(matches!(&said[..], [ChildEvent::Garbage(_), ChildEvent::Line(_)]), "{said:?}");
    }
}

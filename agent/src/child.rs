//! A `holo` that runs: what it says, and its end.

mod lines;

use bstr::{BString, ByteSlice};
use holo_events::Line;
use holo_process::{Channel, Event, Process, Program, ProgramError, Status};
use jiff::Timestamp;
use lines::Lines;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread;
use tokio::sync::mpsc::Sender;

/// The name by which records of runs have the agent.
pub const TRIGGER: &str = "holo-agent";
/// The number of bytes that are kept of what it says on standard error.
const TAIL: usize = 4 << 10;

/// The work that holo is started for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Entities are applied.
    Apply {
        /// Their IDs; everything if there are none.
        entities: Vec<String>,
    },
    /// Everything is looked at.
    Check,
    /// The health checks of entities are run.
    Health {
        /// Their IDs; everything if there are none.
        entities: Vec<String>,
    },
    /// The records of earlier runs are shown.
    History {
        /// The time at which the first of them began.
        since: Timestamp,
    },
    /// Everything is watched, and applied if that is wanted.
    Watch {
        /// True if what has drifted is brought back.
        apply: bool,
    },
}

impl Task {
    /// Returns the command of holo.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Task::Apply { .. } => "apply",
            Task::Check => "check",
            Task::Health { .. } => "health",
            Task::History { .. } => "history",
            Task::Watch { .. } => "watch",
        }
    }

    /// Returns the arguments of holo.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec![self.verb().into(), "--json".into()];
        match self {
            Task::Watch { apply: true } => arguments.push("--apply".into()),
            Task::History { since } => {
                arguments.extend(["--number", "0", "--since"].map(Into::into));
                arguments.push(since.to_string().into());
            }
            Task::Apply { entities } | Task::Health { entities } => arguments.extend(entities.iter().map(Into::into)),
            Task::Watch { apply: false } | Task::Check => {}
        }
        arguments
    }
}

/// The number of a child, which no other one of this agent has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildId(pub u64);

/// Something that a child has said, or its end, which is the last.
#[derive(Debug)]
pub enum Said {
    /// A line of its `--json`.
    Line(Box<Line<'static>>),
    /// Something else on standard output, and why it is no line.
    Garbage(String),
    /// It has ended.
    Ended(Ended),
}

/// The end of a child.
#[derive(Debug)]
pub struct Ended {
    /// How it ended; nothing if the system does not say.
    pub status: Option<Status>,
    /// What it said last on standard error.
    pub diagnostics: String,
}

/// A child that runs. It goes on if this is dropped.
pub trait Running {
    /// Asks it to end.
    fn end(&self);

    /// Ends it, whatever it does.
    fn kill(&self);
}

/// Starts children.
pub trait Launcher {
    /// Starts one. What it says is sent with its number, its end last.
    ///
    /// # Errors
    /// If it cannot be started.
    fn start(
        &mut self,
        task: &Task,
        id: ChildId,
        said: Sender<(ChildId, Said)>,
    ) -> Result<Box<dyn Running>, StartError>;

    /// Takes the program from now on, if one is named.
    fn set_program(&mut self, program: Option<PathBuf>);
}

/// A child that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program cannot be started.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The system has no room for it.
    #[error("cannot wait for holo: {0}")]
    System(#[from] io::Error),
}

/// Starts the program `holo`.
#[derive(Debug, Default)]
pub struct Holo {
    program: Option<PathBuf>,
}

impl Holo {
    fn program(&self) -> OsString {
        let beside = || Some(std::env::current_exe().ok()?.with_file_name("holo")).filter(|path| path.exists());
        self.program.clone().or_else(beside).map_or_else(|| "holo".into(), Into::into)
    }
}

impl Launcher for Holo {
    fn start(
        &mut self,
        task: &Task,
        id: ChildId,
        said: Sender<(ChildId, Said)>,
    ) -> Result<Box<dyn Running>, StartError> {
        let mut program = Program::new(self.program());
        program.args(task.arguments()).env("HOLO_TRIGGER", TRIGGER);
        let process = program.start()?;
        // The number is that of this process: nobody has waited for it.
        let handle = Pid::from_raw(process.id().cast_signed())
            .map(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .transpose()
            .map_err(io::Error::from)?;
        let name = format!("holo {}", task.verb());
        thread::Builder::new().name(name).spawn(move || listen(process, id, &said))?;
        Ok(Box::new(Handle(handle)))
    }

    fn set_program(&mut self, program: Option<PathBuf>) {
        self.program = program;
    }
}

struct Handle(Option<OwnedFd>);

impl Handle {
    fn signal(&self, signal: Signal) {
        if let Some(process) = &self.0 {
            // It may have ended.
            let _ = pidfd_send_signal(process, signal);
        }
    }
}

impl Running for Handle {
    fn end(&self) {
        self.signal(Signal::TERM);
        // One that is stopped could not.
        self.signal(Signal::CONT);
    }

    fn kill(&self) {
        self.signal(Signal::KILL);
    }
}

/// Hands on what a child says until it ends. This does nothing at all while it says nothing.
fn listen(mut process: Process, id: ChildId, said: &Sender<(ChildId, Said)>) {
    let (mut lines, mut diagnostics) = (Lines::default(), BString::default());
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
            heard.push(Said::Ended(Ended { status: end, diagnostics }));
        }
        // Nobody listens any more when the agent itself has ended.
        if heard.into_iter().any(|heard| said.blocking_send((id, heard)).is_err()) || is_over {
            return;
        }
    }
}

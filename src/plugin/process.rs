//! Runs plugins and generators for a task, and reports errors in the words of version 3.

use crate::error::{FatalError, IoError};
use crate::host::interrupt::Interrupt;
use bstr::{BStr, BString};
use holo_process::ProgramError;
use holo_protocol::session::{Operation, Stream};
use holo_protocol::words::reason;
use holo_protocol::{FilePair, Message, environment};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

pub use holo_process::{Channel, Event, Exit, OutputMeter, Process, TooMuchError};

/// The maximum time that a program which was asked to end may take for work that must not be interrupted.
const UNINTERRUPTED_LIMIT: Duration = Duration::from_secs(35 * 60);

/// Returns the maximum output of an operation on this number of entities, each of which has a few answers in a session.
/// The limit is that of other operations than a scan, whose report about a hundred thousand entities needs 30 MB.
pub(super) fn max_output(operation: Operation, entities: usize, limit: u64) -> u64 {
    let max = if operation == Operation::Scan { limit.saturating_mul(4) } else { limit };
    max.saturating_add(entities as u64 * 4096)
}

/// How to change the limit of output, for errors.
pub(super) const SETTING: &str = "[limits] in /etc/holo/engine.toml sets the limit";

/// A program to be started.
#[derive(Debug)]
pub struct Program<'a> {
    /// The path of the program. A name without a slash refers to the working directory, never to `$PATH`.
    pub path: &'a Path,
    /// Its arguments.
    pub arguments: Vec<&'a OsStr>,
    /// The variables that are added to its environment.
    pub environment: Vec<(&'static str, OsString)>,
    /// Whether it gets a pipe as file descriptor 3.
    pub messages: bool,
    /// Whether it gets a pipe as its standard input, instead of `/dev/null`.
    pub requests: bool,
    /// The time limit that [`run`](Program::run) enforces.
    pub limit: Option<Duration>,
    /// The maximum number of bytes on all of its pipes, which [`run`](Program::run) enforces.
    pub max_output: u64,
}

/// An event of a running program.
#[derive(Debug)]
pub enum Heard<'a> {
    /// It wrote these bytes to this pipe.
    Chunk(Channel, &'a [u8]),
    /// It is still running; sent about once a second.
    Waiting,
}

/// A program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system could not start it. The message is in the words of version 3, with the path as given: `fork/exec
    /// PATH: permission denied`.
    #[error(transparent)]
    Exec(IoError),
    /// Another error.
    #[error(transparent)]
    Other(ProgramError),
}

/// A program did not run to completion.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It exceeded this time limit.
    #[error("timed out after {0:?}")]
    TimedOut(Duration),
    /// It wrote more than this number of bytes.
    #[error("{0}; {SETTING}")]
    TooMuch(#[from] TooMuchError),
    /// A signal requested the end; the process and its group are gone.
    #[error(transparent)]
    Interrupted(#[from] FatalError),
}

/// Counts output of a process. If it is too much, the process is asked to end, which [`wait`] reports as
/// [`Event::Stopped`].
pub(super) fn count_output(meter: &mut OutputMeter, bytes: usize, process: &mut Process) {
    if meter.count(bytes).is_err() && !process.is_ending() {
        process.set_alarm(Some(Instant::now()));
    }
}

/// Waiting for a program failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot wait for a plugin: {}", reason(.0))]
struct WaitError(io::Error);

impl Program<'_> {
    /// Starts the program.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(self) -> Result<Process, StartError> {
        let is_name = self.path.components().count() == 1;
        let path = if is_name { Path::new(".").join(self.path) } else { self.path.to_owned() };
        let mut program = holo_process::Program::new(path);
        program.args(self.arguments);
        if self.messages {
            program.extra_pipe();
        }
        if self.requests {
            program.requests();
        }
        for (name, value) in self.environment {
            if name == environment::CACHE_DIR {
                let lock = Path::new(&value).join(environment::UNINTERRUPTED);
                program.uninterrupted_while_locked(lock, UNINTERRUPTED_LIMIT);
            }
            program.env(name, value);
        }
        program.start().map_err(|error| match error {
            ProgramError::NotFound(holo_process::StartError::Exec { source, .. })
            | ProgramError::NotStarted(holo_process::StartError::Exec { source, .. }) => {
                StartError::Exec(IoError::new("fork/exec", self.path, source))
            }
            error => StartError::Other(error),
        })
    }

    /// Runs the program to completion.
    ///
    /// # Errors
    /// If it cannot be started ([`RunError::Start`]), exceeds its time limit ([`RunError::TimedOut`]) or the limit of
    /// its output ([`RunError::TooMuch`]), or a signal requests the end ([`RunError::Interrupted`]).
    pub fn run(self, interrupt: &Interrupt, mut seen: impl FnMut(Channel, &[u8])) -> Result<Exit, RunError> {
        self.run_patiently(interrupt, |heard| {
            if let Heard::Chunk(channel, bytes) = heard {
                seen(channel, bytes);
            }
        })
    }

    /// Like [`run`](Self::run), but also reports about once a second that the program is still running.
    ///
    /// # Errors
    /// Like `run`.
    pub fn run_patiently(self, interrupt: &Interrupt, mut heard: impl FnMut(Heard<'_>)) -> Result<Exit, RunError> {
        let limit = self.limit;
        let mut meter = OutputMeter::new(self.max_output);
        let mut process = self.start()?;
        process.set_alarm(limit.and_then(|limit| Instant::now().checked_add(limit)));
        let mut end = None;
        loop {
            let mut written = 0;
            wait(&mut process, interrupt, |event| match event {
                Event::Chunk(channel, bytes) => {
                    written += bytes.len();
                    if meter.check().is_ok() {
                        heard(Heard::Chunk(channel, bytes));
                    }
                }
                Event::Waiting => heard(Heard::Waiting),
                Event::Ended(exit) => end = Some(Ok(exit)),
                Event::Stopped(_) => end = Some(Err(RunError::TimedOut(limit.unwrap_or_default()))),
            })?;
            count_output(&mut meter, written, &mut process);
            if let Some(end) = end {
                meter.check()?;
                return end;
            }
        }
    }
}

/// Waits for events of a program, and passes them on. [`Event::Stopped`] occurs only if the program was late.
///
/// # Errors
/// [`FatalError::Interrupted`] if a signal requested the end. The process group was asked to end, and killed if it did
/// not.
pub fn wait(process: &mut Process, interrupt: &Interrupt, mut seen: impl FnMut(Event<'_>)) -> Result<(), FatalError> {
    interrupt.note_wait();
    let mut goes_on = Ok(());
    let waited = process.wait(Some(interrupt), &mut |event| {
        if matches!(event, Event::Stopped(_)) {
            goes_on = interrupt.check();
        }
        if goes_on.is_ok() {
            seen(event);
        }
    });
    waited.map_err(|error| FatalError::could_not_run(WaitError(error)))?;
    goes_on
}

/// The operation requested for an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Find out what an apply would do.
    Check,
    /// Bring it into its desired state.
    Apply,
    /// Like `Apply`, but overwrite manual changes.
    ForceApply,
    /// Remove its record, and leave the system as it is.
    Forget,
}

impl Task {
    pub(super) fn operation(self) -> Operation {
        match self {
            Task::Check => Operation::Check,
            Task::Apply => Operation::Apply,
            Task::ForceApply => Operation::ForceApply,
            Task::Forget => Operation::Forget,
        }
    }

    /// Returns true if it changes the system.
    #[must_use]
    pub fn is_apply(self) -> bool {
        matches!(self, Task::Apply | Task::ForceApply)
    }
}

/// An entity to work on.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Its ID.
    pub id: &'a BStr,
    /// Whether it must be refreshed because an entity that it depends on has changed.
    pub refresh: bool,
    /// The time from which the refresh has been due, in seconds since the epoch, if it is known.
    pub due_since: Option<i64>,
    /// Whether, in a check, a pending entity may provide what this one lacks.
    pub pending: bool,
    /// The values sent to it with its refresh, and those that it receives by its definition, each `KEY=VALUE`.
    pub received: &'a [BString],
    /// The names of the values that others receive from it.
    pub wanted: &'a [BString],
    /// Whether its received values have changed since it was scanned.
    pub renewed: bool,
}

impl<'a> Job<'a> {
    /// Returns true if the result rests on the entity alone, and not on others.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        !(self.refresh || self.pending || self.renewed) && self.received.is_empty() && self.wanted.is_empty()
    }

    /// Returns a job for an entity, without a refresh or values.
    #[must_use]
    pub fn new(id: &'a BStr) -> Job<'a> {
        Job { id, refresh: false, due_since: None, pending: false, received: &[], wanted: &[], renewed: false }
    }
}

/// The progress of a plugin's work on an entity.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Output for the user.
    Output(Stream, &'a [u8]),
    /// A message from file descriptor 3.
    Message(Message),
    /// The two files that show a manual change. Follows [`Message::RequiresForceToOverwrite`], or is the whole answer
    /// of a plugin of version 3 to a check.
    Diff(FilePair),
    /// Two files were expected, but the plugin could not provide them.
    CannotDiff(String),
    /// A warning about the plugin itself.
    Warning(String),
    /// It has been worked on for this time.
    Waiting(Duration),
    /// Not about an entity: marks progress that has arrived together, so that no wait occurs within it.
    Burst {
        /// Whether this is the end.
        is_over: bool,
    },
    /// The entity is finished.
    Done,
    /// The entity is finished, and failed.
    Failed(Failure),
}

/// The ways in which a plugin fails with an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It has reported the reason itself.
    Told,
    /// It ended with this unsuccessful status.
    Status(String),
    /// It could not do its work, for this reason.
    Broken(String),
}

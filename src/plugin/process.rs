//! Plugins and generators as programs, in version 3's words.

use crate::error::{FatalError, IoError};
use crate::interrupt::Interrupt;
use holo_process::ProgramError;
use holo_protocol::environment;
use holo_protocol::words::reason;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

pub use holo_process::{Channel, Event, Exit, Process};

/// The time that a program which is asked to end is waited for while it does what must not be cut off.
const UNINTERRUPTED_LIMIT: Duration = Duration::from_secs(35 * 60);

/// A program to be started.
#[derive(Debug)]
pub struct Program<'a> {
    /// The path of the program; without a slash it is looked up in the working directory, never in `$PATH`.
    pub path: &'a Path,
    /// Its arguments.
    pub arguments: Vec<&'a OsStr>,
    /// The variables that its environment has beyond ours.
    pub environment: Vec<(&'static str, OsString)>,
    /// True if it gets a pipe as file descriptor 3.
    pub messages: bool,
    /// True if it gets a pipe as its standard input, instead of `/dev/null`.
    pub requests: bool,
    /// The time that it may run, if [`run`](Program::run) is to end it then.
    pub limit: Option<Duration>,
}

/// An event of a program while it runs.
#[derive(Debug)]
pub enum Heard<'a> {
    /// These bytes came from that pipe.
    Chunk(Channel, &'a [u8]),
    /// It is still at work; heard about once a second.
    Waiting,
}

/// A program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system could not start it, in the words of version 3, and by the path as it was given: `fork/exec PATH: permission denied`.
    #[error(transparent)]
    Exec(IoError),
    /// Something else was in the way.
    #[error(transparent)]
    Other(ProgramError),
}

/// A program was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It has taken longer than this, and was ended.
    #[error("timed out after {0:?}")]
    TimedOut(Duration),
    /// A signal asked for the end; the process and its group are gone.
    #[error(transparent)]
    Interrupted(#[from] FatalError),
}

/// The system does not say what becomes of a program.
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

    /// Runs the program to its end.
    ///
    /// # Errors
    /// If it cannot be started ([`RunError::Start`]), takes too long ([`RunError::TimedOut`]), or a signal asks for the end
    /// ([`RunError::Interrupted`]).
    pub fn run(self, interrupt: &Interrupt, mut seen: impl FnMut(Channel, &[u8])) -> Result<Exit, RunError> {
        self.run_patiently(interrupt, |heard| {
            if let Heard::Chunk(channel, bytes) = heard {
                seen(channel, bytes);
            }
        })
    }

    /// Runs the program to its end as [`run`](Self::run) does, and tells about once a second that it still runs.
    ///
    /// # Errors
    /// As there.
    pub fn run_patiently(self, interrupt: &Interrupt, mut heard: impl FnMut(Heard<'_>)) -> Result<Exit, RunError> {
        let limit = self.limit;
        let mut process = self.start()?;
        process.set_alarm(limit.and_then(|limit| Instant::now().checked_add(limit)));
        let mut end = None;
        loop {
            wait(&mut process, interrupt, |event| match event {
                Event::Chunk(channel, bytes) => heard(Heard::Chunk(channel, bytes)),
                Event::Waiting => heard(Heard::Waiting),
                Event::Ended(exit) => end = Some(Ok(exit)),
                Event::Stopped(_) => end = Some(Err(RunError::TimedOut(limit.unwrap_or_default()))),
            })?;
            if let Some(end) = end {
                return end;
            }
        }
    }
}

/// Waits until something happens to a program, and hands on everything that has. [`Event::Stopped`] is only seen where it was late.
///
/// # Errors
/// [`FatalError::Interrupted`] if a signal asked for the end: the process group was asked to end too, and killed if it didn't.
pub fn wait(process: &mut Process, interrupt: &Interrupt, mut seen: impl FnMut(Event<'_>)) -> Result<(), FatalError> {
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

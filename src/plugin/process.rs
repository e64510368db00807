//! Plugins and generators as programs, in version 3's words.

use crate::error::{self, Fatal};
use crate::interrupt::Interrupt;
use holo_process::{ProgramError, StartError};
use holo_protocol::environment::{self};
use holo_protocol::words::reason;
use std::ffi::{OsStr, OsString};
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

/// The reasons for which a program was not run to its end.
#[derive(Debug)]
pub enum RunError {
    /// It could not be started; the text says why.
    Start(String),
    /// It has taken longer than this, and was ended.
    TimedOut(Duration),
    /// A signal asked for the end; the process and its group are gone.
    Interrupted(Fatal),
}

impl From<Fatal> for RunError {
    fn from(fatal: Fatal) -> Self {
        RunError::Interrupted(fatal)
    }
}

impl Program<'_> {
    /// Starts the program.
    ///
    /// # Errors
    /// If it cannot be started, in the words of version 3: `fork/exec PATH: permission denied`.
    pub fn start(self) -> Result<Process, String> {
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
            // By the path as it was given.
            ProgramError::NotFound(StartError::Exec { source, .. })
            | ProgramError::NotStarted(StartError::Exec { source, .. }) => error::at("fork/exec", self.path, &source),
            error => error.to_string(),
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

    /// As [`run`](Self::run), for who wants to know that it still runs.
    ///
    /// # Errors
    /// As there.
    pub fn run_patiently(self, interrupt: &Interrupt, mut heard: impl FnMut(Heard<'_>)) -> Result<Exit, RunError> {
        let limit = self.limit;
        let mut process = self.start().map_err(RunError::Start)?;
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
/// [`Fatal::Interrupted`] if a signal asked for the end: the process group was asked to end too, and killed if it didn't.
pub fn wait(process: &mut Process, interrupt: &Interrupt, mut seen: impl FnMut(Event<'_>)) -> Result<(), Fatal> {
    let mut goes_on = Ok(());
    let waited = process.wait(Some(interrupt), &mut |event| {
        if matches!(event, Event::Stopped(_)) {
            goes_on = interrupt.check();
        }
        if goes_on.is_ok() {
            seen(event);
        }
    });
    waited.map_err(|error| Fatal::CouldNotRun(format!("cannot wait for a plugin: {}", reason(&error))))?;
    goes_on
}

//! A program that runs: what it says, when its time is over, and its end.

use crate::ProgramError;
use crate::ended::{Ended, Output, Tail};
use crate::process::{MAX_PIPE_SIZE, Process};
use crate::program::{Channel, Program, Stream};
use crate::start::is_missing;
use rustix::process::Signal;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Sees what a program says, and may break off.
type Seen<'a> = dyn FnMut(Stream, &[u8]) -> ControlFlow<()> + 'a;

impl Program {
    /// Runs it to its end, and hands on what it says as it comes.
    ///
    /// # Errors
    /// If it cannot be started. That it failed is no error here: [`Ended::failure`] tells.
    pub fn run(&self, mut seen: impl FnMut(Stream, &[u8])) -> Result<Ended, ProgramError> {
        let ended = run(self, &mut |stream, bytes| {
            seen(stream, bytes);
            ControlFlow::Continue(())
        })?;
        ended.ok_or_else(|| ProgramError::Lost { program: self.to_string(), reason: "it vanished".to_owned() })
    }

    /// Runs it to its end, and captures what it says.
    ///
    /// # Errors
    /// If it cannot be started, or says more than [the limit](Self::capture_limit).
    pub fn output(&self) -> Result<Output, ProgramError> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut left = self.capture_limit;
        let ended = run(self, &mut |stream, bytes| {
            let Some(rest) = left.checked_sub(bytes.len()) else { return ControlFlow::Break(()) };
            left = rest;
            match stream {
                Stream::Stdout => stdout.extend_from_slice(bytes),
                Stream::Stderr => stderr.extend_from_slice(bytes),
            }
            ControlFlow::Continue(())
        })?;
        let too_much =
            || ProgramError::TooMuchOutput { program: self.name.display().to_string(), limit: self.capture_limit };
        Ok(Output { ended: ended.ok_or_else(too_much)?, stdout, stderr })
    }
}

/// Starts a program.
pub(crate) fn start(program: &Program) -> Result<Process, ProgramError> {
    Process::start(program).map_err(|reason| {
        if is_missing(program) { ProgramError::NotFound(reason) } else { ProgramError::NotStarted(reason) }
    })
}

/// Runs a program to its end; nothing if what sees its output has broken off.
fn run(program: &Program, seen: &mut Seen<'_>) -> Result<Option<Ended>, ProgramError> {
    let mut running = Running { process: start(program)?, tail: Tail::default() };
    let mut phase = Phase::Working;
    let mut timed_out = None;
    let mut deadline = program.limit().and_then(after);
    let mut read_since_end = 0;
    loop {
        running.process.wait(deadline).map_err(|error| ProgramError::lost(program, &error))?;
        let Ok(length) = running.exchange(seen) else { return Ok(None) };
        let is_over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let (is_closed, has_exited) = (!running.process.is_any_open(), running.process.has_exited());
        match phase {
            Phase::Working | Phase::Ending if has_exited && is_closed => break,
            Phase::Working if has_exited => {
                phase = Phase::Leaving;
                deadline = after(program.linger);
            }
            Phase::Working if is_over => {
                timed_out = program.limit();
                running.process.signal(Signal::TERM);
                phase = Phase::Ending;
                deadline = after(program.grace);
            }
            Phase::Ending if is_over => break,
            Phase::Leaving if is_closed => break,
            Phase::Leaving if is_over && (length == 0 || read_since_end >= MAX_PIPE_SIZE) => break,
            Phase::Leaving => read_since_end += length,
            Phase::Working | Phase::Ending => {}
        }
    }
    if timed_out.is_some() {
        running.process.signal(Signal::KILL);
        let _ = running.exchange(seen);
    }
    if running.read_files(seen).is_err() {
        return Ok(None);
    }
    let held_open = running.process.is_any_open();
    let tail = std::mem::take(&mut running.tail).into_bytes();
    let status = running.process.finish(program.grace).map_err(|error| ProgramError::lost(program, &error))?;
    Ok(Some(Ended { status, timed_out, held_open, tail }))
}

#[derive(Clone, Copy)]
enum Phase {
    Working,
    /// Its time is over, and it has been told so.
    Ending,
    /// It has ended; what it said may still be on its way.
    Leaving,
}

fn after(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}

/// A program that runs, and the end of what it has said.
struct Running {
    process: Process,
    tail: Tail,
}

impl Running {
    /// Takes what it has said and gives it what it can read; how much it has said.
    fn exchange(&mut self, seen: &mut Seen<'_>) -> Result<usize, Unwanted> {
        let Running { process, tail } = self;
        let mut is_unwanted = false;
        let length = process.exchange(&mut |channel, bytes| {
            tail.push(bytes);
            is_unwanted |= seen(channel.into(), bytes).is_break();
        });
        if is_unwanted { Err(Unwanted) } else { Ok(length) }
    }

    /// Hands on what it has said into files.
    fn read_files(&mut self, seen: &mut Seen<'_>) -> Result<(), Unwanted> {
        let Running { process, tail } = self;
        let mut is_unwanted = false;
        process.read_files(&mut |channel, bytes| {
            tail.push(bytes);
            is_unwanted |= seen(channel.into(), bytes).is_break();
        });
        if is_unwanted { Err(Unwanted) } else { Ok(()) }
    }
}

impl From<Channel> for Stream {
    fn from(channel: Channel) -> Stream {
        match channel {
            Channel::Stdout => Stream::Stdout,
            Channel::Stderr => Stream::Stderr,
        }
    }
}

/// Its output is not to be seen any more.
struct Unwanted;

//! Running a program to its end in a single call.

use crate::ProgramError;
use crate::ended::{Ended, Output, Tail};
use crate::error::StartError;
use crate::process::{Event, Exit, Process};
use crate::program::Program;
use crate::start::{Reach, is_missing};
use holo_protocol::session::Stream;
use std::ops::ControlFlow;
use std::time::Instant;

impl Program {
    /// Runs it to its end, and passes on its output as it arrives.
    ///
    /// # Errors
    /// If the program cannot be started. A program that fails is no error: see [`Ended::failure`].
    pub fn run(&self, mut seen: impl FnMut(Stream, &[u8])) -> Result<Ended, ProgramError> {
        let ended = run(self, &mut |stream, bytes| {
            seen(stream, bytes);
            ControlFlow::Continue(())
        })?;
        ended.ok_or_else(|| self.too_much())
    }

    /// Runs it to its end, and captures its output.
    ///
    /// # Errors
    /// If the program cannot be started, or its output exceeds the [limit](Self::capture_limit).
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
        Ok(Output { ended: ended.ok_or_else(|| self.too_much())?, stdout, stderr })
    }

    /// Returns the error for a failed start.
    pub(crate) fn not_started(&self, error: StartError) -> ProgramError {
        if is_missing(self) { ProgramError::NotFound(error) } else { ProgramError::NotStarted(error) }
    }

    fn too_much(&self) -> ProgramError {
        ProgramError::TooMuchOutput { program: self.name.display().to_string(), limit: self.capture_limit }
    }
}

/// Runs a program to its end; `None` if `seen` has stopped it.
fn run(
    program: &Program,
    seen: &mut dyn FnMut(Stream, &[u8]) -> ControlFlow<()>,
) -> Result<Option<Ended>, ProgramError> {
    let mut process = Process::start(program, if program.leads_group() { Reach::Tree } else { Reach::Process })?;
    process.set_alarm(program.limit().and_then(|limit| Instant::now().checked_add(limit)));
    let (mut tail, mut is_unwanted, mut end) = (Tail::default(), false, None);
    while end.is_none() {
        let waited = process.wait(None, &mut |event| match event {
            Event::Chunk(channel, bytes) => {
                if let Some(stream) = channel.stream() {
                    tail.push(bytes);
                    is_unwanted |= seen(stream, bytes).is_break();
                }
            }
            Event::Ended(exit) => end = Some((exit, None)),
            // All processes that could hold its pipes open were killed.
            Event::Stopped(status) => end = Some((Exit { status, held_open: None }, program.limit())),
            Event::Waiting => {}
        });
        waited.map_err(|source| ProgramError::Lost { program: program.name.display().to_string(), source })?;
        if is_unwanted {
            return Ok(None);
        }
    }
    Ok(end.map(|(exit, timed_out)| Ended {
        status: exit.status,
        timed_out,
        held_open: exit.held_open.is_some(),
        tail: tail.into_bytes(),
    }))
}

//! A session of a plugin, which watches for violations of the protocol.

mod reception;

use super::finding::Rule;
use super::heard::Heard;
use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use crate::plugin::process::{self, Channel, Event, Exit, Process, Program, StartError};
use bstr::{BString, ByteSlice};
use holo_protocol::session::{Operation, Request};
use reception::{Complaint, Reception};
use std::time::Duration;

/// The time that a session may take to end after its input is closed.
pub(super) const END_LIMIT: Duration = Duration::from_secs(2);
/// The maximum length of an answer line, in bytes.
const MAX_LINE: usize = 64 << 20;

/// A running session.
pub(super) struct Session {
    process: Process,
    last_request: u64,
    incoming: Vec<u8>,
}

/// The answers to a request, and complaints about them.
pub(super) struct Asked {
    /// The answers about each entity.
    pub(super) heard: Vec<Heard>,
    pub(super) complaints: Vec<Complaint>,
    /// Whether the request, or the session, ended within its time limit.
    pub(super) in_time: bool,
    /// Whether the session can take more requests.
    pub(super) goes_on: bool,
}

impl Session {
    pub(super) fn start(program: Program<'_>) -> Result<Session, StartError> {
        Ok(Session { process: program.start()?, last_request: 0, incoming: Vec::new() })
    }

    /// Sends a request; its number is assigned here.
    pub(super) fn ask(
        &mut self,
        interrupt: &Interrupt,
        limit: Duration,
        request: &Request,
    ) -> Result<Asked, FatalError> {
        self.last_request += 1;
        let request = Request { request: self.last_request, ..request.clone() };
        let operation = request.operation;
        // Scans and health checks have no results.
        let is_reported = matches!(operation, Operation::Scan | Operation::Health);
        let worked_on = request.entities.iter().filter(|_| !is_reported);
        let ids: Vec<BString> = worked_on.map(|id| id.0.clone()).collect();
        let mut line = serde_json::to_vec(&request).map_err(FatalError::could_not_run)?;
        line.push(b'\n');
        self.process.send(&line);
        self.process.confine(limit);
        let mut reception = Reception::new(self.last_request, operation, &ids);
        let mut ended = None;
        while !reception.is_over() && ended.is_none() && !self.process.is_overdue() {
            ended = self.exchange(interrupt, &mut reception)?;
            self.take_lines(&mut reception);
        }
        let in_time = reception.is_over() || ended.is_some();
        let goes_on = in_time && ended.is_none() && !reception.is_broken;
        reception.conclude(in_time, ended);
        let (heard, complaints) = reception.into_heard();
        Ok(Asked { heard, complaints, in_time, goes_on })
    }

    /// Waits for output, and reports what can be judged already.
    fn exchange(&mut self, interrupt: &Interrupt, reception: &mut Reception<'_>) -> Result<Option<Exit>, FatalError> {
        let Session { process, incoming, .. } = self;
        let mut ended = None;
        process::wait(process, interrupt, |event| match event {
            Event::Chunk(Channel::Extra, bytes) => incoming.extend_from_slice(bytes),
            Event::Chunk(channel, bytes) => reception.stray(channel, bytes),
            Event::Ended(how) => ended = Some(how),
            Event::Waiting | Event::Stopped(_) => {}
        })?;
        Ok(ended)
    }

    /// Passes complete lines on.
    fn take_lines(&mut self, reception: &mut Reception<'_>) {
        let end_of_lines = self.incoming.rfind_byte(b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.incoming.drain(..end_of_lines).collect();
        lines.lines().filter(|line| !line.is_empty()).for_each(|line| reception.take_line(line));
        if self.incoming.len() > MAX_LINE {
            reception.complain(Rule::WhenASessionDies, format!("answers with a line of over {MAX_LINE} bytes"));
            reception.is_broken = true;
        }
    }

    /// Ends the session as the dispatcher does, by closing its input. Returns the output since then, and how the
    /// process ended.
    pub(super) fn end(mut self, interrupt: &Interrupt) -> Result<(Vec<u8>, Option<Exit>), FatalError> {
        self.process.close_input();
        self.process.confine(END_LIMIT);
        let mut reception = Reception::new(self.last_request, Operation::Scan, &[]);
        let mut ended = None;
        while ended.is_none() && !self.process.is_overdue() {
            ended = self.exchange(interrupt, &mut reception)?;
            self.incoming.truncate(MAX_LINE);
        }
        Ok((std::mem::take(&mut self.incoming), ended))
    }
}

//! A running session: sends requests, and receives answers.

use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use crate::plugin::error::{PluginError, check_status};
use crate::plugin::process::{self, Channel, Event, Exit, OutputMeter, Process, Program, StartError};
use crate::plugin::{Identity, RunOptions};
use bstr::ByteSlice;
use holo_protocol::Text;
use holo_protocol::session::{Answer, Outcome, Request, Stream};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// The time that a session may take to end after its input is closed.
const END_GRACE: Duration = Duration::from_secs(2);
/// The maximum length of an answer line, in bytes.
const MAX_LINE: usize = 64 << 20;
/// The number of bytes shown of an invalid answer.
const SHOWN: usize = 200;

/// A running session.
#[derive(Debug)]
pub(super) struct Session {
    process: Process,
    last_request: u64,
    /// The directories of resource files, if there are several and the plugin does not know them yet.
    resource_dirs: Vec<Text>,
    incoming: Vec<u8>,
}

/// The end of a request.
pub(super) enum RequestEnd {
    Answered(Outcome),
    /// The session ended, for this reason.
    Over(PluginError),
    /// The session was ended because the request exceeded this time limit.
    TimedOut(Duration),
}

/// The events of a session's process, other than answers.
struct Heard {
    /// Output of the plugin, or of its child processes, to the standard streams.
    strays: Vec<(Stream, Vec<u8>)>,
    ended: Option<Exit>,
    /// Whether the process was ended because it exceeded the time limit.
    timed_out: bool,
    /// Whether it is time to report that an entity is still being worked on.
    waiting: bool,
    /// The reason for which the run ends, if it does.
    interrupted: Option<FatalError>,
}

/// A message of a session while it works on a request.
pub(super) enum Said<'a> {
    Answer(Answer),
    /// Output of the plugin, or of a child process, to a standard stream.
    Stray(Stream, &'a [u8]),
    /// Like `Stray`, but after the session was asked to end.
    AtTheEnd(Stream, &'a [u8]),
    /// No message, but an entity is being worked on.
    Waiting,
    /// No message. Marks the beginning or the end of answers that have arrived together.
    Burst {
        /// Whether this is the end.
        is_over: bool,
    },
    /// No message. Asks for the time at which the current work began.
    Begun(&'a mut Instant),
}

impl Session {
    pub(super) fn start(plugin: &Identity) -> Result<Session, StartError> {
        let program = Program {
            path: plugin.program(),
            arguments: vec![OsStr::new("session")],
            environment: plugin.environment(),
            messages: true,
            requests: true,
            // It serves a whole run; each request has its own limits.
            limit: None,
            max_output: u64::MAX,
        };
        let mut resource_dirs = Vec::new();
        if plugin.directories.own_resources.is_some() {
            resource_dirs.extend(plugin.directories.resource_dirs().map(|path| path.as_os_str().as_bytes().into()));
        }
        Ok(Session { process: program.start()?, last_request: 0, resource_dirs, incoming: Vec::new() })
    }

    /// Closes the input, which tells the plugin to end.
    pub(super) fn close_input(&mut self) {
        self.process.close_input();
    }

    /// Sends a request, assigning its number, and waits for its answer or the end of the session.
    pub(super) fn ask(
        &mut self,
        request: Request,
        &RunOptions { limit, max_output, .. }: &RunOptions,
        interrupt: &Interrupt,
        said: &mut dyn FnMut(Said<'_>),
    ) -> Result<RequestEnd, FatalError> {
        self.last_request += 1;
        let resource_dirs = std::mem::take(&mut self.resource_dirs);
        let request = Request { request: self.last_request, resource_dirs, ..request };
        let mut line = match serde_json::to_vec(&request) {
            Ok(line) => line,
            Err(error) => return Ok(RequestEnd::Over(PluginError::Request(error))),
        };
        line.push(b'\n');
        self.process.send(&line);
        let mut meter = OutputMeter::new(process::max_output(request.operation, request.entities.len(), max_output));
        // A request may contain hundreds of thousands of entities.
        drop((request, line));
        let mut idle_since = Instant::now();
        self.process.begin_waiting();
        loop {
            if let Some(limit) = limit {
                let mut begun = idle_since;
                said(Said::Begun(&mut begun));
                self.process.set_alarm(begun.checked_add(limit));
            }
            let held = self.incoming.len();
            let Heard { strays, ended, timed_out, waiting, interrupted } = self.exchange(interrupt);
            let before = self.incoming.len();
            let written = before - held + strays.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
            process::count_output(&mut meter, written, &mut self.process);
            let end = self.take_answers(held, said);
            if self.incoming.len() < before {
                idle_since = Instant::now();
            }
            if waiting {
                said(Said::Waiting);
            }
            // The order of output relative to answers is unknown. It most likely belongs to the entity that the answers
            // begin.
            let is_ending = self.process.is_ending();
            for (stream, bytes) in &strays {
                said(if is_ending { Said::AtTheEnd(*stream, bytes) } else { Said::Stray(*stream, bytes) });
            }
            if let Some(fatal) = interrupted {
                return Err(fatal);
            }
            if let Err(error) = meter.check().map_err(PluginError::TooMuch)
                && (timed_out || ended.is_some())
            {
                return Ok(RequestEnd::Over(error));
            }
            if timed_out {
                return Ok(RequestEnd::TimedOut(limit.unwrap_or_default()));
            }
            // If a session is late, wait for its end.
            if let Some(end) = end.filter(|_| !self.process.is_late()) {
                self.process.set_alarm(None);
                return Ok(end);
            }
            if let Some(ended) = ended {
                let error = check_status(ended.status).err().unwrap_or(PluginError::EndedEarly);
                return Ok(RequestEnd::Over(error));
            }
        }
    }

    /// Waits for output and other events.
    fn exchange(&mut self, interrupt: &Interrupt) -> Heard {
        let Session { process, incoming, .. } = self;
        let (mut ended, mut strays) = (None, Vec::new());
        let (mut timed_out, mut is_waiting) = (false, false);
        let waited = process::wait(process, interrupt, |event| match event {
            Event::Chunk(Channel::Extra, bytes) => incoming.extend_from_slice(bytes),
            Event::Chunk(Channel::Stdout, bytes) => strays.push((Stream::Stdout, bytes.to_vec())),
            Event::Chunk(Channel::Stderr, bytes) => strays.push((Stream::Stderr, bytes.to_vec())),
            Event::Ended(how) => ended = Some(how),
            Event::Stopped(_) => timed_out = true,
            Event::Waiting => is_waiting = true,
        });
        Heard { strays, ended, timed_out, waiting: is_waiting, interrupted: waited.err() }
    }

    /// Passes complete answers on, the first of which was incomplete with this number of bytes. Returns the end of the
    /// request, if it has ended.
    fn take_answers(&mut self, held: usize, said: &mut dyn FnMut(Said<'_>)) -> Option<RequestEnd> {
        let is_complete = self.incoming.get(held..).is_some_and(|new| new.contains(&b'\n'));
        if !is_complete && self.incoming.len() <= MAX_LINE {
            return None;
        }
        let incoming = std::mem::take(&mut self.incoming);
        let end_of_lines = incoming.rfind_byte(b'\n').map_or(0, |at| at + 1);
        let (lines, rest) = incoming.split_at(end_of_lines);
        self.incoming = rest.to_vec();
        if rest.len() > MAX_LINE {
            return Some(RequestEnd::Over(PluginError::LongAnswer(MAX_LINE)));
        }
        if lines.is_empty() {
            return None;
        }
        said(Said::Burst { is_over: false });
        let end = self.take_lines(lines, said);
        said(Said::Burst { is_over: true });
        end
    }

    fn take_lines(&self, lines: &[u8], said: &mut dyn FnMut(Said<'_>)) -> Option<RequestEnd> {
        for line in lines.lines().filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Answer>(line) {
                Ok(answer) if answer.request() != self.last_request => {}
                Ok(Answer::End { result, .. }) => return Some(RequestEnd::Answered(result)),
                Ok(answer) => said(Said::Answer(answer)),
                Err(source) => {
                    let beginning = line.get(..SHOWN).unwrap_or(line).into();
                    return Some(RequestEnd::Over(PluginError::Answer { beginning, source }));
                }
            }
        }
        None
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The end of input tells the plugin to end.
        self.process.close_input();
        self.process.end_within(END_GRACE);
    }
}

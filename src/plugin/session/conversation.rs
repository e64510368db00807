//! A running session: requests, and what is said while they are worked on.

use crate::error::FatalError;
use crate::interrupt::Interrupt;
use crate::plugin::Identity;
use crate::plugin::error::{PluginError, check_status};
use crate::plugin::process::{self, Channel, Event, Exit, Process, Program, StartError};
use bstr::ByteSlice;
use holo_protocol::Text;
use holo_protocol::session::{Answer, Outcome, Request, Stream};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// The time that a session may take to end once it has been told that nothing more is wanted.
const END_GRACE: Duration = Duration::from_secs(2);
/// The longest line that a plugin may answer with.
const MAX_LINE: usize = 64 << 20;
/// The number of bytes of an answer that are shown if it cannot be understood.
const SHOWN: usize = 200;

/// A running session.
#[derive(Debug)]
pub(super) struct Session {
    process: Process,
    last_request: u64,
    /// The directories of resource files, if there are several and the plugin has not been told.
    resource_dirs: Vec<Text>,
    incoming: Vec<u8>,
}

/// The end of a request.
pub(super) enum RequestEnd {
    Answered(Outcome),
    /// The session is over, and this is why.
    Over(PluginError),
    /// The session is over, as it has taken longer than this.
    TimedOut(Duration),
}

/// Everything that was heard of a session's process, beside its answers.
struct Heard {
    /// Bytes that it, or a child of it, printed on streams of its own.
    strays: Vec<(Stream, Vec<u8>)>,
    ended: Option<Exit>,
    /// True if it was ended, as it took too long.
    timed_out: bool,
    /// True if it is time to say what is at work.
    waiting: bool,
    /// The reason for which the run ends, if it does.
    interrupted: Option<FatalError>,
}

/// Something that a session says while it works on a request.
pub(super) enum Said<'a> {
    Answer(Answer),
    /// Something that the plugin, or a child of it, printed on a stream of its own.
    Stray(Stream, &'a [u8]),
    /// The same, after the session was asked to end.
    AtTheEnd(Stream, &'a [u8]),
    /// Nothing, but something is at work.
    Waiting,
    /// Nothing, but the answers that follow are here already, or there are no more of them.
    Burst {
        /// True if there are no more of them.
        is_over: bool,
    },
    /// Nothing: this asks when what is at work was begun.
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
            // It serves a whole run; what it is at has its limit.
            limit: None,
        };
        let mut resource_dirs = Vec::new();
        if plugin.directories.own_resources.is_some() {
            resource_dirs.extend(plugin.directories.resource_dirs().map(|path| path.as_os_str().as_bytes().into()));
        }
        Ok(Session { process: program.start()?, last_request: 0, resource_dirs, incoming: Vec::new() })
    }

    /// Ends the input, which tells the plugin to end.
    pub(super) fn close_input(&mut self) {
        self.process.close_input();
    }

    /// Has a request answered, whatever its number, or waits for the end of the session.
    pub(super) fn ask(
        &mut self,
        request: Request,
        limit: Option<Duration>,
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
        // There may be very many entities in it.
        drop((request, line));
        let mut idle_since = Instant::now();
        self.process.begin_waiting();
        loop {
            if let Some(limit) = limit {
                let mut begun = idle_since;
                said(Said::Begun(&mut begun));
                self.process.set_alarm(begun.checked_add(limit));
            }
            let Heard { strays, ended, timed_out, waiting, interrupted } = self.exchange(interrupt);
            let before = self.incoming.len();
            let end = self.take_answers(said);
            if self.incoming.len() < before {
                idle_since = Instant::now();
            }
            if waiting {
                said(Said::Waiting);
            }
            // It cannot be told if bytes beside the answers come before or after them. Most likely they belong to the entity that
            // they begin.
            let is_ending = self.process.is_ending();
            for (stream, bytes) in &strays {
                said(if is_ending { Said::AtTheEnd(*stream, bytes) } else { Said::Stray(*stream, bytes) });
            }
            if let Some(fatal) = interrupted {
                return Err(fatal);
            }
            if timed_out {
                return Ok(RequestEnd::TimedOut(limit.unwrap_or_default()));
            }
            // Of a session that is late, the end is waited for.
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

    /// Waits for something to be said, and says what can be said meanwhile.
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

    /// Hands on the answers that have arrived whole. Returns how the request ended, if it has.
    fn take_answers(&mut self, said: &mut dyn FnMut(Said<'_>)) -> Option<RequestEnd> {
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
        // The end of its input tells the plugin to end.
        self.process.close_input();
        self.process.end_within(END_GRACE);
    }
}

//! A running program that receives requests and returns answers.

mod ending;
mod limits;

pub use ending::end_together;
pub use limits::{Deadline, Limits};

use crate::ProgramError;
use crate::channel::Channel;
use crate::child::Child;
use crate::ended::{Status, Tail};
use crate::error::ConversationError;
use crate::groups;
use crate::lines::Lines;
use crate::program::{Input, Program};
use crate::start::Reach;
use rustix::process::Signal;
use std::io;
use std::time::{Duration, Instant};

/// The maximum length of a line of standard error; longer lines are split.
const MAX_DIAGNOSTIC: usize = 1 << 16;

/// A running program that receives requests and answers with lines.
///
/// Neither side ever blocks the other: requests are written as fast as the program reads them, while its answers and
/// its standard error are read. This happens during each wait. Complete lines are returned even if the program has
/// ended in the meantime, and whether or not it has read the requests.
///
/// After an error, the conversation is over: the program was terminated with its process group, and a new one must be
/// started. The program is killed if the conversation is dropped before its [end](Self::end).
///
/// ```
/// use holo_process::{Deadline, Program};
/// use std::time::Duration;
///
/// let mut program = Program::new("/bin/sh");
/// program.args(["-c", "while read -r name; do echo \"hello $name\"; echo; done"]).current_dir("/");
/// let mut conversation = program.converse()?;
/// conversation.send(b"world\n");
/// let deadline = Deadline::after(Duration::from_secs(30));
/// let answer = conversation.answer(deadline, &mut |line| eprintln!("{}", String::from_utf8_lossy(line)))?;
/// assert_eq!(answer, [b"hello world"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Conversation {
    child: Child,
    answers: Lines,
    diagnostics: Lines,
    tail: Tail,
    limits: Limits,
    grace: Duration,
    linger: Duration,
    leaves_nothing: bool,
    /// The number of bytes received since the last request or complete answer.
    answered: usize,
    exited_at: Option<Instant>,
    /// The exit status; `None` until it is known.
    status: Option<Status>,
}

impl Program {
    /// Starts the program for requests and answers. Its standard input is a pipe, and it inherits no descriptors above
    /// 2.
    ///
    /// Its [timeout](Self::timeout) is ignored, because each answer has a [deadline](Deadline). When a deadline has
    /// expired, the program has its [grace period](Self::grace) to exit.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn converse(&mut self) -> Result<Conversation, ProgramError> {
        groups::mark_inherited_descriptors();
        self.stdin = Input::Requests;
        self.has_extra_pipe = false;
        Ok(Conversation {
            child: Child::start(self, Reach::Group).map_err(|error| self.not_started(error))?,
            answers: Lines::default(),
            diagnostics: Lines::default(),
            tail: Tail::default(),
            limits: Limits::default(),
            grace: self.grace,
            linger: self.linger,
            leaves_nothing: self.leaves_nothing,
            answered: 0,
            exited_at: None,
            status: None,
        })
    }
}

impl Conversation {
    /// Sets the limits of its output.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns the PID of the program, which is also its process group ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request. As much as possible is written immediately, the rest while waiting for answers.
    ///
    /// It is no error if the program does not read the request, because it may have answered in advance.
    pub fn send(&mut self, request: &[u8]) {
        self.answered = 0;
        self.child.send(request);
    }

    /// Closes its input when all requests have been written.
    pub fn end_input(&mut self) {
        self.child.end_input();
    }

    /// Waits for the next line of its standard output, and returns it without the newline. Each complete line of its
    /// standard error is passed to `heard`; lines that were written before the answer are passed before this function
    /// returns.
    ///
    /// # Errors
    /// If no line arrives before the deadline, or the output has ended. The program has been terminated then.
    pub fn line(&mut self, deadline: Deadline, heard: &mut dyn FnMut(&[u8])) -> Result<Vec<u8>, ConversationError> {
        if let Some(status) = self.status {
            return Err(self.ended(status));
        }
        loop {
            if self.answers.next_length() > self.limits.line {
                let limit = self.limits.line;
                return Err(self.give_up(ConversationError::LineTooLong { limit }, heard));
            }
            if let Some(line) = self.answers.next() {
                self.answered += line.len() + 1;
                if self.answered > self.limits.answer {
                    let limit = self.limits.answer;
                    return Err(self.give_up(ConversationError::AnswerTooLong { limit }, heard));
                }
                return Ok(line.to_vec());
            }
            if self.is_exhausted() {
                return Err(self.fail_at_end(heard));
            }
            if deadline.is_over() {
                return Err(self.give_up(ConversationError::Late { limit: deadline.limit }, heard));
            }
            self.round(deadline.at, heard).map_err(ConversationError::Lost)?;
        }
    }

    /// Waits for lines up to an empty line, and returns them without it.
    ///
    /// # Errors
    /// Those of [`line`](Self::line).
    pub fn answer(
        &mut self,
        deadline: Deadline,
        heard: &mut dyn FnMut(&[u8]),
    ) -> Result<Vec<Vec<u8>>, ConversationError> {
        let mut lines = Vec::new();
        loop {
            match self.line(deadline, heard)? {
                line if line.is_empty() => {
                    self.answered = 0;
                    return Ok(lines);
                }
                line => lines.push(line),
            }
        }
    }

    /// Returns true if no further answer is possible: the program has ended, and all of its lines were taken. Does not
    /// block.
    pub fn is_over(&mut self, heard: &mut dyn FnMut(&[u8])) -> bool {
        if self.status.is_none() && !self.answers.has_next() {
            // If waiting fails, the next call of `line` returns the error.
            let _ = self.round(Some(Instant::now()), heard);
        }
        !self.answers.has_next() && (self.status.is_some() || self.is_exhausted())
    }

    /// Returns the last non-empty lines of its standard error, at most `count`. Invalid UTF-8 is replaced.
    #[must_use]
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        self.tail.last_lines(count)
    }

    /// Ends the program, like [`end_together`].
    ///
    /// # Errors
    /// If its exit status cannot be determined.
    pub fn end(self, within: Duration, heard: &mut dyn FnMut(&[u8])) -> Result<Status, ConversationError> {
        let mut ends = end_together(vec![self], within, &mut |_, line| heard(line));
        ends.pop().unwrap_or_else(|| Err(ConversationError::Lost(io::ErrorKind::NotFound.into())))
    }

    /// Waits for an event, or until a point in time, and reads all available output.
    fn round(&mut self, until: Option<Instant>, heard: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let linger = self.lingers_until();
        let until = [until, linger].into_iter().flatten().min();
        self.child.wait(until, None)?;
        self.take(heard);
        Ok(())
    }

    /// Reads all available output.
    fn take(&mut self, heard: &mut dyn FnMut(&[u8])) {
        let Conversation { child, answers, diagnostics, tail, .. } = self;
        child.exchange(&mut |channel, bytes| match channel {
            Channel::Stdout => answers.push(bytes),
            Channel::Stderr => {
                tail.push(bytes);
                diagnostics.push(bytes);
                while let Some(line) = diagnostics.next() {
                    heard(line);
                }
                if diagnostics.next_length() > MAX_DIAGNOSTIC {
                    heard(&diagnostics.take_rest());
                }
            }
            // Conversations have no extra pipe.
            Channel::Extra => {}
        });
        if self.child.has_exited() && self.exited_at.is_none() {
            self.exited_at = Some(Instant::now());
        }
        if !self.child.is_open(Channel::Stderr) {
            self.take_last_diagnostic(heard);
        }
    }

    fn take_last_diagnostic(&mut self, heard: &mut dyn FnMut(&[u8])) {
        let rest = self.diagnostics.take_rest();
        if !rest.is_empty() {
            heard(&rest);
        }
    }

    /// Returns the point in time until which its pipes are read after its exit.
    fn lingers_until(&self) -> Option<Instant> {
        self.exited_at?.checked_add(self.linger)
    }

    /// Returns true if no more lines can arrive.
    fn is_exhausted(&self) -> bool {
        !self.child.is_open(Channel::Stdout) || self.lingers_until().is_some_and(|until| Instant::now() >= until)
    }

    /// Ends the program after its standard output was closed.
    fn fail_at_end(&mut self, heard: &mut dyn FnMut(&[u8])) -> ConversationError {
        // Its exit status is more informative than the closed output, and so are the final lines of its standard error.
        let until = Instant::now().checked_add(self.linger);
        while !self.is_silent() && until.is_none_or(|until| Instant::now() < until) {
            if let Err(error) = self.round(until, heard) {
                return ConversationError::Lost(error);
            }
        }
        if !self.child.has_exited() {
            return self.give_up(ConversationError::OutputClosed, heard);
        }
        // Its background processes keep running.
        match self.reap(heard) {
            Ok(status) => self.ended(status),
            Err(error) => error,
        }
    }

    /// Returns true if it has exited, and its output has ended or the time to wait for it has expired.
    fn is_silent(&self) -> bool {
        self.child.has_exited()
            && (self.child.first_open().is_none() || self.lingers_until().is_some_and(|until| Instant::now() >= until))
    }

    fn ended(&mut self, status: Status) -> ConversationError {
        ConversationError::Ended { status, is_answering: self.answered > 0 || self.answers.next_length() > 0 }
    }

    /// Terminates the program because of an error: its group receives SIGTERM, and SIGKILL after the grace period.
    fn give_up(&mut self, error: ConversationError, heard: &mut dyn FnMut(&[u8])) -> ConversationError {
        self.child.signal(Signal::TERM);
        let until = Instant::now().checked_add(self.grace);
        while !self.child.has_exited() && until.is_none_or(|until| Instant::now() < until) {
            if let Err(error) = self.round(until, heard) {
                return ConversationError::Lost(error);
            }
            // Further answers are discarded.
            self.answers.take_rest();
        }
        self.child.signal(Signal::KILL);
        match self.reap(heard) {
            Ok(_) => error,
            Err(error) => error,
        }
    }

    /// Reaps the program after it has exited or was killed.
    fn reap(&mut self, heard: &mut dyn FnMut(&[u8])) -> Result<Status, ConversationError> {
        self.take(heard);
        self.take_last_diagnostic(heard);
        if self.leaves_nothing {
            self.child.kill_group();
        }
        let status = self.child.finish(self.grace).map_err(ConversationError::Lost)?;
        self.status = Some(status);
        Ok(status)
    }
}

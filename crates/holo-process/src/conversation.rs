//! A program that is asked for one thing after the other: requests go in, answers come out.

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

/// A line of a program's standard error that is longer comes in pieces.
const MAX_DIAGNOSTIC: usize = 1 << 16;

/// A running program, to which requests are sent, and that answers with lines.
///
/// Neither side ever waits for the other to read: requests are written as the program takes them, while its answers and its standard error
/// are read. All of that goes on whenever something is waited for. Lines that are complete count even if the program has ended since, and
/// whether or not it has read the requests.
///
/// After an error there is nothing more to say: the program has been ended with its process group, and another one has to be started. It is
/// killed if the conversation is dropped before its [end](Self::end).
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
    /// The number of bytes that were answered since the last request, or whole answer.
    answered: usize,
    exited_at: Option<Instant>,
    /// The way it ended, once that is known.
    status: Option<Status>,
}

impl Program {
    /// Starts it for requests and answers. It gets a pipe as its standard input, and no descriptors above the three.
    ///
    /// Its [time limit](Self::timeout) does not count: each answer has a [deadline](Deadline). Its [grace](Self::grace) is what it has to end
    /// after one that is over.
    ///
    /// # Errors
    /// If it cannot be started.
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
    /// Sets the most that it may say.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns the number of its process, which is that of its process group as well.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request: now as much as it takes, the rest while answers are waited for.
    ///
    /// That it does not read requests is no error, as it may have answered them in advance.
    pub fn send(&mut self, request: &[u8]) {
        self.answered = 0;
        self.child.send(request);
    }

    /// Ends its input once it has taken everything: there are no more requests.
    pub fn end_input(&mut self) {
        self.child.end_input();
    }

    /// Waits for the next line of its standard output, and returns it without the newline. Each whole line of its standard error goes to
    /// `heard`: everything that it said there before it answered is heard before this returns.
    ///
    /// # Errors
    /// If there is none in time, or never will be. Then the program has been ended.
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

    /// Waits for the lines up to an empty one, and returns them without it.
    ///
    /// # Errors
    /// As those of [`line`](Self::line).
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

    /// Returns true if no answer can come any more: it has ended, and every line that it has left was taken. This waits for nothing.
    pub fn is_over(&mut self, heard: &mut dyn FnMut(&[u8])) -> bool {
        if self.status.is_none() && !self.answers.has_next() {
            // An error of waiting will be one of the next line.
            let _ = self.round(Some(Instant::now()), heard);
        }
        !self.answers.has_next() && (self.status.is_some() || self.is_exhausted())
    }

    /// Returns up to so many of the lines that it said last on its standard error, without empty ones; what is not UTF-8 is replaced.
    #[must_use]
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        self.tail.last_lines(count)
    }

    /// Ends it, as [`end_together`] does.
    ///
    /// # Errors
    /// If the system does not say how it ended.
    pub fn end(self, within: Duration, heard: &mut dyn FnMut(&[u8])) -> Result<Status, ConversationError> {
        let mut ends = end_together(vec![self], within, &mut |_, line| heard(line));
        ends.pop().unwrap_or_else(|| Err(ConversationError::Lost(io::ErrorKind::NotFound.into())))
    }

    /// Waits until something happens, or until this time, and takes what there is.
    fn round(&mut self, until: Option<Instant>, heard: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let linger = self.lingers_until();
        let until = [until, linger].into_iter().flatten().min();
        self.child.wait(until, None)?;
        self.take(heard);
        Ok(())
    }

    /// Takes what it has said.
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
            // It has none.
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

    /// Returns the time until which its pipes are read, if it has ended.
    fn lingers_until(&self) -> Option<Instant> {
        self.exited_at?.checked_add(self.linger)
    }

    /// Returns true if no more lines can come.
    fn is_exhausted(&self) -> bool {
        !self.child.is_open(Channel::Stdout) || self.lingers_until().is_some_and(|until| Instant::now() >= until)
    }

    /// Ends it after its output came to its end.
    fn fail_at_end(&mut self, heard: &mut dyn FnMut(&[u8])) -> ConversationError {
        // Its exit follows, and says more than that; so does what it says on standard error.
        let until = Instant::now().checked_add(self.linger);
        while !self.is_silent() && until.is_none_or(|until| Instant::now() < until) {
            if let Err(error) = self.round(until, heard) {
                return ConversationError::Lost(error);
            }
        }
        if !self.child.has_exited() {
            return self.give_up(ConversationError::OutputClosed, heard);
        }
        // Its programs in the background live on.
        match self.reap(heard) {
            Ok(status) => self.ended(status),
            Err(error) => error,
        }
    }

    /// Returns true if it has ended, and everything it said was read, as far as that is waited for.
    fn is_silent(&self) -> bool {
        self.child.has_exited()
            && (self.child.first_open().is_none() || self.lingers_until().is_some_and(|until| Instant::now() >= until))
    }

    fn ended(&mut self, status: Status) -> ConversationError {
        ConversationError::Ended { status, is_answering: self.answered > 0 || self.answers.next_length() > 0 }
    }

    /// Ends it for this error: its group is asked to end, and killed after the grace.
    fn give_up(&mut self, error: ConversationError, heard: &mut dyn FnMut(&[u8])) -> ConversationError {
        self.child.signal(Signal::TERM);
        let until = Instant::now().checked_add(self.grace);
        while !self.child.has_exited() && until.is_none_or(|until| Instant::now() < until) {
            if let Err(error) = self.round(until, heard) {
                return ConversationError::Lost(error);
            }
            // It is not listened to any more.
            self.answers.take_rest();
        }
        self.child.signal(Signal::KILL);
        match self.reap(heard) {
            Ok(_) => error,
            Err(error) => error,
        }
    }

    /// Waits for it after it has ended, or was killed.
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

//! A running program that receives requests and returns answers: its lines, their limits, and how it ends.

use crate::child::{Child, wait_for_any};
use crate::ended::{Status, Tail};
use crate::error::ConversationError;
use crate::meter::{MAX_OUTPUT, OutputMeter, TooMuchError};
use crate::program::{Input, Program};
use crate::start::{Channel, Reach};
use crate::{ProgramError, groups};
use rustix::process::Signal;
use std::io;
use std::time::{Duration, Instant};

/// The maximum length of a line of standard error; longer lines are split.
const MAX_DIAGNOSTIC: usize = 1 << 16;
/// The maximum size of standard error during one request, in bytes. It is passed on, like the output of a program.
const MAX_DIAGNOSTICS: u64 = MAX_OUTPUT / 2;

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
    /// Counts its standard error since the last request.
    diagnosed: OutputMeter,
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
            diagnosed: OutputMeter::new(MAX_DIAGNOSTICS),
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
        self.diagnosed = OutputMeter::new(MAX_DIAGNOSTICS);
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
            if let Err(TooMuchError(limit)) = self.diagnosed.check() {
                return Err(self.give_up(ConversationError::DiagnosticsTooLong { limit }, heard));
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
        let Conversation { child, answers, diagnostics, diagnosed, tail, .. } = self;
        child.exchange(&mut |channel, bytes| match channel {
            Channel::Stdout => answers.push(bytes),
            // The rest is discarded.
            Channel::Stderr if diagnosed.count(bytes.len()).is_err() => {}
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

/// Ends several conversations within a time limit, and returns the status of each program.
///
/// Pending requests are written, then the inputs are closed, which tells the programs to exit. After half of the time,
/// the process groups of programs that are still running receive SIGTERM; at the end, the remaining groups are killed.
/// Lines of standard error are passed to `heard` with the index of the conversation.
///
/// Background processes of a program that exits in time keep running.
pub fn end_together(
    mut conversations: Vec<Conversation>,
    within: Duration,
    heard: &mut dyn FnMut(usize, &[u8]),
) -> Vec<Result<Status, ConversationError>> {
    for conversation in &mut conversations {
        conversation.child.end_input();
    }
    let now = Instant::now();
    await_ends(&mut conversations, now.checked_add(within / 2), heard);
    for conversation in running(&mut conversations) {
        conversation.child.signal(Signal::TERM);
    }
    await_ends(&mut conversations, now.checked_add(within), heard);
    for conversation in running(&mut conversations) {
        conversation.child.signal(Signal::KILL);
    }
    let conversations = conversations.iter_mut().enumerate();
    let end = |(index, conversation): (usize, &mut Conversation)| match conversation.status {
        Some(status) => Ok(status),
        None => conversation.reap(&mut |line| heard(index, line)),
    };
    conversations.map(end).collect()
}

/// Returns the conversations whose programs are running.
fn running(conversations: &mut [Conversation]) -> impl Iterator<Item = &mut Conversation> {
    conversations.iter_mut().filter(|conversation| conversation.status.is_none() && !conversation.child.has_exited())
}

/// Waits until all programs have ended, or until a point in time.
fn await_ends(conversations: &mut [Conversation], until: Option<Instant>, heard: &mut dyn FnMut(usize, &[u8])) {
    while until.is_none_or(|until| Instant::now() < until) {
        let mut children: Vec<&mut Child> =
            running(conversations).map(|conversation| &mut conversation.child).collect();
        // Programs that cannot be waited for are killed.
        if children.is_empty() || wait_for_any(&mut children, until, &[]).is_err() {
            return;
        }
        for (index, conversation) in conversations.iter_mut().enumerate() {
            if conversation.status.is_none() {
                conversation.take(&mut |line| heard(index, line));
                // Further answers are discarded.
                conversation.answers.take_rest();
            }
        }
    }
}

/// The maximum sizes of the output of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a line in bytes, without the newline; 1 MiB by default.
    pub line: usize,
    /// Maximum length of the answer to one request in bytes; 16 MiB by default.
    pub answer: usize,
}

/// The point in time until which an answer is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    limit: Duration,
    /// `None` if it is beyond the range of the clock.
    at: Option<Instant>,
}

impl Deadline {
    /// Returns the deadline after this duration from now.
    #[must_use]
    pub fn after(limit: Duration) -> Deadline {
        Deadline { limit, at: Instant::now().checked_add(limit) }
    }

    fn is_over(&self) -> bool {
        self.at.is_some_and(|at| Instant::now() >= at)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { line: 1 << 20, answer: 16 << 20 }
    }
}

/// Received bytes that have not been returned as lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// The start of the next line.
    start: usize,
    /// There is no newline before this index.
    searched: usize,
}

impl Lines {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete line, without its newline.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        let end = self.end()?;
        let start = std::mem::replace(&mut self.start, end + 1);
        self.searched = self.start;
        self.bytes.get(start..end)
    }

    /// Returns the number of bytes of the next line that have been received.
    pub(crate) fn next_length(&mut self) -> usize {
        self.end().unwrap_or(self.bytes.len()) - self.start
    }

    /// Returns true if the next line is complete.
    pub(crate) fn has_next(&mut self) -> bool {
        self.end().is_some()
    }

    /// Removes and returns the received part of the next line.
    pub(crate) fn take_rest(&mut self) -> Vec<u8> {
        let rest = self.bytes.split_off(self.start);
        *self = Lines::default();
        rest
    }

    /// Returns the index of the next newline.
    fn end(&mut self) -> Option<usize> {
        let found = self.bytes.get(self.searched..)?.iter().position(|&byte| byte == b'\n');
        self.searched = found.map_or(self.bytes.len(), |found| self.searched + found);
        found.map(|_| self.searched)
    }
}

#[cfg(test)]
mod lines_tests {
    use super::*;

    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let text = b"one\n\ntwo \r\nthree\nrest";
        for size in 1..=text.len() {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.push(piece);
                while let Some(line) = lines.next() {
                    seen.push(line.to_vec());
                }
                assert!(!lines.has_next());
            }
            assert_eq!(seen, [&b"one"[..], b"", b"two \r", b"three"], "{size}");
            assert_eq!(lines.next_length(), 4);
            assert_eq!(lines.take_rest(), b"rest");
            assert_eq!((lines.next_length(), lines.next()), (0, None));
        }
    }

    #[test]
    fn the_length_of_a_line_is_known_before_it_is_taken() {
        let mut lines = Lines::default();
        lines.push(b"four\nse");
        assert_eq!((lines.next_length(), lines.next()), (4, Some(&b"four"[..])));
        assert_eq!((lines.next_length(), lines.next()), (2, None));
        lines.push(b"ven\n");
        assert_eq!((lines.next_length(), lines.next()), (5, Some(&b"seven"[..])));
    }
}

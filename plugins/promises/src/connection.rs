//! The connection to a running module, from its start to its termination.

use crate::answer::{Answer, LineEvent};
use crate::module_log::ModuleLog;
use crate::names::Subject;
use crate::request::{GREETING, Header, HeaderError, Protocol, TERMINATE, terminate_request};
use holo_bridge::trust::Trusted;
use holo_bridge::{Sensitive, limits};
use holo_plugin::process::{Conversation, ConversationError, Deadline, Program, Status};
use std::collections::BTreeSet;
use std::time::Duration;

/// The timeout for the rest of an answer with invalid JSON, and for the exit of a module that has answered everything.
const REST_LIMIT: Duration = Duration::from_secs(5);

/// A conversation with a running module, after the headers.
#[derive(Debug)]
pub(crate) struct Connection {
    conversation: Conversation,
    pub(crate) header: Header,
    /// The module's file when it was started.
    pub(crate) trusted: Trusted,
    /// The names of all attributes sent so far.
    sent: BTreeSet<String>,
    /// All sensitive values sent so far.
    pub(crate) secrets: Sensitive,
    pub(crate) has_answered: bool,
}

/// The reason why a connection ended.
#[derive(Debug)]
pub(crate) enum ConnectionError {
    /// The module exited with status 0 after its last answer, and has not read the request.
    Exited,
    /// Any other reason, worded to follow the module's path.
    Fault(String),
}

impl Connection {
    /// Starts the program, and exchanges headers with it.
    pub(crate) fn open(
        mut program: Program,
        trusted: Trusted,
        log: &mut ModuleLog<'_, '_>,
    ) -> Result<Connection, ConnectionError> {
        let fault = |text: String| ConnectionError::Fault(text);
        let mut conversation = program.converse().map_err(|error| fault(format!(": {error}")))?;
        conversation.send(GREETING.as_bytes());
        let deadline = Deadline::after(limits::HEADER);
        let mut line = || match conversation.line(deadline, &mut |line| log.stderr(line)) {
            Ok(line) => Ok(String::from_utf8_lossy(&line).into_owned()),
            Err(ConversationError::Ended { status, .. }) => {
                Err(fault(format!(" ended before its header: {}", status.in_words())))
            }
            Err(error) => Err(fault(format!(" {error}"))),
        };
        let header = Header::parse(&line()?).map_err(|error| fault(error.to_string()))?;
        match line()? {
            end if end.is_empty() => {}
            other => return Err(fault(HeaderError::NoHeader(other).to_string())),
        }
        let (sent, secrets) = (BTreeSet::new(), Sensitive::default());
        Ok(Connection { conversation, header, trusted, sent, secrets, has_answered: false })
    }

    /// Returns true if no attribute of an earlier promise can leak into this one: many modules with the line-based
    /// protocol never reset attributes.
    pub(crate) fn is_reusable_for(&self, subject: &Subject) -> bool {
        self.header.protocol == Protocol::Json || self.sent.iter().all(|name| subject.attributes.get(name).is_some())
    }

    /// Returns true if a module that wrote all its answers in advance has exited before it could read the last request:
    /// the answer is that to the request to terminate, which was never sent.
    pub(crate) fn has_exited_with(&mut self, answer: &Answer, had_answered: bool, log: &mut ModuleLog<'_, '_>) -> bool {
        let is_last = answer.operation.as_deref() == Some(TERMINATE);
        is_last && had_answered && self.exits(log)
    }

    /// Waits for the exit of a module that has answered everything, and returns true if its status is 0.
    fn exits(&mut self, log: &mut ModuleLog<'_, '_>) -> bool {
        let end = self.conversation.line(Deadline::after(REST_LIMIT), &mut |line| log.stderr(line));
        matches!(end, Err(ConversationError::Ended { status: Status::Exited(0), .. }))
    }

    /// Returns the exit status of the module if it has ended, and all its output was read.
    pub(crate) fn ended(&mut self, log: &mut ModuleLog<'_, '_>) -> Option<Result<Status, ConversationError>> {
        if !self.conversation.is_over(&mut |line| log.stderr(line)) {
            return None;
        }
        let end = self.conversation.line(Deadline::after(Duration::ZERO), &mut |line| log.stderr(line));
        Some(match end {
            Err(ConversationError::Ended { status, .. }) => Ok(status),
            Err(error) => Err(error),
            Ok(_) => return None,
        })
    }

    /// Sends a request about a promise, and reads the answer. Each of its lines can be an event.
    pub(crate) fn ask(
        &mut self,
        request: &str,
        subject: &Subject,
        limit: Duration,
        log: &mut ModuleLog<'_, '_>,
        on_event: &mut dyn FnMut(&mut ModuleLog<'_, '_>, LineEvent),
    ) -> Result<Answer, ConnectionError> {
        self.sent.extend(subject.attributes.iter().map(|(name, _)| name.to_owned()));
        self.conversation.send(request.as_bytes());
        let mut deadline = Deadline::after(limit);
        let mut answer = Answer::new(self.header.protocol);
        loop {
            let line = match self.conversation.line(deadline, &mut |line| log.stderr(line)) {
                Ok(line) => line,
                Err(ConversationError::Ended { status: Status::Exited(0), is_answering: false })
                    if self.has_answered =>
                {
                    return Err(ConnectionError::Exited);
                }
                Err(error) => return Err(ConnectionError::Fault(format!(" {error}"))),
            };
            if line.is_empty() {
                self.has_answered = true;
                return Ok(answer);
            }
            let was_broken = answer.is_broken();
            for event in answer.take(&String::from_utf8_lossy(&line)) {
                on_event(log, event);
            }
            if answer.is_broken() && !was_broken {
                deadline = Deadline::after(REST_LIMIT.min(limit));
            }
        }
    }

    /// Asks the module to terminate, and returns the conversation, for whose end the caller must wait.
    pub(crate) fn terminate(mut self) -> Conversation {
        self.conversation.send(terminate_request(self.header.protocol).as_bytes());
        self.conversation
    }
}

//! A conversation with a module that has introduced itself.

use crate::answer::{Answer, Remark};
use crate::header::{GREETING, Header};
use crate::request::{FAREWELL, farewell};
use crate::subject::Subject;
use crate::voice::Voice;
use holo_bridge::Sensitive;
use holo_bridge::trust::Trusted;
use holo_plugin::process::{Conversation, ConversationError, Deadline, Program, Status};
use std::collections::BTreeSet;
use std::time::Duration;

/// The time that a module has to introduce itself.
const HEADER_LIMIT: Duration = Duration::from_secs(30);
/// The time in which an answer that is no JSON, or a module that has taken leave, has to come to its end.
const REST_LIMIT: Duration = Duration::from_secs(5);

/// A conversation with a running module.
#[derive(Debug)]
pub(crate) struct Talk {
    conversation: Conversation,
    pub(crate) header: Header,
    /// The module's file when it was started.
    pub(crate) trusted: Trusted,
    /// The names of all attributes that were sent.
    sent: BTreeSet<String>,
    /// Everything sensitive that was sent.
    pub(crate) secrets: Sensitive,
    pub(crate) has_answered: bool,
}

/// A conversation that has gone wrong. The text reads after the module's path.
#[derive(Debug)]
pub(crate) enum TalkError {
    /// It came to its end between two answers, and nothing is wrong with that.
    Left,
    Fault(String),
}

impl Talk {
    /// Starts the program, and hears how it introduces itself.
    pub(crate) fn begin(mut program: Program, trusted: Trusted, voice: &mut Voice<'_, '_>) -> Result<Talk, TalkError> {
        let fault = |text: String| TalkError::Fault(text);
        let mut conversation = program.converse().map_err(|error| fault(format!(": {error}")))?;
        conversation.send(GREETING.as_bytes());
        let deadline = Deadline::after(HEADER_LIMIT);
        let mut line = || match conversation.line(deadline, &mut |line| voice.stderr(line)) {
            Ok(line) => Ok(String::from_utf8_lossy(&line).into_owned()),
            Err(ConversationError::Ended { status, .. }) => {
                Err(fault(format!(" ended before its header: {}", status.in_words())))
            }
            Err(error) => Err(fault(format!(" {error}"))),
        };
        let header = Header::parse(&line()?).map_err(|error| fault(error.to_string()))?;
        match line()? {
            end if end.is_empty() => {}
            other => return Err(fault(format!(": {other:?} is no header, and no empty line after one"))),
        }
        let (sent, secrets) = (BTreeSet::new(), Sensitive::default());
        Ok(Talk { conversation, header, trusted, sent, secrets, has_answered: false })
    }

    /// Returns true if the module cannot take another promise's attributes for this one's: some modules of the line-based protocol keep
    /// what they are told.
    pub(crate) fn is_clean_for(&self, subject: &Subject) -> bool {
        self.header.protocol == crate::header::Protocol::Json
            || self.sent.iter().all(|name| subject.attributes.get(name).is_some())
    }

    /// Returns true if this is the answer to a request that was never sent, of a module that had answered in advance and has ended since:
    /// it has not seen what it was asked last.
    pub(crate) fn has_left_with(&mut self, answer: &Answer, had_answered: bool, voice: &mut Voice<'_, '_>) -> bool {
        let takes_leave = answer.operation.as_deref() == Some(FAREWELL);
        takes_leave && had_answered && self.leaves_well(voice)
    }

    /// Waits for the end of a module that has taken leave, and returns true if it is a good one.
    fn leaves_well(&mut self, voice: &mut Voice<'_, '_>) -> bool {
        let end = self.conversation.line(Deadline::after(REST_LIMIT), &mut |line| voice.stderr(line));
        matches!(end, Err(ConversationError::Ended { status: Status::Exited(0), .. }))
    }

    /// Returns the way the module has ended, if it has, and everything that it has left was read.
    pub(crate) fn ended(&mut self, voice: &mut Voice<'_, '_>) -> Option<Result<Status, ConversationError>> {
        if !self.conversation.is_over(&mut |line| voice.stderr(line)) {
            return None;
        }
        let end = self.conversation.line(Deadline::after(Duration::ZERO), &mut |line| voice.stderr(line));
        Some(match end {
            Err(ConversationError::Ended { status, .. }) => Ok(status),
            Err(error) => Err(error),
            Ok(_) => return None,
        })
    }

    /// Sends a request about a promise, and reads the answer.
    pub(crate) fn ask(
        &mut self,
        request: &str,
        subject: &Subject,
        limit: Duration,
        voice: &mut Voice<'_, '_>,
        heard: &mut dyn FnMut(&mut Voice<'_, '_>, Remark),
    ) -> Result<Answer, TalkError> {
        self.sent.extend(subject.attributes.iter().map(|(name, _)| name.to_owned()));
        self.conversation.send(request.as_bytes());
        let mut deadline = Deadline::after(limit);
        let mut answer = Answer::new(self.header.protocol);
        loop {
            let line = match self.conversation.line(deadline, &mut |line| voice.stderr(line)) {
                Ok(line) => line,
                Err(ConversationError::Ended { status: Status::Exited(0), is_answering: false })
                    if self.has_answered =>
                {
                    return Err(TalkError::Left);
                }
                Err(error) => return Err(TalkError::Fault(format!(" {error}"))),
            };
            if line.is_empty() {
                self.has_answered = true;
                return Ok(answer);
            }
            let was_broken = answer.is_broken();
            for remark in answer.take(&String::from_utf8_lossy(&line)) {
                heard(voice, remark);
            }
            if answer.is_broken() && !was_broken {
                deadline = Deadline::after(REST_LIMIT.min(limit));
            }
        }
    }

    /// Tells the module to end, and returns the conversation, which has to be ended.
    pub(crate) fn dismiss(mut self) -> Conversation {
        self.conversation.send(farewell(self.header.protocol).as_bytes());
        self.conversation
    }
}

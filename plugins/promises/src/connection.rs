//! The connection to a running module, from its header to its termination.

use crate::answer::{Answer, LineEvent};
use crate::module_log::ModuleLog;
use crate::names::Subject;
use crate::request::{TERMINATE, terminate_request};
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

/// The header sent to modules. Their libraries require a version of CFEngine that supports promise modules.
const GREETING: &str = "cf-agent 3.21.0 v1\n\n";
const PROTOCOL: &str = "v1";

/// The two forms of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Json,
    Lines,
}

/// The header of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) protocol: Protocol,
    /// True if the module can do a dry run.
    pub(crate) has_action_policy: bool,
    /// The reason why the protocol had to be guessed.
    pub(crate) doubt: Option<&'static str>,
}

/// An invalid header, worded to follow the module's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// The line is not a header.
    NoHeader(String),
    /// The version of the protocol is unknown.
    Protocol(String),
}

impl Header {
    /// Parses the line.
    pub(crate) fn parse(line: &str) -> Result<Header, HeaderError> {
        let no_header = || HeaderError::NoHeader(line.to_owned());
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, _, version, flags @ ..] = words.as_slice() else { return Err(no_header()) };
        let digits = version.strip_prefix('v').unwrap_or_default();
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) || flags.is_empty() {
            return Err(no_header());
        }
        if *version != PROTOCOL {
            return Err(HeaderError::Protocol((*version).to_owned()));
        }
        let protocols: Vec<Protocol> = flags.iter().filter_map(|flag| protocol(flag)).collect();
        let doubt = match protocols.iter().all(|protocol| Some(protocol) == protocols.first()) {
            _ if protocols.is_empty() => Some("does not say which protocol it has; line_based is assumed"),
            false => Some("says that it has both protocols; the last one counts"),
            true => None,
        };
        let protocol = protocols.last().copied().unwrap_or(Protocol::Lines);
        Ok(Header { protocol, has_action_policy: flags.contains(&"action_policy"), doubt })
    }
}

fn protocol(flag: &str) -> Option<Protocol> {
    match flag {
        "json_based" => Some(Protocol::Json),
        "line_based" => Some(Protocol::Lines),
        _ => None,
    }
}

impl std::fmt::Display for HeaderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HeaderError::NoHeader(line) => write!(f, ": {line:?} is no header"),
            HeaderError::Protocol(version) => write!(f, " asks for protocol {version}, and v1 is the highest"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_how_a_module_talks() {
        for (line, protocol, has_action_policy, has_doubt) in [
            ("git_promise_module 0.0.1 v1 json_based", Protocol::Json, false, false),
            ("git 1 v1 line_based action_policy", Protocol::Lines, true, false),
            ("git 1 v1 action_policy odd json_based", Protocol::Json, true, false),
            ("git 1 v1 json_based json_based", Protocol::Json, false, false),
            ("git 1 v1 action_policy", Protocol::Lines, true, true),
            ("git 1 v1 line_based json_based", Protocol::Json, false, true),
            ("git 1 v1 json_based line_based", Protocol::Lines, false, true),
            ("  git  1\tv1 json_based \r", Protocol::Json, false, false),
        ] {
            let header = Header::parse(line).unwrap();
            assert_eq!(
                (header.protocol, header.has_action_policy, header.doubt.is_some()),
                (protocol, has_action_policy, has_doubt),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_no_header_is_shown() {
        for line in ["", "hello", "git 1 v1", "git 1 v json_based", "git 1 1 json_based", "git 1 vx json_based"] {
            let error = Header::parse(line).unwrap_err();
            assert_eq!(error.to_string(), format!(": {line:?} is no header"));
        }
        let error = Header::parse("git 1 v9 json_based").unwrap_err();
        assert_eq!(error.to_string(), " asks for protocol v9, and v1 is the highest");
    }
}

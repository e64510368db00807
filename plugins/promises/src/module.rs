//! A module in this run: whether it can be asked, and what becomes of it when it fails.

use crate::answer::{Answer, Remark};
use crate::level::Level;
use crate::request::{self, Operation};
use crate::subject::Subject;
use crate::talk::{Talk, TalkError};
use crate::voice::Voice;
use holo_bridge::{Faults, Invocation, Sensitive};
use holo_plugin::Host;
use holo_plugin::process::{Conversation, ConversationError, Status};
use std::sync::Arc;
use std::time::Duration;

/// The time that a module has to end when another conversation has to begin.
const END_LIMIT: Duration = Duration::from_secs(1);

/// A module's file with its interpreter.
#[derive(Debug)]
pub(crate) struct Module {
    invocation: Arc<Invocation>,
    talk: Option<Talk>,
    faults: Faults,
    /// True if it was said that it has levels of its own.
    has_odd_levels: bool,
    /// True if it was said that its header is doubtful.
    has_doubtful_header: bool,
}

/// A module that does not answer, or not as it should: the messages.
#[derive(Debug)]
pub(crate) struct AskError {
    pub(crate) messages: Vec<String>,
    /// True if it has not got the request.
    pub(crate) is_unsent: bool,
    /// True if the definition is to blame.
    pub(crate) is_of_definition: bool,
}

impl AskError {
    fn unsent(message: String) -> AskError {
        AskError { messages: vec![message], is_unsent: true, is_of_definition: false }
    }
}

/// What a module says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Introduction {
    /// True if it says that it can look without changing anything.
    pub(crate) looks: bool,
    /// The digest of its file.
    pub(crate) digest: String,
}

impl Module {
    pub(crate) fn new(invocation: Arc<Invocation>) -> Module {
        Module { invocation, talk: None, faults: Faults::default(), has_odd_levels: false, has_doubtful_header: false }
    }

    /// Returns its path, as the user knows it.
    pub(crate) fn shown(&self) -> String {
        self.invocation.file().display().to_string()
    }

    /// Has the module introduce itself, and asks it nothing.
    pub(crate) fn introduction(
        &mut self,
        host: &Host,
        subject: &Subject,
        voice: &mut Voice<'_, '_>,
    ) -> Result<Introduction, AskError> {
        let talk = self.prepared(host, subject, voice)?;
        Ok(Introduction { looks: talk.header.looks, digest: talk.trusted.digest().to_owned() })
    }

    /// Asks the module about a promise. An answer of which nothing can be made is an error.
    pub(crate) fn ask(
        &mut self,
        host: &Host,
        operation: Operation,
        subject: &Subject,
        sensitive: &Sensitive,
        limit: Duration,
        voice: &mut Voice<'_, '_>,
    ) -> Result<Answer, AskError> {
        let path = self.shown();
        let mut has_odd_levels = self.has_odd_levels;
        let answer = loop {
            let talk = self.prepared(host, subject, voice)?;
            let request = request::request(talk.header.protocol, operation, subject);
            let request =
                request.map_err(|problem| AskError { is_of_definition: true, ..AskError::unsent(problem) })?;
            talk.secrets.unite(sensitive);
            voice.hide_also(&talk.secrets);
            let mut heard = |voice: &mut Voice<'_, '_>, remark| pass_on(&path, remark, voice, &mut has_odd_levels);
            let had_answered = talk.has_answered;
            match talk.ask(&request, subject, limit, voice, &mut heard) {
                Ok(answer) if talk.has_left_with(&answer, had_answered, voice) => self.talk = None,
                Ok(answer) => break answer,
                // It ended after its answer, and that was not seen before it was asked again.
                Err(TalkError::Left) => self.talk = None,
                Err(TalkError::Fault(reason)) => return Err(self.fault(&reason)),
            }
        };
        self.has_odd_levels = has_odd_levels;
        if let Some(other) = answer.operation.as_deref().filter(|name| *name != operation.name()) {
            let (other, asked) = (voice.shown(other), operation.name());
            return Err(self.fault(&format!(" answered to {other:?} when it was asked for {asked:?}")));
        }
        if let Some(problem) = answer.problem() {
            let messages = vec![format!("{path}: {problem}")];
            return Err(AskError { messages, is_unsent: false, is_of_definition: false });
        }
        self.faults.forgive();
        Ok(answer)
    }

    /// Has the conversation end, and returns it to be waited for.
    pub(crate) fn dismiss(&mut self) -> Option<Conversation> {
        self.talk.take().map(Talk::dismiss)
    }

    /// Returns a conversation in which the module can be asked about the promise.
    fn prepared(&mut self, host: &Host, subject: &Subject, voice: &mut Voice<'_, '_>) -> Result<&mut Talk, AskError> {
        self.look_after(host, subject, voice)?;
        if self.faults.is_enough() {
            return Err(AskError::unsent(Faults::message(&self.shown())));
        }
        let talk = match self.talk.take() {
            Some(talk) => talk,
            None => self.begin(host, voice)?,
        };
        Ok(self.talk.insert(talk))
    }

    /// Ends the conversation if there has to be another one.
    fn look_after(&mut self, host: &Host, subject: &Subject, voice: &mut Voice<'_, '_>) -> Result<(), AskError> {
        let Some(talk) = &mut self.talk else { return Ok(()) };
        match talk.ended(voice) {
            None => {}
            Some(Ok(Status::Exited(0))) => {
                self.talk = None;
                return Ok(());
            }
            Some(end) => {
                // Whether it has ended before or after it was asked again is a matter of luck.
                let error =
                    end.map_or_else(|error| error, |status| ConversationError::Ended { status, is_answering: false });
                return Err(AskError { is_unsent: true, ..self.fault(&format!(" {error}")) });
            }
        }
        let is_clean = talk.is_clean_for(subject);
        let is_the_same = !talk.trusted.has_changed() || self.is_the_same(host)?;
        if !(is_clean && is_the_same) {
            self.leave(voice);
        }
        Ok(())
    }

    /// Returns true if the file that was touched is what it was.
    fn is_the_same(&mut self, host: &Host) -> Result<bool, AskError> {
        let (_, trusted) = self.invocation.program(host).map_err(|error| AskError::unsent(error.to_string()))?;
        let Some(talk) = &mut self.talk else { return Ok(false) };
        let is_the_same = trusted.digest() == talk.trusted.digest();
        if is_the_same {
            talk.trusted = trusted;
        }
        Ok(is_the_same)
    }

    fn leave(&mut self, voice: &mut Voice<'_, '_>) {
        if let Some(conversation) = self.dismiss() {
            // It has nothing more to do: how it ends is of no account.
            let _ = conversation.end(END_LIMIT, &mut |line| voice.stderr(line));
        }
    }

    fn begin(&mut self, host: &Host, voice: &mut Voice<'_, '_>) -> Result<Talk, AskError> {
        let (program, trusted) = self.invocation.program(host).map_err(|error| AskError::unsent(error.to_string()))?;
        match Talk::begin(program, trusted, voice) {
            Ok(talk) => {
                if let Some(doubt) = talk.header.doubt.filter(|_| !self.has_doubtful_header) {
                    self.has_doubtful_header = true;
                    voice.warning(&format!("{} {doubt}", self.shown()));
                }
                Ok(talk)
            }
            Err(TalkError::Fault(reason)) => Err(AskError { is_unsent: true, ..self.fault(&reason) }),
            Err(TalkError::Left) => Err(AskError { is_unsent: true, ..self.fault(" ended before its header") }),
        }
    }

    /// Ends the conversation for good.
    fn fault(&mut self, reason: &str) -> AskError {
        self.talk = None;
        self.faults.add();
        let mut messages = vec![format!("{}{reason}", self.shown())];
        if self.faults.is_enough() {
            messages.push(Faults::message(&self.shown()));
        }
        AskError { messages, is_unsent: false, is_of_definition: false }
    }
}

/// Tells whoever may want to know.
fn pass_on(path: &str, remark: Remark, voice: &mut Voice<'_, '_>, has_odd_levels: &mut bool) {
    match remark {
        Remark::Log { level, text } => voice.log(level, &text),
        Remark::UnknownLevel { name, text } => {
            if !std::mem::replace(has_odd_levels, true) {
                voice.warning(&format!("{path}: {name:?} is no level; what is said with it is shown as info"));
            }
            voice.log(Level::Info, &text);
        }
        Remark::Stray(line) => voice.warning(&format!("{path} wrote outside of the protocol: {line}")),
        Remark::Repeated(key) => voice.warning(&format!("{path}: {key} is there twice in an answer; the last counts")),
    }
}

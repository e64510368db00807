//! The operations whose answers are texts, in a session.

use super::conversation::{RequestEnd, Said};
use super::{OperationError, PluginError, Slot};
use crate::interrupt::Interrupt;
use crate::plugin::{Adopted, Adoption, Identity};
use bstr::BStr;
use holo_protocol::session::{Answer, Operation, Outcome, Request, Stream};
use holo_protocol::{AdoptMessage, Text};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The answer to a request for texts.
struct Answered {
    text: Vec<u8>,
    messages: Vec<Text>,
}

impl Slot {
    /// Returns the lines that list candidates.
    pub(in crate::plugin) fn candidates(
        &mut self,
        plugin: &Identity,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Vec<u8>, OperationError> {
        Ok(self.ask_for_text(plugin, Request::new(0, Operation::Adopt), interrupt, on_output)?.text)
    }

    /// Returns the lines with the origins of a file's lines.
    pub(in crate::plugin) fn blame(
        &mut self,
        plugin: &Identity,
        id: &BStr,
        path: &Path,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Vec<u8>, OperationError> {
        let path = Some(path.as_os_str().as_bytes().into());
        let request = Request { entities: vec![Text::from(id)], path, ..Request::new(0, Operation::Blame) };
        Ok(self.ask_for_text(plugin, request, interrupt, on_output)?.text)
    }

    pub(in crate::plugin) fn adopt(
        &mut self,
        plugin: &Identity,
        adoption: Adoption<'_>,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Adopted, OperationError> {
        let Adoption { id, directory, resolved, with } = adoption;
        let request = Request {
            entities: vec![Text::from(id)],
            adopt_dir: Some(directory.as_os_str().as_bytes().into()),
            adopt_with: with.iter().map(|id| Text(id.clone())).collect(),
            adopt_resolved: resolved.map(|path| path.as_os_str().as_bytes().into()),
            ..Request::new(0, Operation::Adopt)
        };
        let Answered { text, messages } = self.ask_for_text(plugin, request, interrupt, on_output)?;
        let messages = messages.iter().filter_map(|line| AdoptMessage::parse(line.as_bstr())).collect();
        Ok(Adopted::new(messages, text))
    }

    fn ask_for_text(
        &mut self,
        plugin: &Identity,
        request: Request,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Answered, OperationError> {
        let mut answered = Answered { text: Vec::new(), messages: Vec::new() };
        // The answer about an entity ends with a result.
        let mut outcome = if request.entities.is_empty() { Outcome::Done } else { Outcome::Failed };
        let end = self.ask(plugin, request, interrupt, &mut |said| match said {
            Said::Answer(Answer::Text { text, .. }) => answered.text.extend_from_slice(text.as_bstr()),
            Said::Answer(Answer::Output { stream, text, .. }) => on_output(stream, text.as_bstr()),
            Said::Answer(Answer::Result { messages, result, .. }) => {
                answered.messages = messages;
                outcome = result;
            }
            Said::Stray(stream, bytes) | Said::AtTheEnd(stream, bytes) => on_output(stream, bytes),
            Said::Answer(_) | Said::Waiting | Said::Burst { .. } | Said::Begun(_) => {}
        })?;
        match (end, outcome) {
            (RequestEnd::TimedOut(limit), _) => Err(PluginError::TimedOut(limit).into()),
            (RequestEnd::Over(error), _) => Err(error.into()),
            (_, Outcome::Failed) | (RequestEnd::Answered(Outcome::Failed), _) => Err(PluginError::Operation.into()),
            (RequestEnd::Answered(Outcome::Done), Outcome::Done) => Ok(answered),
        }
    }
}

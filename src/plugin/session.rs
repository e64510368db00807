//! Plugins of version 4 that serve a whole run with one process.

mod conversation;
mod set;

use super::{Adopted, Adoption, Identity, Job, OperationError, PluginError, Progress, Task};
use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use bstr::{BStr, BString};
use conversation::{RequestEnd, Said, Session};
use holo_protocol::session::{Answer, Operation, Outcome, Received, Request, Stream, Wanted};
use holo_protocol::{AdoptMessage, FilePair, ScanLimit, Text};
use set::Set;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A plugin is given up after dying with this number of consecutive entities without beginning any of them.
const MAX_DEATHS_IN_A_ROW: u32 = 3;

/// The session of a plugin: `None` until the first request, and after the session died.
#[derive(Debug, Default)]
pub(super) struct Slot(Option<Box<Session>>);

impl Slot {
    /// Closes the input of the session, if there is one.
    pub(super) fn dismiss(&mut self) {
        if let Some(session) = &mut self.0 {
            session.close_input();
        }
    }

    pub(super) fn scan(
        &mut self,
        plugin: &Identity,
        limit: Option<ScanLimit<'_>>,
        interrupt: &Interrupt,
        on_report: &mut dyn FnMut(&[u8]),
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<(), OperationError> {
        self.ask_for_report(plugin, Request::scan(limit), interrupt, on_report, on_output)
    }

    pub(super) fn report(
        &mut self,
        plugin: &Identity,
        operation: Operation,
        ids: &[BString],
        interrupt: &Interrupt,
        on_report: &mut dyn FnMut(&[u8]),
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<(), OperationError> {
        let entities = ids.iter().cloned().map(Text).collect();
        let request = Request { entities, ..Request::new(0, operation) };
        self.ask_for_report(plugin, request, interrupt, on_report, on_output)
    }

    /// Sends a request that is not about a single entity, and is answered with lines.
    fn ask_for_report(
        &mut self,
        plugin: &Identity,
        request: Request,
        interrupt: &Interrupt,
        on_report: &mut dyn FnMut(&[u8]),
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<(), OperationError> {
        let end = self.ask(plugin, request, interrupt, &mut |said| match said {
            Said::Answer(Answer::Report { text, .. }) => on_report(text.as_bstr()),
            Said::Answer(Answer::Output { stream, text, .. }) => on_output(stream, text.as_bstr()),
            Said::Stray(stream, bytes) | Said::AtTheEnd(stream, bytes) => on_output(stream, bytes),
            Said::Answer(_) | Said::Waiting | Said::Burst { .. } | Said::Begun(_) => {}
        })?;
        match end {
            RequestEnd::Answered(Outcome::Done) => Ok(()),
            RequestEnd::Answered(Outcome::Failed) => Err(PluginError::Operation.into()),
            RequestEnd::Over(error) => Err(error.into()),
            RequestEnd::TimedOut(limit) => Err(PluginError::TimedOut(limit).into()),
        }
    }

    pub(super) fn diff(
        &mut self,
        plugin: &Identity,
        id: &BStr,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Option<FilePair>, OperationError> {
        let mut pair = None;
        let mut outcome = Outcome::Done;
        let end = self.ask(plugin, work_on(Operation::Diff, &[Job::new(id)]), interrupt, &mut |said| match said {
            Said::Answer(answer @ Answer::Diff { .. }) => pair = FilePair::from_answer(&answer),
            Said::Answer(Answer::Output { stream, text, .. }) => on_output(stream, text.as_bstr()),
            Said::Answer(Answer::Result { result, .. }) => outcome = result,
            Said::Stray(stream, bytes) | Said::AtTheEnd(stream, bytes) => on_output(stream, bytes),
            Said::Answer(_) | Said::Waiting | Said::Burst { .. } | Said::Begun(_) => {}
        })?;
        match (end, outcome) {
            (RequestEnd::TimedOut(limit), _) => Err(PluginError::TimedOut(limit).into()),
            (RequestEnd::Over(error), _) => Err(error.into()),
            (_, Outcome::Failed) | (RequestEnd::Answered(Outcome::Failed), _) => Err(PluginError::Operation.into()),
            (RequestEnd::Answered(Outcome::Done), Outcome::Done) => Ok(pair),
        }
    }

    pub(super) fn preview(
        &mut self,
        plugin: &Identity,
        jobs: &[Job<'_>],
        interrupt: &Interrupt,
    ) -> Result<Vec<Option<FilePair>>, FatalError> {
        let mut pairs = HashMap::new();
        let end = self.ask(plugin, work_on(Operation::Preview, jobs), interrupt, &mut |said| {
            if let Said::Answer(answer @ Answer::Diff { .. }) = said
                && let Some(pair) = FilePair::from_answer(&answer)
                && let Answer::Diff { entity, .. } = answer
            {
                pairs.insert(entity.0, pair);
            }
        });
        match end {
            Err(OperationError::Fatal(fatal)) => Err(fatal),
            // The previews of the remaining entities are unknown.
            Ok(_) | Err(OperationError::Failed(_)) => Ok(jobs.iter().map(|job| pairs.remove(job.id)).collect()),
        }
    }

    pub(super) fn work(
        &mut self,
        plugin: &Identity,
        task: Task,
        jobs: &[Job<'_>],
        interrupt: &Interrupt,
        on_progress: &mut dyn FnMut(usize, Progress<'_>),
    ) -> Result<(), FatalError> {
        let operation = match task {
            Task::Check => Operation::Check,
            Task::Apply => Operation::Apply,
            Task::ForceApply => Operation::ForceApply,
        };
        let mut set = Set::new(jobs);
        let mut deaths_in_a_row = 0;
        // Set after a session died without beginning an entity: then entities are requested one at a time until the
        // culprit is found.
        let mut searching = false;
        while let Some(mut waiting) = set.waiting() {
            if searching {
                waiting.truncate(1);
            }
            let (is_fresh, unfinished) = (self.0.is_none(), set.unfinished());
            let end =
                self.ask(plugin, work_on(operation, &waiting), interrupt, &mut |said| set.take(said, on_progress));
            let reason = match end {
                Err(OperationError::Fatal(fatal)) => return Err(fatal.during(set.at_work())),
                Ok(RequestEnd::TimedOut(limit)) => {
                    if set.fail_late(limit, on_progress) {
                        (deaths_in_a_row, searching) = (0, false);
                        continue;
                    }
                    PluginError::TimedOut(limit).to_string()
                }
                Ok(RequestEnd::Answered(_)) => {
                    let reason = format!("{} did not report the result", plugin.program().display());
                    set.fail(&waiting, &reason, on_progress);
                    deaths_in_a_row = 0;
                    continue;
                }
                Ok(RequestEnd::Over(error)) | Err(OperationError::Failed(error)) => error.to_string(),
            };
            if set.fail_in_hand(&reason, on_progress) {
                (deaths_in_a_row, searching) = (0, false);
                continue;
            }
            if set.unfinished() < unfinished {
                deaths_in_a_row = 0;
            }
            // A session that had been idle may have died before it received the request.
            if waiting.len() == 1 && is_fresh {
                set.fail(&waiting, &reason, on_progress);
                deaths_in_a_row += 1;
            }
            searching = waiting.len() > 1 || !is_fresh;
            if deaths_in_a_row == MAX_DEATHS_IN_A_ROW {
                set.fail_all(&reason, on_progress);
            }
        }
        Ok(())
    }

    /// Sends a request, in a new session if there is none. If the session ends, the slot becomes empty.
    fn ask(
        &mut self,
        plugin: &Identity,
        request: Request,
        interrupt: &Interrupt,
        said: &mut dyn FnMut(Said<'_>),
    ) -> Result<RequestEnd, OperationError> {
        let mut session = match self.0.take() {
            Some(session) => session,
            None => Box::new(Session::start(plugin).map_err(PluginError::Start)?),
        };
        let end = session.ask(request, plugin.options.limit, interrupt, said)?;
        if matches!(end, RequestEnd::Answered(_)) && plugin.options.room_for_all {
            self.0 = Some(session);
        }
        Ok(end)
    }
}
/// Returns the request for an operation on entities. The session assigns its number.
fn work_on(operation: Operation, jobs: &[Job<'_>]) -> Request {
    let text = |job: &Job<'_>| Text::from(job.id);
    let entities = jobs.iter().map(text).collect();
    let refresh = jobs.iter().filter(|job| job.refresh).map(text).collect();
    let pending = jobs.iter().filter(|job| job.pending).map(text).collect();
    let received = jobs.iter().filter(|job| !job.received.is_empty());
    let values = |job: &Job<'_>| job.received.iter().cloned().map(Text).collect();
    let received = received.map(|job| Received { entity: text(job), values: values(job) }).collect();
    let wanted = jobs.iter().filter(|job| !job.wanted.is_empty());
    let names = |job: &Job<'_>| job.wanted.iter().cloned().map(Text).collect();
    let wanted = wanted.map(|job| Wanted { entity: text(job), names: names(job) }).collect();
    let renewed = jobs.iter().filter(|job| job.renewed).map(text).collect();
    Request { entities, refresh, pending, received, wanted, renewed, ..Request::new(0, operation) }
}

/// The answer to a request for texts.
struct Answered {
    text: Vec<u8>,
    messages: Vec<Text>,
}

impl Slot {
    /// Returns the lines that list candidates.
    pub(super) fn candidates(
        &mut self,
        plugin: &Identity,
        interrupt: &Interrupt,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Vec<u8>, OperationError> {
        Ok(self.ask_for_text(plugin, Request::new(0, Operation::Adopt), interrupt, on_output)?.text)
    }

    /// Returns the lines with the origins of a file's lines.
    pub(super) fn blame(
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

    pub(super) fn adopt(
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

//! Plugins of version 4 that serve a whole run with one process.

mod conversation;
mod set;

use super::{Identity, Job, OperationError, PluginError, Progress, Task, jobs_request};
use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use conversation::{RequestEnd, Said, Session};
use holo_protocol::session::{Answer, Operation, Outcome, Request};
use set::Set;

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

    /// Sends a request that changes no entity. It fails if an entity does.
    pub(super) fn ask(
        &mut self,
        plugin: &Identity,
        request: Request,
        interrupt: &Interrupt,
        on_answer: &mut dyn FnMut(Answer),
    ) -> Result<(), OperationError> {
        // The answer about an entity ends with a result.
        let has_results = matches!(request.operation, Operation::Blame | Operation::Adopt);
        let mut outcome = if has_results && !request.entities.is_empty() { Outcome::Failed } else { Outcome::Done };
        let end = self.send(plugin, request, interrupt, &mut |said| match said {
            Said::Answer(answer) => {
                if let Answer::Result { result, .. } = answer {
                    outcome = result;
                }
                on_answer(answer);
            }
            Said::Stray(stream, bytes) | Said::AtTheEnd(stream, bytes) => {
                on_answer(Answer::Output { request: 0, entity: None, stream, text: bytes.into() });
            }
            Said::Waiting | Said::Burst { .. } | Said::Begun(_) => {}
        })?;
        match (end, outcome) {
            (RequestEnd::Answered(Outcome::Done), Outcome::Done) => Ok(()),
            (RequestEnd::Answered(_), _) => Err(PluginError::Operation.into()),
            (RequestEnd::Over(error), _) => Err(error.into()),
            (RequestEnd::TimedOut(limit), _) => Err(PluginError::TimedOut(limit).into()),
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
            let request = Request {
                remembers: plugin.remembers(),
                watches: plugin.watches(),
                ..jobs_request(task.operation(), &waiting)
            };
            let end = self.send(plugin, request, interrupt, &mut |said| set.take(said, on_progress));
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
    fn send(
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
        let end = session.ask(request, &plugin.options, interrupt, said)?;
        if matches!(end, RequestEnd::Answered(_)) && plugin.options.room_for_all {
            self.0 = Some(session);
        }
        Ok(end)
    }
}

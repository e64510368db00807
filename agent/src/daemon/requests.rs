//! Requests of clients: the status, complete runs, and pauses.

use super::{Daemon, LOOK_AGAIN};
use crate::event::{Pause, What};
use crate::request::{Answer, Request};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

impl Daemon<'_> {
    /// Meets a request. The answer may be sent later.
    pub(super) fn meet(&mut self, request: Request, client: oneshot::Sender<Answer>) {
        let answer = match request {
            Request::Status => Answer::Status(Box::new(self.status())),
            _ if self.is_stopping || self.is_once => refused("the agent is about to end"),
            Request::RunNow { wait } => match self.last.pause() {
                Some(pause) => paused(pause),
                None => {
                    let clients = self.requested.get_or_insert_default();
                    self.next_run = Instant::now();
                    if wait {
                        clients.push(client);
                        return;
                    }
                    Answer::Done
                }
            },
            Request::Pause { seconds, reason, by } => self.pause(seconds, reason, by),
            Request::Resume { by } => self.resume(Some(by)),
        };
        // The client may have disconnected.
        let _ = client.send(answer);
    }

    /// Makes no changes from now on. A run in progress is not interrupted.
    fn pause(&mut self, seconds: Option<u64>, reason: String, by: String) -> Answer {
        let now = self.clock.now();
        let until = seconds.map(|seconds| now.checked_add(Duration::from_secs(seconds))).transpose();
        let Ok(until) = until else { return refused("the end of the pause is too far in the future") };
        let since = self.last.pause().map_or(now, |pause| pause.since);
        let pause = Pause { since, until, by, reason };
        for client in self.requested.take().into_iter().flatten() {
            let _ = client.send(paused(&pause));
        }
        let unsaved = self.last.set_pause(Some(pause.clone()));
        self.publish(vec![What::Paused(pause)]);
        match unsaved {
            Some(error) => refused(&format!("paused, but not beyond a restart of the agent: {error}")),
            None => Answer::Done,
        }
    }

    /// Ends the pause, if there is one, and begins the runs that it has delayed. If a person asks for it, entities that
    /// were repaired too often are repaired again.
    fn resume(&mut self, by: Option<String>) -> Answer {
        if by.is_some() {
            // A run that a person has asked for also ends that entities are left alone.
            self.requested.get_or_insert_default();
            self.next_run = Instant::now();
        }
        if self.last.pause().is_none() {
            return Answer::Done;
        }
        let unsaved = self.last.set_pause(None);
        self.next_run = Instant::now();
        self.publish(vec![What::Resumed { by }]);
        match unsaved {
            Some(error) => refused(&format!("resumed, but the next agent will be paused again: {error}")),
            None => Answer::Done,
        }
    }

    pub(super) fn end_pause_if_over(&mut self) {
        let until = self.last.pause().and_then(|pause| pause.until);
        if until.is_some_and(|until| until <= self.clock.now()) {
            self.resume(None);
        }
    }

    /// Returns the time at which the end of the pause must be checked. The clock may be set, or the machine suspended.
    pub(super) fn end_of_pause(&self) -> Option<Instant> {
        let rest = self.clock.now().duration_until(self.last.pause()?.until?);
        Some(Instant::now() + Duration::try_from(rest).unwrap_or_default().min(LOOK_AGAIN))
    }
}

fn refused(reason: &str) -> Answer {
    Answer::Refused { reason: reason.to_owned() }
}

fn paused(pause: &Pause) -> Answer {
    refused(&format!("the agent is paused {pause}; \"holo-agent resume\" ends the pause"))
}

//! The connection to a fleet: `holo-fleet` runs beside the watch, and tells what happens.

use super::{Daemon, unexpected};
use crate::agenda::retry_after;
use crate::child::{ChildEvent, ChildId, Running, Task};
use crate::event::{FleetState, What};
use crate::report::Connection;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::Instant;

/// The timeout for the program to terminate.
const TIME_TO_END: Duration = Duration::from_secs(10);

/// The connection to a fleet.
#[derive(Default)]
pub(super) struct Fleet {
    child: Option<Child>,
    /// The time of the next start.
    next: Option<Instant>,
    /// The number of consecutive starts that have led to nothing.
    failures: u32,
    is_connected: bool,
}

struct Child {
    id: ChildId,
    child: Box<dyn Running>,
    /// The configuration that it was started for.
    section: Map<String, Value>,
    /// The time at which it is killed.
    kill_at: Option<Instant>,
}

impl Fleet {
    pub(super) fn is(&self, id: ChildId) -> bool {
        self.child.as_ref().is_some_and(|child| child.id == id)
    }

    pub(super) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Asks the program to terminate.
    pub(super) fn end(&mut self, now: Instant) {
        if let Some(child) = self.child.as_mut().filter(|child| child.kill_at.is_none()) {
            child.child.end();
            child.kill_at = Some(now + TIME_TO_END);
        }
    }

    /// Returns the time of the next action.
    pub(super) fn next_wake(&self, is_configured: bool) -> Option<Instant> {
        match &self.child {
            Some(child) => child.kill_at,
            None => self.next.filter(|_| is_configured),
        }
    }

    pub(super) fn connection(&self, is_configured: bool) -> Connection {
        match (is_configured, self.is_connected) {
            (false, _) => Connection::None,
            (true, true) => Connection::Connected,
            (true, false) => Connection::Disconnected,
        }
    }
}

impl Daemon<'_> {
    /// Starts and ends the program as the configuration says.
    pub(super) fn look_after_fleet(&mut self, now: Instant) {
        let section = self.config.fleet.as_ref().filter(|_| !self.is_stopping && !self.is_once);
        match &mut self.fleet.child {
            Some(child) if child.kill_at.is_some_and(|at| at <= now) => {
                child.child.kill();
                child.kill_at = Some(now + TIME_TO_END);
            }
            Some(child) if section != Some(&child.section) => self.fleet.end(now),
            None if self.fleet.next.is_none_or(|next| next <= now) => {
                if let Some(section) = section.cloned() {
                    self.start_fleet(section, now);
                }
            }
            _ => {}
        }
    }

    fn start_fleet(&mut self, section: Map<String, Value>, now: Instant) {
        let (id, child) = self.start(&Task::Fleet);
        match child {
            Ok(child) => self.fleet.child = Some(Child { id, child, section, kill_at: None }),
            Err(error) => self.fleet_has_ended(error.to_string(), now),
        }
    }

    pub(super) fn hear_fleet(&mut self, said: ChildEvent) {
        let now = Instant::now();
        match said {
            ChildEvent::News(news) => {
                if let What::Fleet { state, .. } = &*news {
                    match state {
                        FleetState::Connected => (self.fleet.is_connected, self.fleet.failures) = (true, 0),
                        FleetState::Disconnected => self.fleet.is_connected = false,
                        FleetState::NameRefused | FleetState::NameTaken => {}
                    }
                }
                self.publish(vec![*news]);
            }
            ChildEvent::Garbage(text) => unexpected(&text),
            ChildEvent::Line(_) => {}
            ChildEvent::Ended(ended) => {
                let is_wanted = self.fleet.child.take().is_some_and(|child| child.kill_at.is_none());
                let how =
                    ended.status.and_then(holo_process::Status::failure).unwrap_or_else(|| "exit status 0".to_owned());
                if is_wanted {
                    self.fleet_has_ended(format!("holo-fleet has ended: {how}"), now);
                } else {
                    (self.fleet.is_connected, self.fleet.next) = (false, None);
                }
            }
        }
    }

    /// Starts the program again later.
    fn fleet_has_ended(&mut self, reason: String, now: Instant) {
        let is_first = self.fleet.failures == 0;
        self.fleet.failures += 1;
        self.fleet.is_connected = false;
        self.fleet.next = Some(now + retry_after(self.fleet.failures));
        if is_first {
            self.publish(vec![What::Fleet { state: FleetState::Disconnected, reason: Some(reason) }]);
        }
    }
}

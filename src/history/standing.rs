//! What the last check or apply found: the entities that are not in their desired state.

use super::record::{VERSION, is_zero, now, to_json};
use crate::error::FatalError;
use crate::host::settings::{RunId, Settings};
use crate::report::{End, Event, Reason, Reporter};
use bstr::BString;
use holo_events::Tally;
use holo_protocol::Text;
use holo_state::{Database, StateError};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// The maximum number of entities that are named. All are counted.
const NAMED: usize = 1000;

/// The state of a machine according to its last complete check or apply, updated by later ones of some entities.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    version: u8,
    /// The time at which the last complete check or apply began.
    pub time: Timestamp,
    /// The ID of that run.
    pub run: RunId,
    /// Its command: `check` or `apply`.
    pub command: String,
    /// The number of entities.
    pub entities: usize,
    /// Whether an invalid definition kept entities from being checked.
    #[serde(default)]
    pub is_flawed: bool,
    /// The entities that are not in their desired state.
    pub off: Vec<Off>,
    /// The number of further ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

/// An entity that is not in its desired state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Off {
    /// Its ID.
    pub id: Text,
    /// The ID of its plugin.
    pub plugin: String,
    /// The way in which it is not.
    pub state: OffState,
    /// The change that an apply would make, the reason for which it needs force, or the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Text>,
}

/// The way in which an entity is not in its desired state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OffState {
    /// An apply would change it.
    Pending,
    /// A person has changed it, so that only `apply --force` would.
    Refused,
    /// An entity that it requires is not in its desired state.
    Skipped,
    /// It cannot be checked or applied.
    Failed,
}

impl OffState {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OffState::Pending => "pending",
            OffState::Refused => "refused",
            OffState::Skipped => "skipped",
            OffState::Failed => "failed",
        }
    }

    fn of(end: End) -> Option<OffState> {
        match end {
            End::Unchanged | End::ConditionNotMet | End::Changed => None,
            End::Pending => Some(OffState::Pending),
            End::Refused => Some(OffState::Refused),
            End::DependencyFailed => Some(OffState::Skipped),
            End::Failed => Some(OffState::Failed),
        }
    }
}

impl Standing {
    /// Returns the record in a database, if there is one that this version understands.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn read(database: &Database) -> Result<Option<Standing>, StateError> {
        let standing = database.standing()?.and_then(|text| serde_json::from_str::<Standing>(&text).ok());
        Ok(standing.filter(|standing| standing.version == VERSION))
    }

    /// Returns the number of entities that are not in their desired state.
    #[must_use]
    pub fn count(&self) -> usize {
        self.off.len() + self.more
    }

    /// Returns the number of named entities of each plugin in a state.
    #[must_use]
    pub fn by_plugin(&self, state: OffState) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for off in self.off.iter().filter(|off| off.state == state) {
            *counts.entry(off.plugin.as_str()).or_default() += 1;
        }
        counts
    }
}

/// Forwards the events of a check or an apply, and collects what they tell about the state of entities.
pub struct Standings<'a> {
    reporter: &'a mut dyn Reporter,
    reason: Reason,
    off: Vec<Off>,
    /// The number of further ones.
    more: usize,
    /// The entities that were worked on, if not all are.
    worked: HashSet<BString>,
    is_complete: bool,
    entities: usize,
    /// The time before the definitions are read.
    began: Timestamp,
}

impl<'a> Standings<'a> {
    /// Returns a collector for a run of all entities, or of some.
    pub fn new(reporter: &'a mut dyn Reporter, is_complete: bool) -> Standings<'a> {
        Standings {
            reporter,
            reason: Reason::default(),
            off: Vec::new(),
            more: 0,
            worked: HashSet::new(),
            is_complete,
            entities: 0,
            began: now(),
        }
    }

    /// Returns the state of the machine after the run; `None` if it is unknown. `before` is the state before the run.
    fn finish(
        self,
        settings: &Settings,
        command: &str,
        done: &Result<Tally, FatalError>,
        before: Option<Standing>,
    ) -> Option<Standing> {
        let mut standing = match done {
            Ok(tally) if self.is_complete => Standing {
                version: VERSION,
                time: self.began,
                run: settings.run.clone(),
                command: command.to_owned(),
                entities: self.entities,
                is_flawed: tally.flawed,
                off: Vec::new(),
                more: 0,
            },
            _ => before?,
        };
        // Of an interrupted run of all entities, only those that are not in their desired state are known.
        let known: HashSet<Text> = self.off.iter().map(|off| off.id.clone()).collect();
        standing.off.retain(|off| !self.worked.contains(&off.id.0) && !known.contains(&off.id));
        standing.off.extend(self.off);
        standing.more += self.more + standing.off.len().saturating_sub(NAMED);
        standing.off.truncate(NAMED);
        Some(standing)
    }

    /// Records the state of the machine after the run, if there is a database and it can be written, and returns it. A
    /// check may be run by a user who may not write it.
    pub fn keep(
        self,
        settings: &Settings,
        command: &str,
        done: &Result<Tally, FatalError>,
        database: &Database,
    ) -> Option<Standing> {
        let before = Standing::read(database).ok().flatten();
        // An apply may have ended during a check.
        let is_newer = before.as_ref().is_none_or(|before| before.time <= self.began);
        let standing = self.finish(settings, command, done, before);
        if let Some(standing) = standing.as_ref().filter(|_| settings.keeps_history && is_newer) {
            // After a scrub, the state of the entities is not the one that the definitions describe.
            let is_known = (standing.entities > 0 || standing.is_flawed) && !settings.root.has_temporary_inputs();
            let record = is_known.then(|| to_json(standing));
            let _ = database.write_standing(record.as_deref());
        }
        standing
    }

    fn observe(&mut self, event: &Event<'_>) {
        self.reason.hear(event);
        match event {
            Event::Settled(number) => self.entities += number,
            Event::Undone(_) => self.entities -= 1,
            Event::End(entity, end, _) => {
                self.entities += 1;
                if !self.is_complete {
                    self.worked.insert(entity.id().to_owned());
                }
                if let Some(state) = OffState::of(*end) {
                    if self.off.len() == NAMED {
                        self.more += 1;
                        return;
                    }
                    let (id, plugin) = (entity.id().into(), entity.plugin_id().to_owned());
                    self.off.push(Off { id, plugin, state, about: self.reason.take().map(Text) });
                }
            }
            _ => {}
        }
    }
}

impl Reporter for Standings<'_> {
    fn event(&mut self, event: Event<'_>) {
        self.observe(&event);
        self.reporter.event(event);
    }

    fn is_read(&self) -> bool {
        self.reporter.is_read()
    }
}

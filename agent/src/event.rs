//! Events on the machine, for storage and transmission.

use holo_events::{HealthState, Tally, Writer};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// An ID that is unique on this machine, so that recipients can detect duplicates.
    pub id: String,
    /// The time at which it was detected, in UTC.
    pub time: Timestamp,
    /// The kind of event.
    pub what: What,
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum What {
    /// A run has ended.
    Run(Box<RunEvent>),
    /// An entity is no longer in its desired state.
    Drifted {
        /// Its ID.
        entity: String,
        /// The reason, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The process that modified it, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        writer: Option<Writer<'static>>,
    },
    /// An entity is in its desired state again without having been repaired.
    Returned {
        /// Its ID.
        entity: String,
    },
    /// An entity was repaired.
    Repaired {
        /// Its ID.
        entity: String,
        /// The changes that were made.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<String>,
    },
    /// An entity cannot be checked or repaired.
    Failed {
        /// Its ID.
        entity: String,
        /// The reason.
        reason: String,
    },
    /// The state of an entity's health checks has changed.
    Health {
        /// Its ID.
        entity: String,
        /// The worst state.
        state: HealthState,
        /// The message of that check, unless it is ok.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Earlier events, of which only the numbers are kept.
    Merged(Counts),
}

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEvent {
    /// The ID assigned by holo, if the run got that far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// `apply` or `check`.
    pub verb: String,
    /// The IDs of the entities to apply; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entities: Vec<String>,
    /// The result.
    pub result: RunResult,
    /// The start time in UTC.
    pub began: Timestamp,
    /// The duration in seconds.
    pub duration: f64,
    /// The exit status of holo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The number of entities by result.
    #[serde(default)]
    pub tally: Tally,
    /// The number of refreshes that are still due.
    #[serde(default)]
    pub refreshes_due: usize,
    /// The generation of its inputs, if generations are saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// The IDs of the first failed entities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// The reason why it could not begin, or ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunResult {
    /// All entities were in their desired state.
    Unchanged,
    /// Changes were made, and all entities are in their desired state.
    Changed,
    /// Changes are pending: the run was a check, or entities were only checked or deferred.
    Pending,
    /// Entities were left unchanged because `--force` is required, or entities that they require are missing.
    Refused,
    /// An entity failed.
    Failed,
    /// The run was terminated early.
    Interrupted,
    /// The run could not begin, or crashed.
    Error,
}

impl RunResult {
    /// All results.
    pub const ALL: [RunResult; 7] = [
        RunResult::Unchanged,
        RunResult::Changed,
        RunResult::Pending,
        RunResult::Refused,
        RunResult::Failed,
        RunResult::Interrupted,
        RunResult::Error,
    ];

    /// Returns the name used in events and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RunResult::Unchanged => "unchanged",
            RunResult::Changed => "changed",
            RunResult::Pending => "pending",
            RunResult::Refused => "refused",
            RunResult::Failed => "failed",
            RunResult::Interrupted => "interrupted",
            RunResult::Error => "error",
        }
    }

    /// Returns true if the run could check all entities without errors.
    #[must_use]
    pub fn is_good(self) -> bool {
        matches!(self, RunResult::Unchanged | RunResult::Changed | RunResult::Pending)
    }
}

/// The numbers of merged events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// The time of the first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// The number of runs by result.
    pub runs: BTreeMap<String, u64>,
    /// The number of drifted entities.
    pub drifted: u64,
    /// The number of returned entities.
    pub returned: u64,
    /// The number of repaired entities.
    pub repaired: u64,
    /// The number of failed entities.
    pub failed: u64,
    /// The number of changes of health.
    pub health: u64,
}

impl Counts {
    /// Counts an event, or the events merged in it.
    pub fn add(&mut self, event: &Event) {
        let from = match &event.what {
            What::Merged(counts) => counts.from.unwrap_or(event.time),
            _ => event.time,
        };
        self.from = Some(self.from.map_or(from, |earlier| earlier.min(from)));
        match &event.what {
            What::Run(run) => *self.runs.entry(run.result.name().to_owned()).or_default() += 1,
            What::Drifted { .. } => self.drifted += 1,
            What::Returned { .. } => self.returned += 1,
            What::Repaired { .. } => self.repaired += 1,
            What::Failed { .. } => self.failed += 1,
            What::Health { .. } => self.health += 1,
            What::Merged(other) => {
                for (result, number) in &other.runs {
                    *self.runs.entry(result.clone()).or_default() += number;
                }
                self.drifted += other.drifted;
                self.returned += other.returned;
                self.repaired += other.repaired;
                self.failed += other.failed;
                self.health += other.health;
            }
        }
    }

    /// Returns the number of events.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.runs.values().sum::<u64>() + self.drifted + self.returned + self.repaired + self.failed + self.health
    }
}

/// Records events without losing any: if an event cannot be written, it is written later, and excess events are at
/// least counted.
pub trait EventSink {
    /// Records an event.
    fn record(&mut self, event: Event);

    /// Retries to write pending events.
    fn retry(&mut self);

    /// Returns true if the event of the run that began at this time has been recorded.
    fn has_run(&self, began: Timestamp) -> bool;

    /// Returns the reason why events are pending, if any are.
    fn obstacle(&self) -> Option<&str>;
}

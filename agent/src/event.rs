//! What happens on the machine, as it is kept and handed on.

use holo_events::{HealthState, Tally, Writer};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// A name that no other event of this machine has: whoever gets it twice can tell.
    pub id: String,
    /// The time at which it was noticed, in UTC.
    pub time: Timestamp,
    /// What it is.
    pub what: What,
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum What {
    /// A run has ended.
    Run(Box<RunEvent>),
    /// An entity is not in its desired state any more.
    Drifted {
        /// Its ID.
        entity: String,
        /// What happened, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The process that has written it, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        writer: Option<Writer<'static>>,
    },
    /// It is again, and not because it was repaired.
    Returned {
        /// Its ID.
        entity: String,
    },
    /// It was brought back.
    Repaired {
        /// Its ID.
        entity: String,
        /// The changes that were made.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<String>,
    },
    /// It cannot be looked at, or not be brought back.
    Failed {
        /// Its ID.
        entity: String,
        /// The reason.
        reason: String,
    },
    /// Its health checks say something else than before.
    Health {
        /// Its ID.
        entity: String,
        /// The state of the worst of them.
        state: HealthState,
        /// The words of that check, unless all is well.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Earlier events, of which only the numbers are left.
    Merged(Counts),
}

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEvent {
    /// The ID that holo has given to it, if it came that far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// `apply` or `check`.
    pub verb: String,
    /// The IDs of the entities that it was for; none if it was for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entities: Vec<String>,
    /// How it ended.
    pub result: RunResult,
    /// The time at which it began, in UTC.
    pub began: Timestamp,
    /// The time that it took, in seconds.
    pub duration: f64,
    /// The exit status of holo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The number of entities by how they ended.
    #[serde(default)]
    pub tally: Tally,
    /// The number of refreshes that were due at its end.
    #[serde(default)]
    pub refreshes_due: usize,
    /// The generation of its inputs, if generations are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// The IDs of the first of those that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// The reason for which it could not begin, or ended before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunResult {
    /// Everything was as desired.
    Unchanged,
    /// Something was changed, and all is as desired now.
    Changed,
    /// It was only looked, and something would be changed.
    Pending,
    /// Something was left as it is for want of force, or as what it requires is not there.
    Refused,
    /// Something failed.
    Failed,
    /// It was ended before its time.
    Interrupted,
    /// It could not begin, or has died.
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

    /// Returns its name, as in events and metrics.
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

    /// Returns true if the run could look at everything, and nothing was wrong.
    #[must_use]
    pub fn is_good(self) -> bool {
        matches!(self, RunResult::Unchanged | RunResult::Changed | RunResult::Pending)
    }
}

/// The numbers of events of which nothing else is left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// The time of the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// The number of runs by result.
    pub runs: BTreeMap<String, u64>,
    /// The number of events of each other kind.
    pub drifted: u64,
    /// The same of those that returned.
    pub returned: u64,
    /// The same of those that were repaired.
    pub repaired: u64,
    /// The same of those that failed.
    pub failed: u64,
    /// The number of changes of health.
    pub health: u64,
}

impl Counts {
    /// Counts an event, or those that it stands for.
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

/// Takes events, and loses none: what cannot be kept now is kept later, and what is too much is at least counted.
pub trait EventSink {
    /// Takes an event.
    fn record(&mut self, event: Event);

    /// Tries again to keep what could not be kept.
    fn retry(&mut self);

    /// Returns true if it has the event of a run that began at this time.
    fn has_run(&self, began: Timestamp) -> bool;

    /// Returns the reason why events wait to be kept, if they do.
    fn obstacle(&self) -> Option<&str>;
}

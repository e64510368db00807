//! The status of the agent and of the machine.

use crate::event::RunEvent;
use holo_events::{HealthState, Writer};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The status of the agent and of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of the agent.
    pub version: String,
    /// Its process ID.
    pub pid: u32,
    /// The start time in UTC.
    pub started: Timestamp,
    /// `enforce` or `report`.
    pub mode: String,
    /// The current activity.
    pub doing: Doing,
    /// The last complete run, including those of previous agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<RunEvent>,
    /// The end time of the last successful complete run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good: Option<Timestamp>,
    /// The start time of the next complete run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// The entities that are not in their desired state.
    pub drifted: BTreeMap<String, Trouble>,
    /// The entities that cannot be checked or repaired.
    pub failed: BTreeMap<String, Trouble>,
    /// The health of the entities that have health checks.
    #[serde(default)]
    pub health: BTreeMap<String, Health>,
    /// The connection to a fleet.
    pub connection: Connection,
    /// The error in the configuration, if a previous one is in use instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_error: Option<String>,
    /// The reason why events cannot be written to disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spool_error: Option<String>,
}

/// The current activity of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Doing {
    /// It waits for the next run.
    Waiting,
    /// It waits for a watch to end or to be retried.
    Preparing,
    /// `holo watch` runs.
    Watching {
        /// The number of entities, after all have been checked once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entities: Option<usize>,
        /// True if drift is repaired.
        apply: bool,
    },
    /// A complete run is in progress.
    Running {
        /// `apply` or `check`.
        verb: String,
        /// The start time in UTC.
        since: Timestamp,
    },
    /// It is terminating.
    Stopping,
}

/// The connection to a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Connection {
    /// No connection is configured.
    None,
}

/// The health of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The worst state of its checks.
    pub state: HealthState,
    /// The time since when it has this state, in UTC.
    pub since: Timestamp,
    /// The message of that check, unless it is ok.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A problem of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The time at which it was detected, in UTC.
    pub since: Timestamp,
    /// The reason, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The process that modified it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<Writer<'static>>,
}

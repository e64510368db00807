//! The state of the agent and of the machine, as it is known now.

use crate::event::RunEvent;
use holo_events::{HealthState, Writer};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The state of the agent and of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of the agent.
    pub version: String,
    /// Its process ID.
    pub pid: u32,
    /// The time at which it was started, in UTC.
    pub started: Timestamp,
    /// `enforce` or `report`.
    pub mode: String,
    /// What it does now.
    pub doing: Doing,
    /// The last whole run, also of an agent before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<RunEvent>,
    /// The time at which the last whole run ended that was good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good: Option<Timestamp>,
    /// The time at which the next whole run begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// The entities that are not in their desired state.
    pub drifted: BTreeMap<String, Trouble>,
    /// The entities that cannot be looked at, or not be brought back.
    pub failed: BTreeMap<String, Trouble>,
    /// The health of the entities that have health checks.
    #[serde(default)]
    pub health: BTreeMap<String, Health>,
    /// The connection to a fleet.
    pub connection: Connection,
    /// What is wrong with the configuration, if an earlier one counts for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_error: Option<String>,
    /// The reason why events are not on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spool_error: Option<String>,
}

/// The work of the agent at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Doing {
    /// It waits for a time.
    Waiting,
    /// It waits for a watch to end, or to be tried again.
    Preparing,
    /// `holo watch` runs.
    Watching {
        /// The number of entities, once everything has been looked at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entities: Option<usize>,
        /// True if what drifts is brought back.
        apply: bool,
    },
    /// A whole run has begun.
    Running {
        /// `apply` or `check`.
        verb: String,
        /// The time at which it began, in UTC.
        since: Timestamp,
    },
    /// It is about to end.
    Stopping,
}

/// The connection to a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Connection {
    /// None is configured.
    None,
}

/// The health of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The state of the worst of its checks.
    pub state: HealthState,
    /// The time since which it is so, in UTC.
    pub since: Timestamp,
    /// The words of that check, unless all is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The time at which it was noticed, in UTC.
    pub since: Timestamp,
    /// What happened, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The process that has written it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<Writer<'static>>,
}

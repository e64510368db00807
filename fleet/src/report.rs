//! What a host reports about itself.

use crate::names::BundleId;
use crate::names::{Host, Label};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The result of a host's last complete run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Unchanged,
    Changed,
    Pending,
    Failed,
    Refused,
    Busy,
}

/// The worst state of a host's health checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Health {
    Ok,
    Warning,
    Critical,
    Unknown,
    /// There are none.
    #[default]
    None,
}

/// What a host reports about itself, at each change and every minute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct HostReport {
    pub(crate) host: Host,
    /// The ID of the machine, by which another one with the same name is told from it.
    pub(crate) machine: String,
    pub(crate) channel: Option<Label>,
    pub(crate) roles: Vec<Label>,
    /// The last resumption of a rollout that this host knows of; see [`Progress`](crate::rollout::Progress).
    #[serde(default)]
    pub(crate) retry: u64,
    /// What is installed.
    pub(crate) bundle: Option<BundleId>,
    /// The bundle that it should run and cannot install.
    pub(crate) refused: Option<BundleId>,
    /// The result of the last complete run since the bundle was installed.
    pub(crate) result: Option<Outcome>,
    /// The reason for a result that is not good, or for a refusal.
    pub(crate) reason: Option<String>,
    /// Why no changes are made now.
    pub(crate) waiting: Option<String>,
    pub(crate) health: Health,
    /// The number of entities that are not in their desired state.
    pub(crate) drift: usize,
    /// The facts that the host's configuration names.
    pub(crate) facts: Map<String, Value>,
    /// The version of holo.
    pub(crate) version: String,
    /// The time by the clock of the host.
    pub(crate) time: Timestamp,
}

impl HostReport {
    /// Returns true if the other report differs only in its time.
    pub(crate) fn is_like(&self, other: &HostReport) -> bool {
        HostReport { time: other.time, ..self.clone() } == *other
    }

    /// Returns what expressions about hosts refer to.
    pub(crate) fn scope(&self) -> Value {
        let Ok(Value::Object(mut scope)) = serde_json::to_value(self) else { return Value::Null };
        scope.retain(|key, _| ["host", "facts", "result", "health", "channel", "roles"].contains(&key.as_str()));
        Value::Object(scope)
    }
}

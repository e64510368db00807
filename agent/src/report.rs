//! The status of the agent and of the machine, also as a text for people.

use crate::event::{Event, RunEvent, What};
use crate::metrics::state_name;
use holo_events::{HealthState, Writer};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display};

/// The maximum number of entities named.
const NAMED: usize = 20;

impl Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doing::Waiting => f.write_str("waiting"),
            Doing::Preparing => f.write_str("preparing"),
            Doing::Watching { entities, apply } => {
                match entities {
                    Some(1) => f.write_str("watching 1 entity")?,
                    Some(entities) => write!(f, "watching {entities} entities")?,
                    None => f.write_str("looking at all entities, to watch them")?,
                }
                if *apply { Ok(()) } else { f.write_str(", changing nothing") }
            }
            Doing::Running { verb, .. } => write!(f, "holo {verb}"),
            Doing::Stopping => f.write_str("stopping"),
        }
    }
}

/// Formats a time in the system's time zone.
fn time(time: Timestamp) -> impl Display {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

impl Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "     agent {} (process {}, since {})", self.version, self.pid, time(self.started))?;
        writeln!(f, "      mode {}", self.mode)?;
        writeln!(f, "     doing {}", self.doing)?;
        match &self.last {
            Some(run) => {
                writeln!(f, "  last run {}: {} {}, {}", time(run.began), run.verb, run.result.name(), run.tally)?;
                run.error.iter().try_for_each(|error| writeln!(f, "           {error}"))?;
            }
            None => writeln!(f, "  last run none")?,
        }
        if let Some(good) = self.last_good {
            writeln!(f, " last good {}", time(good))?;
        }
        if let Some(next) = self.next {
            writeln!(f, "  next run {}", time(next))?;
        }
        if !self.health.is_empty() {
            let ok = self.health.values().filter(|health| health.state == HealthState::Ok).count();
            writeln!(f, "    health {ok} of {} ok", self.health.len())?;
        }
        writeln!(f, "connection none")?;
        for (heading, troubles) in [("drifted", &self.drifted), ("failed", &self.failed)] {
            list(f, heading, troubles)?;
        }
        let unwell: BTreeMap<String, Trouble> = self.health.iter().filter_map(unwell).collect();
        list(f, "unwell", &unwell)?;
        for error in [&self.config_error, &self.spool_error].into_iter().flatten() {
            writeln!(f, "     error {error}")?;
        }
        Ok(())
    }
}

/// Returns an entity that is not healthy, with its state.
fn unwell((entity, health): (&String, &Health)) -> Option<(String, Trouble)> {
    let Health { state, since, text } = health;
    // The message of a check starts with its state.
    let reason = text.clone().unwrap_or_else(|| state_name(*state).to_owned());
    let trouble = Trouble { since: *since, reason: Some(reason), writer: None };
    (*state != HealthState::Ok).then(|| (entity.clone(), trouble))
}

fn list(f: &mut fmt::Formatter<'_>, heading: &str, troubles: &BTreeMap<String, Trouble>) -> fmt::Result {
    for (entity, trouble) in troubles.iter().take(NAMED) {
        let cause = cause(trouble.reason.as_deref(), trouble.writer.as_ref());
        writeln!(f, "{heading:>10} {entity}{cause}, since {}", time(trouble.since))?;
    }
    match troubles.len().saturating_sub(NAMED) {
        0 => Ok(()),
        more => writeln!(f, "{heading:>10} and {more} more"),
    }
}

/// Returns the reason and the writing process in brackets, if known.
pub(crate) fn cause(reason: Option<&str>, writer: Option<&Writer<'_>>) -> String {
    let writer = writer.map(|writer| format!("written by {writer}"));
    let words: Vec<&str> = reason.into_iter().chain(writer.as_deref()).collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

impl Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", time(self.time))?;
        match &self.what {
            What::Run(run) => {
                write!(f, "{} {}: {}", run.verb, run.result.name(), run.tally)?;
                run.error.iter().try_for_each(|error| write!(f, " ({error})"))
            }
            What::Drifted { entity, reason, writer } => {
                write!(f, "drifted {entity}{}", cause(reason.as_deref(), writer.as_ref()))
            }
            What::Returned { entity } => write!(f, "returned {entity}"),
            What::Repaired { entity, .. } => write!(f, "repaired {entity}"),
            What::Failed { entity, reason } => write!(f, "failed {entity}: {reason}"),
            What::Health { entity, state, text } => {
                write!(f, "health of {entity}: {}", state_name(*state))?;
                text.iter().try_for_each(|text| write!(f, " ({text})"))
            }
            What::Merged(counts) => write!(f, "{} earlier events", counts.total()),
        }
    }
}

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

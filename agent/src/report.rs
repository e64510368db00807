//! The status of the agent and of the machine, also as a text for people.

use crate::event::{
    BundleEvent, BundleState, DefinitionError, Event, FleetState, Header, Pause, RunEvent, Storm, WatchState, What,
};
use crate::metrics::state_name;
use holo_events::{HealthState, Writer};
use jiff::Timestamp;
use jiff::tz::TimeZone;
#[cfg(test)]
use schemars::JsonSchema;
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
        writeln!(f, "     agent {} (process {}, since {})", self.header.version, self.pid, time(self.started))?;
        writeln!(f, "      mode {}", self.mode)?;
        writeln!(f, "     doing {}", self.doing)?;
        self.paused.iter().try_for_each(|pause| writeln!(f, "    paused {pause}"))?;
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
        writeln!(f, "connection {}", self.connection.name())?;
        let of_kind = |kind| self.drifted.iter().filter(move |(_, trouble)| trouble.kind == kind);
        for (heading, kind) in
            [("drifted", TroubleKind::Drifted), ("edited", TroubleKind::Edited), ("refused", TroubleKind::Refused)]
        {
            list(f, heading, &of_kind(kind).map(|(entity, trouble)| (entity.clone(), trouble.clone())).collect())?;
        }
        list(f, "failed", &self.failed)?;
        let unwell: BTreeMap<String, Trouble> = self.health.iter().filter_map(unwell).collect();
        list(f, "unwell", &unwell)?;
        let watch = self.watch_error.as_ref().map(|error| format!("nothing is watched: {error}"));
        for error in [&self.config_error, &watch, &self.spool_error].into_iter().flatten() {
            writeln!(f, "     error {error}")?;
        }
        Ok(())
    }
}

impl Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "since {} by {}", time(self.since), self.by)?;
        self.until.iter().try_for_each(|until| write!(f, ", until {}", time(*until)))?;
        write!(f, ": {}", self.reason)
    }
}

/// Returns an entity that is not healthy, with its state.
fn unwell((entity, health): (&String, &Health)) -> Option<(String, Trouble)> {
    let Health { state, since, text } = health;
    // The message of a check starts with its state.
    let reason = text.clone().unwrap_or_else(|| state_name(*state).to_owned());
    let trouble = Trouble { since: *since, kind: TroubleKind::Failed, reason: Some(reason), writer: None };
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

/// Describes the end of a pause, which a user has ended or which was over.
pub(crate) fn resumed(by: Option<&str>) -> String {
    by.map_or_else(|| "resumed, as the time is over".to_owned(), |by| format!("resumed by {by}"))
}

/// Describes an invalid definition.
pub(crate) fn definition_error(error: &DefinitionError) -> String {
    format!("definition error {error}")
}

/// Describes many events of a kind.
pub(crate) fn in_storm(storm: &Storm) -> String {
    let Storm { of, count, sample, .. } = storm;
    let rest = if *count > sample.len() as u64 { ", …" } else { "" };
    format!("{of} {count} more entities: {}{rest}", sample.join(", "))
}

/// Describes an event of the watch.
pub(crate) fn of_watch(state: WatchState, reason: Option<&str>) -> String {
    let words = match state {
        WatchState::Started => "holo watch has started",
        WatchState::Ended => "holo watch has ended",
        WatchState::Hung => "holo watch was killed",
        WatchState::Restarted => "holo watch was started again",
    };
    reason.map_or_else(|| words.to_owned(), |reason| format!("{words}: {reason}"))
}

/// Describes a change of the connection to a fleet.
pub(crate) fn of_fleet(state: FleetState, reason: Option<&str>) -> String {
    let words = match state {
        FleetState::Connected => "connected to the fleet",
        FleetState::Disconnected => "not connected to the fleet",
        FleetState::NameRefused => "a name was refused",
        FleetState::NameTaken => "a name was taken over",
    };
    reason.map_or_else(|| words.to_owned(), |reason| format!("{words}: {reason}"))
}

/// Describes what has happened to a bundle.
pub(crate) fn of_bundle(bundle: &BundleEvent) -> String {
    let BundleEvent { state, name, version, reason, .. } = bundle;
    let words = match state {
        BundleState::Fetched => "was fetched",
        BundleState::Installed => "was installed",
        BundleState::Refused => "was refused",
    };
    let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("bundle {name}@{version} {words}{reason}")
}

/// Returns the reason and the writing process in brackets, if known.
pub(crate) fn cause(reason: Option<&str>, writer: Option<&Writer<'_>>) -> String {
    let writer = writer.map(|writer| format!("written by {writer}"));
    let words: Vec<&str> = reason.into_iter().chain(writer.as_deref()).collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

impl Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", time(self.header.time))?;
        match &self.what {
            What::Run(run) => {
                write!(f, "{} {}: {}", run.verb, run.result.name(), run.tally)?;
                run.error.iter().try_for_each(|error| write!(f, " ({error})"))
            }
            What::Drifted { entity, reason, writer } => {
                write!(f, "drifted {entity}{}", cause(reason.as_deref(), writer.as_ref()))
            }
            What::Edited { entity, reason, writer } => {
                write!(f, "edited {entity}{}", cause(Some(reason), writer.as_ref()))
            }
            What::Refused { entity, reason } => write!(f, "refused {entity}: {reason}"),
            What::DefinitionError(error) => write!(f, "{}", definition_error(error)),
            What::Storm(storm) => write!(f, "{}", in_storm(storm)),
            What::Watch { state, reason } => write!(f, "{}", of_watch(*state, reason.as_deref())),
            What::Returned { entity } => write!(f, "returned {entity}"),
            What::Repaired { entity, .. } => write!(f, "repaired {entity}"),
            What::Failed { entity, reason } => write!(f, "failed {entity}: {reason}"),
            What::Health { entity, state, text } => {
                write!(f, "health of {entity}: {}", state_name(*state))?;
                text.iter().try_for_each(|text| write!(f, " ({text})"))
            }
            What::Paused(pause) => write!(f, "paused {pause}"),
            What::Resumed { by } => f.write_str(&resumed(by.as_deref())),
            What::Fleet { state, reason } => f.write_str(&of_fleet(*state, reason.as_deref())),
            What::Bundle(bundle) => f.write_str(&of_bundle(bundle)),
            What::Merged(counts) => write!(f, "{} earlier events", counts.total()),
        }
    }
}

/// The status of the agent and of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Status {
    /// The fields that it has in common with events.
    #[serde(flatten)]
    pub header: Header,
    /// Always `status`.
    pub kind: StatusKind,
    /// The process ID of the agent.
    pub pid: u32,
    /// The start time in UTC.
    #[cfg_attr(test, schemars(with = "String"))]
    pub started: Timestamp,
    /// `enforce` or `report`.
    pub mode: String,
    /// The current activity.
    pub doing: Doing,
    /// The pause, if the agent makes no changes for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// The last complete run, including those of previous agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<RunEvent>,
    /// The end time of the last successful complete run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub last_good: Option<Timestamp>,
    /// The start time of the next complete run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
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
    /// The reason for which nothing is watched, because `holo watch` has ended by itself or could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch_error: Option<String>,
    /// The reason why events cannot be written to disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spool_error: Option<String>,
}

/// The kind of the status, as opposed to those of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StatusKind {
    /// The status.
    Status,
}

/// The current activity of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
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
        #[cfg_attr(test, schemars(with = "String"))]
        since: Timestamp,
    },
    /// It is terminating.
    Stopping,
}

/// The connection to a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Connection {
    /// No connection is configured.
    None,
    /// The server is connected.
    Connected,
    /// The server cannot be reached, or refuses this host.
    Disconnected,
}

impl Connection {
    fn name(self) -> &'static str {
        match self {
            Connection::None => "none",
            Connection::Connected => "connected",
            Connection::Disconnected => "disconnected",
        }
    }
}

/// The health of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Health {
    /// The worst state of its checks.
    #[cfg_attr(test, schemars(with = "String"))]
    pub state: HealthState,
    /// The time since when it has this state, in UTC.
    #[cfg_attr(test, schemars(with = "String"))]
    pub since: Timestamp,
    /// The message of that check, unless it is ok.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A problem of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Trouble {
    /// The time at which it was detected, in UTC.
    #[cfg_attr(test, schemars(with = "String"))]
    pub since: Timestamp,
    /// The kind of problem.
    #[serde(default)]
    pub kind: TroubleKind,
    /// The reason, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The process that modified it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<crate::event::WriterSchema>"))]
    pub writer: Option<Writer<'static>>,
}

/// The kinds of problems of entities, as those of the events about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TroubleKind {
    /// It is not in its desired state.
    #[default]
    Drifted,
    /// It was changed manually, and is left alone.
    Edited,
    /// A change requires `--force` for another reason.
    Refused,
    /// It cannot be checked or repaired, or is not healthy.
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of `holo-agent events --json` or `holo-agent status --json`.
    #[derive(JsonSchema)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only the schema is used")]
    enum AgentLine {
        Event(Box<Event>),
        Status(Box<Status>),
    }

    #[test]
    fn schema_is_that_of_the_types() {
        holo_testing::schema_is_kept("holo-agent-events.schema.json", &schemars::schema_for!(AgentLine));
    }
}

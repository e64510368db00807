//! Events on the machine, for storage and transmission.
//!
//! Their lines are a contract with other programs: the schema `holo-agent-events.schema.json` describes them.

use holo_events::{HealthState, Tally, Writer};
use jiff::Timestamp;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;

/// The version of the contract. Kinds of events and fields may be added within a version, but not changed or removed.
pub const CONTRACT: u8 = 1;

/// The fields that each line of events, and the status, begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Header {
    /// The version of these lines: 1.
    pub contract: u8,
    /// The version of the agent.
    pub version: String,
    /// The name of the host.
    pub host: String,
    /// The ID that the kernel has chosen when it booted.
    pub boot: String,
    /// The time at which it was detected, in UTC.
    #[cfg_attr(test, schemars(with = "String"))]
    pub time: Timestamp,
    /// The number of the event, which is higher than that of all earlier ones, also after a restart of the agent. That of
    /// the status is the number of the last event.
    pub seq: u64,
}

impl Header {
    /// Returns the header of an event on this machine.
    #[must_use]
    pub fn new(time: Timestamp, seq: u64) -> Header {
        Header {
            contract: CONTRACT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            boot: fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned(),
            time,
            seq,
        }
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Event {
    /// The fields of all events.
    #[serde(flatten)]
    pub header: Header,
    /// An ID that is unique on this machine, so that recipients can detect duplicates.
    pub id: String,
    /// The kind of event, with its fields.
    #[serde(flatten)]
    pub what: What,
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
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
        #[cfg_attr(test, schemars(with = "Option<tests::WriterSchema>"))]
        writer: Option<Writer<'static>>,
    },
    /// An entity was changed or deleted manually, and is left alone.
    Edited {
        /// Its ID.
        entity: String,
        /// The reason.
        reason: String,
        /// The process that modified it, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, schemars(with = "Option<tests::WriterSchema>"))]
        writer: Option<Writer<'static>>,
    },
    /// An entity is left alone because a change requires `--force` for another reason.
    Refused {
        /// Its ID.
        entity: String,
        /// The reason.
        reason: String,
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
    /// A definition is invalid. This is not repeated until the file changes.
    DefinitionError(DefinitionError),
    /// More events of a kind than are reported one by one.
    Storm(Storm),
    /// The state of an entity's health checks has changed.
    Health {
        /// Its ID.
        entity: String,
        /// The worst state: `ok`, `warning`, `unknown` or `critical`.
        #[cfg_attr(test, schemars(with = "String"))]
        state: HealthState,
        /// The message of that check, unless it is ok.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// The agent makes no changes for now.
    Paused(Pause),
    /// The agent makes changes again.
    Resumed {
        /// The user who requested it; missing if the time was over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// `holo watch` has started, has ended by itself, or was started again afterwards.
    Watch {
        /// What happened.
        state: WatchState,
        /// The reason for which it has ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The connection to a fleet has changed.
    Fleet {
        /// What happened.
        state: FleetState,
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A bundle was fetched, installed or refused.
    Bundle(BundleEvent),
    /// Earlier events, of which only the numbers are kept.
    Merged(Counts),
}

/// What has happened to the connection to a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FleetState {
    /// It was established.
    Connected,
    /// It was lost, or cannot be established.
    Disconnected,
    /// Another machine has the name of this one, or has tried to use it.
    NameRefused,
    /// This machine uses a name that another one had before.
    NameTaken,
}

/// What has happened to a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct BundleEvent {
    /// What happened.
    pub state: BundleState,
    /// The name of the bundle.
    pub name: String,
    /// Its version. `version` is that of the agent.
    #[serde(rename = "bundle_version")]
    pub version: String,
    /// The SHA-256 of its file.
    pub digest: String,
    /// The reason for which it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What has happened to a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BundleState {
    /// It was fetched and verified.
    Fetched,
    /// Its files were installed; they are applied next.
    Installed,
    /// It was not installed.
    Refused,
}

/// An invalid definition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DefinitionError {
    /// The path of the file.
    pub file: String,
    /// The line in it.
    pub line: u64,
    /// The reason, without the location.
    pub reason: String,
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.reason)
    }
}

impl DefinitionError {
    /// Parses the text of an error: `FILE:LINE: REASON`. Returns `None` if it is about something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<DefinitionError> {
        let (location, reason) = text.split_once(": ")?;
        let (file, line) = location.rsplit_once(':')?;
        // The lines of templates are those of the result: "3 as rendered".
        let line = line.split(' ').next()?.parse().ok()?;
        let (file, reason) = (file.to_owned(), reason.trim().to_owned());
        (file.starts_with('/') && !reason.is_empty()).then_some(DefinitionError { file, line, reason })
    }
}

/// A time in which the agent makes no changes, on request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Pause {
    /// Its start in UTC.
    #[cfg_attr(test, schemars(with = "String"))]
    pub since: Timestamp,
    /// The time at which it ends by itself, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub until: Option<Timestamp>,
    /// The user who requested it.
    pub by: String,
    /// The reason.
    pub reason: String,
}

/// Many events of a kind within a short time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Storm {
    /// Their kind, such as `drifted`.
    pub of: String,
    /// Their number, not counting the first ones, which were reported one by one.
    pub count: u64,
    /// The IDs of the first entities among them.
    pub sample: Vec<String>,
    /// The time of the first one, in UTC.
    #[cfg_attr(test, schemars(with = "String"))]
    pub began: Timestamp,
    /// The time of the last one, in UTC.
    #[cfg_attr(test, schemars(with = "String"))]
    pub ended: Timestamp,
}

/// What has happened to the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WatchState {
    /// It has started.
    Started,
    /// It has ended by itself, or could not be started.
    Ended,
    /// It did not show that it is alive, and was killed.
    Hung,
    /// It was started again after it had ended by itself or hung.
    Restarted,
}

impl What {
    /// Returns the kind and the entity of an event that can occur for very many entities at once.
    #[must_use]
    pub fn of_entity(&self) -> Option<(&'static str, &str)> {
        match self {
            What::Drifted { entity, .. } => Some(("drifted", entity)),
            What::Edited { entity, .. } => Some(("edited", entity)),
            What::Refused { entity, .. } => Some(("refused", entity)),
            What::Returned { entity } => Some(("returned", entity)),
            What::Repaired { entity, .. } => Some(("repaired", entity)),
            What::Failed { entity, .. } => Some(("failed", entity)),
            _ => None,
        }
    }
}

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
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
    #[cfg_attr(test, schemars(with = "String"))]
    pub began: Timestamp,
    /// The duration in seconds.
    pub duration: f64,
    /// The exit status of holo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The number of entities by result.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, u64>"))]
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
    /// The reason why it could not begin, ended early, or failed: the first one if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The process that holds the lock, if the result is `busy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<tests::WriterSchema>"))]
    pub busy: Option<Writer<'static>>,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
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
    /// The run could not begin because another process holds the lock.
    Busy,
    /// The run was terminated early.
    Interrupted,
    /// The run could not begin, or crashed.
    Error,
}

impl RunResult {
    /// All results.
    pub const ALL: [RunResult; 8] = [
        RunResult::Unchanged,
        RunResult::Changed,
        RunResult::Pending,
        RunResult::Refused,
        RunResult::Failed,
        RunResult::Busy,
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
            RunResult::Busy => "busy",
            RunResult::Interrupted => "interrupted",
            RunResult::Error => "error",
        }
    }

    /// Returns true if the run could check all entities without errors.
    #[must_use]
    pub fn is_good(self) -> bool {
        matches!(self, RunResult::Unchanged | RunResult::Changed | RunResult::Pending)
    }

    /// Returns true if the run has worked on all its entities.
    #[must_use]
    pub fn is_complete(self) -> bool {
        !matches!(self, RunResult::Busy | RunResult::Interrupted | RunResult::Error)
    }
}

/// The numbers of merged events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default)]
pub struct Counts {
    /// The time of the first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub from: Option<Timestamp>,
    /// The number of runs by result.
    pub runs: BTreeMap<String, u64>,
    /// The number of other events by kind. Those of a storm count one by one.
    pub events: BTreeMap<String, u64>,
}

impl Counts {
    /// Counts an event, or the events merged in it.
    pub fn add(&mut self, event: &Event) {
        let from = match &event.what {
            What::Merged(counts) => counts.from.unwrap_or(event.header.time),
            _ => event.header.time,
        };
        self.from = Some(self.from.map_or(from, |earlier| earlier.min(from)));
        let mut add = |kind: &str, number| *self.events.entry(kind.to_owned()).or_default() += number;
        match &event.what {
            What::Run(run) => *self.runs.entry(run.result.name().to_owned()).or_default() += 1,
            What::Storm(storm) => add(&storm.of, storm.count),
            What::Merged(other) => {
                other.events.iter().for_each(|(kind, number)| add(kind, *number));
                for (result, number) in &other.runs {
                    *self.runs.entry(result.clone()).or_default() += number;
                }
            }
            What::DefinitionError(_) => add("definition_error", 1),
            What::Health { .. } => add("health", 1),
            What::Paused(_) => add("paused", 1),
            What::Resumed { .. } => add("resumed", 1),
            What::Watch { .. } => add("watch", 1),
            What::Fleet { .. } => add("fleet", 1),
            What::Bundle(_) => add("bundle", 1),
            what => what.of_entity().iter().for_each(|(kind, _)| add(kind, 1)),
        }
    }

    /// Returns the number of events.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.runs.values().chain(self.events.values()).sum()
    }
}

/// Records events without losing any: if an event cannot be written, it is written later, and excess events are at
/// least counted.
pub trait EventSink {
    /// Records an event.
    fn record(&mut self, event: Event);

    /// Sets the events that are not complete yet. After a crash, the next agent records them as they are.
    fn hold(&mut self, events: Vec<Event>);

    /// Retries to write pending events.
    fn retry(&mut self);

    /// Returns true if the event of the run that began at this time has been recorded.
    fn has_run(&self, began: Timestamp) -> bool;

    /// Returns the reason why events are pending, if any are.
    fn obstacle(&self) -> Option<&str>;

    /// Returns the number of the last recorded event, 0 if there is none.
    fn last_seq(&self) -> u64;
}

#[cfg(test)]
pub(crate) use tests::WriterSchema;

#[cfg(test)]
mod tests {
    use super::*;

    /// The schema of [`Writer`], whose crate has one only in its own tests.
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only the schema is used")]
    pub(crate) struct WriterSchema {
        /// Its ID.
        pid: u32,
        /// The name of its command, unless the process had already ended.
        command: Option<String>,
    }

    #[test]
    fn an_event_of_a_bundle_is_read_as_it_was_written() {
        let [name, version, digest] = ["web", "1.0", "0a8c"].map(str::to_owned);
        let bundle = BundleEvent { state: BundleState::Installed, name, version, digest, reason: None };
        let what = What::Bundle(bundle);
        let event = Event { header: Header::new(Timestamp::UNIX_EPOCH, 1), id: "x".to_owned(), what };
        let written = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&written).unwrap(), event);
    }

    #[test]
    fn definition_errors_are_recognised() {
        let error = |file: &str, line, reason: &str| {
            Some(DefinitionError { file: file.to_owned(), line, reason: reason.to_owned() })
        };
        let parse = DefinitionError::parse;
        assert_eq!(parse("/x/a.toml:6: file:/c: conten: unknown"), error("/x/a.toml", 6, "file:/c: conten: unknown"));
        assert_eq!(parse("/x/a.toml.jinja:6 as rendered: no"), error("/x/a.toml.jinja", 6, "no"));
        for text in
            ["", "cannot open /x: no", "/x/a.toml: no", "/x/a.toml:6: ", "Cannot create lock file /x: open /x:1"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}

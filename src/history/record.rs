//! The types of records, their words for people, and the process of a run. Within a version, fields are only ever added.

use crate::host::settings::RunId;
use crate::report::End;
use holo_events::Tally;
use holo_protocol::{Text, words};
use jiff::{Timestamp, Unit};
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::Duration;

/// The version of the records.
pub const VERSION: u8 = 1;

/// The beginning of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Began {
    /// The version of the records of this run.
    pub version: u8,
    /// The ID of the run.
    pub run: RunId,
    /// The time at which it began.
    pub time: Timestamp,
    /// The version of holo.
    pub holo: String,
    /// The command line.
    pub command: Vec<Text>,
    /// The user who ran it.
    pub who: Who,
    /// Its process.
    pub process: ProcessMark,
}

/// The user or trigger that started holo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// The real user ID of the process.
    pub uid: u32,
    /// The user who called `sudo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sudo_user: Option<Text>,
    /// The login user ID, which stays the same when a user switches to another account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_uid: Option<u32>,
    /// The terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Text>,
    /// What started the run, if not a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Text>,
}

/// The work of a run on an entity that needed any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntityRecord {
    /// The ID of the run.
    pub run: RunId,
    /// The ID of the entity.
    pub id: Text,
    /// The ID of its plugin.
    pub plugin: String,
    /// The time at which the entity was finished.
    pub time: Timestamp,
    /// The time that the entity took, since its plugin received the request or finished the previous entity.
    #[serde(with = "seconds")]
    pub duration: Duration,
    /// The result of the work.
    pub result: RunResult,
    /// The changes, as fragments in the past tense. May be empty, as plugins need not describe them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Text>,
    /// The changes that would have required force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusalRecord>,
    /// The reason for which it was skipped, was deferred, or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// The end of its output to stderr, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Text>,
    /// The IDs of the entities whose change refreshed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refreshed_by: Vec<Text>,
    /// The differences that were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diffs: Vec<DiffRecord>,
}

/// A difference that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffRecord {
    /// The name of the old file.
    pub from: Text,
    /// The name of the new file.
    pub to: Text,
    /// The difference, in git's format.
    pub text: Text,
    /// Whether a file is binary, so that the text only says that the files differ.
    #[serde(default, skip_serializing_if = "is_false")]
    pub binary: bool,
    /// The number of bytes by which the text was truncated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: usize,
}

/// A change that would have required force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RefusalRecord {
    /// Overwriting a manual change.
    Overwrite,
    /// Restoring a file that was deleted manually.
    Restore,
    /// A refusal in the plugin's own words.
    Other {
        /// The reason.
        reason: Text,
    },
}

/// The result of a run, or of its work on an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunResult {
    /// Everything was in its desired state; an entity may have been refreshed.
    Unchanged,
    /// An entity was changed, and is in its desired state now.
    Changed,
    /// An entity was not changed now: it was only checked, deferred by its plugin, or requires such an entity.
    Pending,
    /// An entity was left unchanged for lack of `--force`.
    Refused,
    /// A requirement of the entity was not in its desired state.
    Skipped,
    /// An error occurred.
    Failed,
    /// A signal or `--timeout` ended it, or it was killed.
    Interrupted,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The ID of the run.
    pub run: RunId,
    /// The time at which it ended, or at which a later run found that it was killed.
    pub time: Timestamp,
    /// The result.
    pub result: RunResult,
    /// How long it took, unless it was killed.
    #[serde(default, with = "optional_seconds", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// The exit status, unless it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The number of entities by result.
    #[serde(default)]
    pub counts: Counts,
    /// The reason for which it ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}

/// The last run that had no work to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastRun {
    /// The version of the record.
    pub version: u8,
    /// The ID of the run.
    pub run: RunId,
    /// The time at which it began.
    pub time: Timestamp,
    /// How long it took.
    #[serde(with = "seconds")]
    pub duration: Duration,
    /// The number of entities by result.
    pub counts: Counts,
}

/// The number of entities by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "each counts the result of its name")]
pub struct Counts {
    pub unchanged: usize,
    pub changed: usize,
    pub pending: usize,
    pub refused: usize,
    pub skipped: usize,
    pub failed: usize,
}

impl Counts {
    /// Counts a result.
    pub fn count(&mut self, result: RunResult) {
        *self.number(result) += 1;
    }

    /// Takes back that a result was counted.
    pub fn uncount(&mut self, result: RunResult) {
        let number = self.number(result);
        *number = number.saturating_sub(1);
    }

    fn number(&mut self, result: RunResult) -> &mut usize {
        match result {
            RunResult::Unchanged => &mut self.unchanged,
            RunResult::Changed => &mut self.changed,
            RunResult::Pending => &mut self.pending,
            RunResult::Refused => &mut self.refused,
            RunResult::Skipped => &mut self.skipped,
            RunResult::Failed | RunResult::Interrupted => &mut self.failed,
        }
    }

    /// Returns the result of a run that was not interrupted.
    #[must_use]
    pub fn result(&self) -> RunResult {
        match self {
            Counts { failed: 1.., .. } => RunResult::Failed,
            Counts { skipped: 1.., .. } | Counts { refused: 1.., .. } => RunResult::Refused,
            Counts { changed: 1.., .. } => RunResult::Changed,
            Counts { .. } => RunResult::Unchanged,
        }
    }
}

impl From<Counts> for Tally {
    fn from(counts: Counts) -> Tally {
        let Counts { unchanged, changed, pending, refused, skipped, failed } = counts;
        Tally { unchanged, changed, pending, refused, skipped, failed, ..Tally::default() }
    }
}

impl From<End> for RunResult {
    fn from(end: End) -> RunResult {
        match end {
            // It does not apply to this system, so it is in its desired state.
            End::Unchanged | End::ConditionNotMet => RunResult::Unchanged,
            End::Changed => RunResult::Changed,
            End::Pending => RunResult::Pending,
            End::Refused => RunResult::Refused,
            End::DependencyFailed => RunResult::Skipped,
            End::Failed => RunResult::Failed,
        }
    }
}

impl RunResult {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RunResult::Unchanged => "unchanged",
            RunResult::Changed => "changed",
            RunResult::Pending => "pending",
            RunResult::Refused => "refused",
            RunResult::Skipped => "skipped",
            RunResult::Failed => "failed",
            RunResult::Interrupted => "interrupted",
        }
    }

    /// Returns true if something went wrong, or `--force` is needed.
    #[must_use]
    pub fn is_bad(self) -> bool {
        !matches!(self, RunResult::Unchanged | RunResult::Changed | RunResult::Pending)
    }
}

/// Returns the current time, rounded to milliseconds.
pub(super) fn now() -> Timestamp {
    let now = Timestamp::now();
    now.round(Unit::Millisecond).unwrap_or(now)
}

/// Serializes a record as JSON.
pub(super) fn to_json(record: &impl Serialize) -> String {
    // All fields can be represented in JSON.
    serde_json::to_string(record).unwrap_or_default()
}

fn is_false(value: &bool) -> bool {
    !value
}

pub(super) fn is_zero(value: &usize) -> bool {
    *value == 0
}

/// Serializes durations as seconds, rounded to milliseconds.
mod seconds {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64((duration.as_secs_f64() * 1000.0).round() / 1000.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)
    }
}

/// Like `seconds`, for optional values.
mod optional_seconds {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::seconds::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        #[derive(Deserialize)]
        #[serde(transparent)]
        struct Seconds(#[serde(with = "super::seconds")] Duration);
        Ok(Option::<Seconds>::deserialize(deserializer)?.map(|Seconds(duration)| duration))
    }
}

impl EntityRecord {
    /// Returns the changes to the entity, or the reason why there are none.
    #[must_use]
    pub fn what(&self) -> String {
        let mut what: Vec<String> = self.changes.iter().map(|Text(text)| text.to_string()).collect();
        what.extend(self.refused.iter().map(RefusalRecord::words));
        what.extend(self.reason.as_ref().map(|Text(reason)| reason.to_string()));
        if !self.refreshed_by.is_empty() {
            let sources: Vec<String> = self.refreshed_by.iter().map(|Text(id)| id.to_string()).collect();
            what.push(format!("refreshed by {}", sources.join(", ")));
        }
        what.join("; ")
    }
}

impl RefusalRecord {
    /// Returns the reason.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            RefusalRecord::Overwrite => words::MODIFIED.to_owned(),
            RefusalRecord::Restore => words::DELETED.to_owned(),
            RefusalRecord::Other { reason } => reason.0.to_string(),
        }
    }
}

/// A unique identification of a process, as process IDs are reused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// Its number.
    pub pid: u32,
    /// Its start time, in clock ticks since boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// The boot ID of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
}

impl ProcessMark {
    /// Returns the mark of this process.
    #[must_use]
    pub fn own() -> ProcessMark {
        let pid = std::process::id();
        ProcessMark { pid, started: started(pid), boot: boot() }
    }

    /// Returns true if the process is still running; false if unknown.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.started.is_some() && self.boot == boot() && started(self.pid) == self.started
    }
}

fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

/// Returns the start time of a process: field 22 of `/proc/PID/stat`, whose second field may contain blanks and
/// parentheses.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_mark_distinguishes_processes() {
        let own = ProcessMark::own();
        assert!(own.is_alive());
        assert!(!ProcessMark { started: own.started.map(|ticks| ticks + 1), ..own.clone() }.is_alive());
        assert!(!ProcessMark { boot: Some("another".to_owned()), ..own.clone() }.is_alive());
        assert!(!ProcessMark { pid: u32::MAX, ..own }.is_alive());
        assert!(!ProcessMark::default().is_alive());
    }
}

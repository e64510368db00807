//! Records as types. Within a version, fields are only ever added.

use super::process::ProcessMark;
use crate::report::End;
use crate::run_id::RunId;
use holo_events::Tally;
use holo_protocol::Text;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
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

/// The user who ran holo, or what did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// The user whose rights it had.
    pub uid: u32,
    /// The user who called `sudo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sudo_user: Option<Text>,
    /// The user who has logged in, whatever became of them since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_uid: Option<u32>,
    /// The terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Text>,
    /// The name of what started it, if no person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Text>,
}

/// The work of a run on an entity that was not simply as desired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntityRecord {
    /// The ID of the run.
    pub run: RunId,
    /// The ID of the entity.
    pub id: Text,
    /// The ID of its plugin.
    pub plugin: String,
    /// The time at which it was done with.
    pub time: Timestamp,
    /// The time that passed until it was done with since its plugin was asked, or had done with the entity before it.
    #[serde(with = "seconds")]
    pub duration: Duration,
    /// The result of the work.
    pub result: RunResult,
    /// The changes, as fragments in the past tense; a plugin need not name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Text>,
    /// The changes that would have had to be forced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusalRecord>,
    /// The reason for which it was skipped, or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// The end of what was printed about it on stderr, if it failed.
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
    /// The name of what there was.
    pub from: Text,
    /// The name of what there is.
    pub to: Text,
    /// The difference, in the form of git.
    pub text: Text,
    /// True if one of them is not text, so that the difference only says that they differ.
    #[serde(default, skip_serializing_if = "is_false")]
    pub binary: bool,
    /// The number of bytes that the text had more, if it was too long to be kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: usize,
}

/// A change that would have had to be forced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RefusalRecord {
    /// Overwriting what a person had changed.
    Overwrite,
    /// Restoring what a person had deleted.
    Restore,
    /// Something that a plugin had words for.
    Other {
        /// The objection to it.
        reason: Text,
    },
}

/// The result of a run, or of its work on an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunResult {
    /// Everything was as desired; an entity may have been refreshed.
    Unchanged,
    /// Something was changed, and is as desired.
    Changed,
    /// Without `--force`, something was left as it is.
    Refused,
    /// Something that it requires was not in its desired state.
    Skipped,
    /// Something went wrong.
    Failed,
    /// A signal or `--timeout` ended it, or it was killed.
    Interrupted,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The ID of the run.
    pub run: RunId,
    /// The time at which it ended, or at which it was found to have been killed.
    pub time: Timestamp,
    /// The result.
    pub result: RunResult,
    /// The time that it took, unless it was killed.
    #[serde(default, with = "optional_seconds", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// The exit status, unless it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The number of entities by how they ended.
    #[serde(default)]
    pub counts: Counts,
    /// The reason for which it ended before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}

/// The last run that had nothing to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastRun {
    /// The version of the record.
    pub version: u8,
    /// The ID of the run.
    pub run: RunId,
    /// The time at which it began.
    pub time: Timestamp,
    /// The time that it took.
    #[serde(with = "seconds")]
    pub duration: Duration,
    /// The number of entities by how they ended.
    pub counts: Counts,
}

/// The number of entities by the way in which they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "each counts the result of its name")]
pub struct Counts {
    pub unchanged: usize,
    pub changed: usize,
    pub refused: usize,
    pub skipped: usize,
    pub failed: usize,
}

impl Counts {
    /// Counts one more.
    pub fn count(&mut self, result: RunResult) {
        *match result {
            RunResult::Unchanged => &mut self.unchanged,
            RunResult::Changed => &mut self.changed,
            RunResult::Refused => &mut self.refused,
            RunResult::Skipped => &mut self.skipped,
            RunResult::Failed | RunResult::Interrupted => &mut self.failed,
        } += 1;
    }

    /// Returns the result of a run that ended in time.
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
        let Counts { unchanged, changed, refused, skipped, failed } = counts;
        Tally { unchanged, changed, refused, skipped, failed, ..Tally::default() }
    }
}

impl From<End> for RunResult {
    fn from(end: End) -> RunResult {
        match end {
            // It is not for this system, and so as it shall be.
            End::Unchanged | End::ConditionNotMet => RunResult::Unchanged,
            End::Changed | End::Pending => RunResult::Changed,
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
            RunResult::Refused => "refused",
            RunResult::Skipped => "skipped",
            RunResult::Failed => "failed",
            RunResult::Interrupted => "interrupted",
        }
    }

    /// Returns true if something was not brought into its desired state.
    #[must_use]
    pub fn is_bad(self) -> bool {
        !matches!(self, RunResult::Unchanged | RunResult::Changed)
    }
}

/// Returns a record in JSON.
pub(super) fn to_json(record: &impl Serialize) -> String {
    // Every field is something that JSON has, and memory takes it.
    serde_json::to_string(record).unwrap_or_default()
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &usize) -> bool {
    *value == 0
}

/// Durations as seconds, to the millisecond.
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

/// The same where there may be none.
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

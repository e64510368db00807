//! The types of `--json` lines: `holo` writes them, and programs that run it read them.
//!
//! A test generates `schema/holo-output.schema.json` from them, so that `holo` itself does not depend on the schema
//! library. Within a version, event types and fields may be added, but not changed or removed.
//!
//! ```
//! use holo_events::{Line, Outcome};
//!
//! let line = br#"{"version":1,"event":"end","id":"file:/etc/motd","plugin":"files","result":"changed","duration":0.2}"#;
//! let line = Line::parse(line)?;
//! assert!(matches!(line, Line::End { result: Outcome::Changed, .. }));
//! # Ok::<(), holo_events::LineError>(())
//! ```

mod from_protocol;
mod history;
mod line;
#[cfg(test)]
mod tests;
mod values;
mod why;

pub use from_protocol::{Asset, Controls, Edges, RegisteredService};
pub use history::{
    DiffLine, EditedLine, GenerationLine, InputChange, InputDiffLine, InputDifference, NextLine, OffLine, PauseLine,
    RecordLine, RunLine, StatusLine,
};
pub use line::{Line, LineError, Writer};
pub use values::{Tally, Text};
pub use why::{DatumLine, NeighbourLine, PackagedLine, SourceLine, WhyLine};

use holo_protocol::words;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// The version of the lines, with which each of them starts.
pub const VERSION: u8 = 1;

/// The action that applying an entity takes, and the reason for it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Action<'a> {
    /// A verb such as `Working on`.
    pub verb: Text<'a>,
    /// The reason for an unusual action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text<'a>>,
}

/// Information from a plugin for users.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Information<'a> {
    /// A key such as `store at`.
    pub key: Text<'a>,
    /// A value such as a path.
    pub value: Text<'a>,
}

/// A change that requires `--force`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Refusal<'a> {
    /// Overwriting a manual change.
    Overwrite,
    /// Restoring an entity that was deleted manually.
    Restore,
    /// A change refused for a reason that the plugin gives.
    Other {
        /// The reason.
        reason: Text<'a>,
    },
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Overwrite => f.write_str(words::MODIFIED),
            Refusal::Restore => f.write_str(words::DELETED),
            Refusal::Other { reason } => reason.fmt(f),
        }
    }
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// No problem.
    Ok,
    /// A possible problem.
    Warning,
    /// An error.
    Error,
}

/// The health of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    /// No problem.
    Ok,
    /// A possible problem.
    Warning,
    /// A check gave no result.
    Unknown,
    /// The entity does not work.
    Critical,
}

/// The result of applying or checking an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The entity was already in its desired state.
    Unchanged,
    /// The entity was changed, and is now in its desired state.
    Changed,
    /// The entity was only checked, and would be changed, or its plugin cannot tell.
    Pending,
    /// The entity was left, or would be left, unchanged because `--force` was not given.
    Refused,
    /// The entity was not applied, because a required one is not in its desired state, or its definition excludes this
    /// system.
    Skipped,
    /// The entity failed.
    Failed,
}

/// An output stream of a program.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A version of a file: its inode, and the time at which it last changed, in seconds and nanoseconds. A line about a definition is
/// repeated when the version of its file is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileStamp(u64, i64, i64);

impl FileStamp {
    /// Returns the version that this metadata describes.
    #[must_use]
    pub fn of(metadata: &Metadata) -> FileStamp {
        FileStamp(metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
    }
}

/// Returns a duration in seconds, rounded to milliseconds.
#[must_use]
pub fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}

fn is_false(value: &bool) -> bool {
    !value
}

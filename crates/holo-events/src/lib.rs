//! The lines of `--json`, as types: `holo` writes them, and programs that run it read them.
//!
//! `schema/holo-output.schema.json` is made of them by a test, so that `holo` itself has no need of the library that makes schemas. Within
//! a version, kinds of lines and fields are only ever added.
//!
//! ```
//! use holo_events::{Line, Outcome};
//!
//! let line = br#"{"version":1,"event":"end","id":"file:/etc/motd","plugin":"files","result":"changed","duration":0.2}"#;
//! let line = Line::parse(line)?;
//! assert!(matches!(line, Line::End { result: Outcome::Changed, .. }));
//! # Ok::<(), holo_events::LineError>(())
//! ```

mod edges;
mod error;
mod from_protocol;
mod generation;
mod history;
mod line;
mod tally;
#[cfg(test)]
mod tests;
mod text;
mod why;
mod writer;

pub use edges::{Asset, Controls, Edges};
pub use error::LineError;
pub use generation::{GenerationLine, InputChange, InputDiffLine, InputDifference};
pub use history::{DiffLine, RecordLine, RunLine};
pub use line::Line;
pub use tally::Tally;
pub use text::Text;
pub use why::{DatumLine, NeighbourLine, PackagedLine, SourceLine, WhyLine};
pub use writer::Writer;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The version of the lines, which each of them begins with.
pub const VERSION: u8 = 1;

/// The action that applying an entity takes, in a word, and the reason.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Action<'a> {
    /// Such as `Working on`.
    pub verb: Text<'a>,
    /// The reason for an unusual action, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text<'a>>,
}

/// Something that a plugin tells people.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Information<'a> {
    /// Such as `store at`.
    pub key: Text<'a>,
    /// Such as a path.
    pub value: Text<'a>,
}

/// A change that would have to be forced.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Refusal<'a> {
    /// Overwriting what a person has changed.
    Overwrite,
    /// Restoring what a person has deleted.
    Restore,
    /// Something that a plugin has words for.
    Other {
        /// The objection to it.
        reason: Text<'a>,
    },
}

/// The level of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// All is well.
    Ok,
    /// Something should be looked into.
    Warning,
    /// Something is wrong.
    Error,
}

/// The health of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    /// All is well.
    Ok,
    /// Something should be looked into.
    Warning,
    /// A check has not come to an answer.
    Unknown,
    /// It does not work.
    Critical,
}

/// The result of the work on an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is in its desired state, as it was before.
    Unchanged,
    /// It is in its desired state now.
    Changed,
    /// It was only looked at, and would be changed, or that cannot be told.
    Pending,
    /// Without `--force` it was, or would be, left as it is.
    Refused,
    /// It was not worked on: something that it requires is not in its desired state, or by its own declaration it is not for this system.
    Skipped,
    /// Something went wrong.
    Failed,
}

/// One of the two streams of a program.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Returns a duration as it is written: in seconds, to the millisecond.
#[must_use]
pub fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}

fn is_false(value: &bool) -> bool {
    !value
}

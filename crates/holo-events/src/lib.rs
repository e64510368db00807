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

mod error;
mod from_protocol;
mod history;
mod tally;
#[cfg(test)]
mod tests;
mod text;
mod why;

pub use error::LineError;
pub use history::{DiffLine, RecordLine, RunLine};
pub use tally::Tally;
pub use text::Text;
pub use why::{DatumLine, NeighbourLine, PackagedLine, SourceLine, WhyLine};

use bstr::ByteSlice;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// The version of the lines, which each of them begins with.
pub const VERSION: u8 = 1;

/// A line of the output of `holo --json`: what `event` names.
///
/// Readers should pass over events and fields that they do not know: a later holo may add some without counting the version up.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema), schemars(transform = tests::with_version))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line<'a> {
    /// `scan`: an entity that there is.
    Entity {
        /// Its ID.
        id: Text<'a>,
        /// The ID of its plugin.
        plugin: Cow<'a, str>,
        /// The action that applying it takes.
        action: Action<'a>,
        /// The resource files that define it.
        sources: Vec<Text<'a>>,
        /// More lines that its plugin shows to people.
        information: Vec<Information<'a>>,
        /// Its dependencies on others, and theirs on it.
        #[serde(default, skip_serializing_if = "Edges::is_empty")]
        edges: Box<Edges<'a>>,
        /// When, and how often, it may be worked on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        controls: Option<Box<Controls>>,
    },
    /// `adopt`: something is described by resource files now, or would be.
    Adopted {
        /// The entity's ID.
        id: Text<'a>,
        /// The ID of its plugin.
        plugin: Cow<'a, str>,
        /// The reason for which it was found, with `--all`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text<'a>>,
        /// The name of those that belong together.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<Text<'a>>,
        /// The paths of the resource files that it is in; none if it is as they have it.
        written: Vec<Text<'a>>,
        /// The paths of those that are not needed any more.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        removed: Vec<Text<'a>>,
        /// True if that would be done only.
        #[serde(default, skip_serializing_if = "is_false")]
        pending: bool,
    },
    /// `health`: the health of an entity that has health checks.
    Health {
        /// Its ID.
        id: Text<'a>,
        /// The ID of its plugin.
        plugin: Cow<'a, str>,
        /// The state of the worst of its checks.
        state: HealthState,
        /// The words of that check, unless all is well.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<Text<'a>>,
        /// The IDs of what it requires, and of what that requires.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        requires: Vec<Text<'a>>,
    },
    /// `doctor`: something that was looked at.
    Finding {
        /// The name of the check, or the ID of the plugin, that found it.
        check: Cow<'a, str>,
        /// How bad it is.
        level: Level,
        /// The finding in a few words.
        title: Text<'a>,
        /// What a person can do about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remedy: Option<Text<'a>>,
    },
    /// `selectors`: a string that selects something.
    Selector {
        /// The string.
        selector: Text<'a>,
    },
    /// `apply`, `check`: an entity is next. Everything that names it is between this line and its `end`.
    Begin {
        /// Its ID.
        id: Text<'a>,
        /// The action that is taken, or would be.
        action: Action<'a>,
    },
    /// Something that a plugin, or what it called, printed: a piece of text, not necessarily whole lines.
    Output {
        /// The entity that it belongs to; none while scanning, or if it came too late to be told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<Text<'a>>,
        /// The stream that it was printed on.
        stream: Stream,
        /// The text that was printed.
        text: Text<'a>,
    },
    /// Something that should be looked into.
    Warning {
        /// The entity that it is about, if it is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<Text<'a>>,
        /// The text of the warning.
        text: Text<'a>,
    },
    /// Something that went wrong.
    Error {
        /// The entity that it is about, if it is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<Text<'a>>,
        /// The text of the error.
        text: Text<'a>,
    },
    /// `apply`, `check`: something that the entity depends on has changed, so it is refreshed, or would be.
    Refresh {
        /// The entity's ID.
        id: Text<'a>,
    },
    /// A difference: that of `diff`, that of an entity that a person has changed, or one that applying makes, or would make.
    Diff {
        /// The entity's ID.
        id: Text<'a>,
        /// The name of what there was; only of what applying makes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Text<'a>>,
        /// The name of what there is, or would be; only of what applying makes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Text<'a>>,
        /// The difference, in the form of git.
        text: Text<'a>,
        /// True if one of them is not text, so that the difference only says that they differ.
        #[serde(default, skip_serializing_if = "is_false")]
        binary: bool,
    },
    /// `apply`, `check`: an entity is done with.
    End {
        /// Its ID.
        id: Text<'a>,
        /// The ID of its plugin.
        plugin: Cow<'a, str>,
        /// The result of the work.
        result: Outcome,
        /// The time that it took, in seconds, since its plugin was asked, or had done with the entity before it.
        duration: f64,
        /// The changes that were made, as fragments in the past tense; a plugin need not name them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<Text<'a>>,
        /// The changes that would be made; a plugin need not name them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        would_change: Vec<Text<'a>>,
        /// The changes that would have to be forced.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<Refusal<'a>>,
        /// The values that it has sent to entities that are refreshed because of it, each `KEY=VALUE`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sent: Vec<Text<'a>>,
        /// The values that belong to the state that it is in, each `KEY=VALUE`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<Text<'a>>,
        /// True if its plugin cannot tell what applying it would do.
        #[serde(default, skip_serializing_if = "is_false")]
        unknown: bool,
        /// The reason for which it was skipped, or failed; a plugin may have given it itself, in `output`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text<'a>>,
    },
    /// `why`: an entity, or a path that none manages.
    Why(Box<WhyLine<'a>>),
    /// `blame`: consecutive lines of a file that have come from the same place.
    Blame {
        /// The entity's ID.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<Text<'a>>,
        /// The path of the file.
        path: Text<'a>,
        /// `base`, `edited`, `resource`, `holoscript`, or other words.
        origin: Text<'a>,
        /// The resource file, or the program among them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<Text<'a>>,
        /// The number of the first of the lines in that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_line: Option<usize>,
        /// The package that owns the file, for lines of the base.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        package: Option<Cow<'a, str>>,
        /// The number of the first of the lines in the file.
        line: usize,
        /// The number of the lines.
        count: usize,
        /// The lines.
        text: Text<'a>,
    },
    /// `history`: an earlier run.
    Run(Box<RunLine<'a>>),
    /// `history`: what became of an entity in an earlier run.
    Record(Box<RecordLine<'a>>),
    /// `generations`: inputs of earlier runs that are kept.
    Generation(Box<GenerationLine<'a>>),
    /// `generations diff`: the difference of an input.
    InputDiff(InputDiffLine<'a>),
    /// `watch`: everything has been looked at once, and is watched from now on.
    Watching {
        /// The number of entities.
        entities: usize,
    },
    /// `watch`: an entity is not in its desired state any more.
    Drifted {
        /// Its ID.
        id: Text<'a>,
        /// What happened, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text<'a>>,
        /// The process that has written it, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        writer: Option<Writer<'a>>,
        /// True if only `--force` could bring it back.
        #[serde(default, skip_serializing_if = "is_false")]
        needs_force: bool,
    },
    /// `watch`: an entity is in its desired state again, and not because it was repaired.
    Returned {
        /// Its ID.
        id: Text<'a>,
    },
    /// `watch --apply`: an entity was brought back into its desired state, or was refreshed.
    Repaired {
        /// Its ID.
        id: Text<'a>,
        /// The changes that were made, as fragments in the past tense; a plugin need not name them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<Text<'a>>,
    },
    /// The last line of every run.
    Summary {
        /// `apply`, `check`: the ID of the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<Cow<'a, str>>,
        /// `apply`, `check`: the time at which it began, in UTC.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<String>,
        /// `apply`, `check`: the time that it took, in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration: Option<f64>,
        /// `apply`, `check`: how many entities ended in which way, if work on them was begun.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tally: Option<Tally>,
        /// `apply`, `check`: the number of entities whose refresh is due, as it could not be done yet.
        #[serde(default, skip_serializing_if = "is_zero")]
        refreshes_due: usize,
        /// `apply`, `check`: the generation of the inputs, if generations are kept: the newest, or the one that is used instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generation: Option<u32>,
        /// The exit status that follows.
        exit_code: u8,
        /// The reason for which the run could not begin, or ended before its time; other errors are in `error`s above.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Text<'a>>,
    },
    /// A line that this version does not know; it is never written.
    #[serde(other, skip_serializing)]
    #[cfg_attr(test, schemars(skip))]
    Unknown,
}

/// A process that has written a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Writer<'a> {
    /// Its ID.
    pub pid: u32,
    /// The name of its command, unless it had ended already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Text<'a>>,
}

impl Writer<'_> {
    /// Returns it without a lifetime.
    #[must_use]
    pub fn into_owned(self) -> Writer<'static> {
        Writer { pid: self.pid, command: self.command.map(|command| Text(Cow::Owned(command.into_owned()))) }
    }
}

impl fmt::Display for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.command {
            Some(command) => write!(f, "{}[{}]", command.as_bstr().escape_bytes(), self.pid),
            None => write!(f, "process {}, which has ended", self.pid),
        }
    }
}

/// A generation: the inputs of a run that changed something.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct GenerationLine<'a> {
    /// Its number.
    pub generation: u32,
    /// The time at which it was kept, in UTC.
    pub time: String,
    /// The ID of the run that kept it.
    pub run: Cow<'a, str>,
    /// True if it is used instead of today's inputs.
    pub used: bool,
    /// The number of its files.
    pub files: usize,
    /// The number of inputs that the generation before it did not have.
    pub added: usize,
    /// The number of inputs that are not as in the generation before it.
    pub changed: usize,
    /// The number of inputs that only the generation before it had.
    pub removed: usize,
    /// The first of these, by their paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<InputDifference<'a>>,
    /// The files that inputs lead to, and that are not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_kept: Vec<Text<'a>>,
}

/// An input that differs from the same one of an earlier generation.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct InputDifference<'a> {
    /// Its path below the root.
    pub path: Text<'a>,
    /// The way in which it differs.
    pub how: InputChange,
}

/// The way in which an input differs.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InputChange {
    /// It is new.
    Added,
    /// It is not as it was.
    Changed,
    /// It is gone.
    Removed,
}

/// The difference of an input between two generations.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct InputDiffLine<'a> {
    /// Its path below the root.
    pub path: Text<'a>,
    /// The difference, in the form of git.
    pub text: Text<'a>,
    /// True if not everybody may read it, so that the difference only says that it differs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sensitive: bool,
}

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

/// An entity's dependencies on others, and theirs on it, as its plugin declares them. Only what there is has a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Edges<'a> {
    /// The IDs of entities that it comes after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Text<'a>>,
    /// The IDs of entities that it comes before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Text<'a>>,
    /// The IDs of entities that have to be in their desired state first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Text<'a>>,
    /// The IDs of entities whose change refreshes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subscribes: Vec<Text<'a>>,
    /// The IDs of entities that its change refreshes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notifies: Vec<Text<'a>>,
    /// The assets that it provides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provides: Vec<Asset<'a>>,
    /// The assets that others have to provide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Asset<'a>>,
    /// The assets that it alone decides about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owns: Vec<Asset<'a>>,
    /// Paths where a change may mean drift.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<Text<'a>>,
    /// True if nothing defines it any more.
    #[serde(default, skip_serializing_if = "is_false")]
    pub orphan: bool,
}

/// When, and how often, an entity may be worked on, in the forms of scan reports.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Controls {
    /// True if it is only ever checked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub noop: bool,
    /// The interval at which a watch checks it, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<f64>,
    /// The number of repairs by a watch in a time, such as `3/10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// A name, and the number of entities of that name that may be worked on at a time, such as `db:2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semaphore: Option<String>,
    /// The times at which it may be changed, such as `hours=2-5 days=mon-fri`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
}

impl Edges<'_> {
    fn is_empty(&self) -> bool {
        *self == Edges::default()
    }
}

/// Something that an entity provides, needs or owns.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Asset<'a> {
    /// Such as `path` or `user`.
    pub kind: Text<'a>,
    /// Such as `/etc/motd`.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Line<'_> {
    /// Returns the line as it is written, with its newline.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = Vec::new();
        // Every field is something that JSON has, and memory takes it.
        let _ = serde_json::to_writer(&mut text, self);
        // The version belongs to the line, not to each kind of event: it replaces the brace.
        text.splice(..1, format!("{{\"version\":{VERSION},").into_bytes());
        text.push(b'\n');
        text
    }
}

impl Line<'static> {
    /// Reads a line, with or without its newline.
    ///
    /// # Errors
    /// If it is none, or of another version.
    pub fn parse(line: &[u8]) -> Result<Line<'static>, LineError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u8,
        }
        let Versioned { version } = serde_json::from_slice(line).map_err(LineError::NotALine)?;
        if version != VERSION {
            return Err(LineError::Version { version });
        }
        serde_json::from_slice(line).map_err(LineError::NotALine)
    }
}

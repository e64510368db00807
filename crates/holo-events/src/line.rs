//! A line: an event with its fields.

use crate::values::{Tally, Text};
use crate::{
    Action, Controls, Edges, EditedLine, GenerationLine, HealthState, Information, InputDiffLine, Level, Outcome,
    RecordLine, Refusal, RegisteredService, RunLine, StatusLine, Stream, VERSION, WhyLine, is_false,
};
use bstr::ByteSlice;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// A line of the output of `holo --json`; `event` is its type.
///
/// Readers should ignore unknown events and fields: later versions of holo may add some without increasing the version.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema), schemars(transform = crate::tests::with_version))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line<'a> {
    /// `scan`: an entity.
    Entity {
        /// Its ID.
        id: Text<'a>,
        /// The ID of its plugin.
        plugin: Cow<'a, str>,
        /// The action that applying it takes.
        action: Action<'a>,
        /// The resource files that define it.
        sources: Vec<Text<'a>>,
        /// Additional information that its plugin shows to users.
        information: Vec<Information<'a>>,
        /// Its edges to other entities.
        #[serde(default, skip_serializing_if = "Edges::is_empty")]
        edges: Box<Edges<'a>>,
        /// Limits on when, and how often, the entity may be checked or changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        controls: Option<Box<Controls>>,
    },
    /// `adopt`: an entity was adopted by writing resource files, or would be.
    Adopted {
        /// The entity's ID.
        id: Text<'a>,
        /// The ID of its plugin.
        plugin: Cow<'a, str>,
        /// The reason why it was listed, with `--all`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text<'a>>,
        /// The group of related entities.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<Text<'a>>,
        /// The paths of the resource files that contain it; empty if they already match the system.
        written: Vec<Text<'a>>,
        /// The paths of resource files that are no longer needed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        removed: Vec<Text<'a>>,
        /// True if the files were not written, but would be.
        #[serde(default, skip_serializing_if = "is_false")]
        pending: bool,
    },
    /// `adopt --all`: a change was not adopted.
    NotAdopted {
        /// The entity's ID, with escapes for characters that an ID cannot contain, or a pattern of such IDs.
        id: Text<'a>,
        /// The reason.
        reason: Text<'a>,
        /// A command with which the user can keep the change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<Text<'a>>,
    },
    /// `health`: the health of an entity with health checks.
    Health {
        /// Its ID.
        id: Text<'a>,
        /// The ID of its plugin.
        plugin: Cow<'a, str>,
        /// The worst state of its checks.
        state: HealthState,
        /// The message of that check, unless it is ok.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<Text<'a>>,
        /// The IDs of the entities that it requires, directly or indirectly.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        requires: Vec<Text<'a>>,
    },
    /// `doctor`: the result of a check.
    Finding {
        /// The name of the check, or the ID of the plugin.
        check: Cow<'a, str>,
        /// The severity.
        level: Level,
        /// The finding in a few words.
        title: Text<'a>,
        /// The remedy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remedy: Option<Text<'a>>,
    },
    /// `selectors`: a selector.
    Selector {
        /// The selector.
        selector: Text<'a>,
    },
    /// `apply`, `check`: work on an entity begins. All lines that name it are between this line and its `end`.
    Begin {
        /// Its ID.
        id: Text<'a>,
        /// The action that is taken, or would be.
        action: Action<'a>,
    },
    /// Output of a plugin, or of a program that it runs: a piece of text, not necessarily whole lines.
    Output {
        /// The entity; missing while scanning, or if the output came too late to be attributed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<Text<'a>>,
        /// The stream on which it was printed.
        stream: Stream,
        /// The text that was printed.
        text: Text<'a>,
    },
    /// A possible problem.
    Warning {
        /// The entity, if the message is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<Text<'a>>,
        /// The text of the warning.
        text: Text<'a>,
    },
    /// An error.
    Error {
        /// The entity, if the message is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<Text<'a>>,
        /// The text of the error.
        text: Text<'a>,
    },
    /// `apply`, `check`: the entity is refreshed, or would be, because an entity that it depends on has changed.
    Refresh {
        /// The entity's ID.
        id: Text<'a>,
    },
    /// A difference: that of `diff`, a manual change, or a change that applying makes or would make.
    Diff {
        /// The entity's ID.
        id: Text<'a>,
        /// The name of the old content; only for changes by applying.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Text<'a>>,
        /// The name of the new content; only for changes by applying.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Text<'a>>,
        /// The difference in git's format.
        text: Text<'a>,
        /// True if either content is not text, so that the difference only states that they differ.
        #[serde(default, skip_serializing_if = "is_false")]
        binary: bool,
    },
    /// `apply`, `check`: an entity is finished.
    End {
        /// Its ID.
        id: Text<'a>,
        /// The ID of its plugin.
        plugin: Cow<'a, str>,
        /// The result.
        result: Outcome,
        /// The duration in seconds, counted from the request to the plugin, or from the end of its previous entity.
        duration: f64,
        /// The changes that were made, as fragments in the past tense; a plugin need not name them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<Text<'a>>,
        /// The changes that would be made; a plugin need not name them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        would_change: Vec<Text<'a>>,
        /// The changes that require `--force`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<Refusal<'a>>,
        /// The values that it has sent to the entities that it refreshes, each `KEY=VALUE`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sent: Vec<Text<'a>>,
        /// The values that belong to its current state, each `KEY=VALUE`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<Text<'a>>,
        /// True if its plugin cannot tell what applying it would change.
        #[serde(default, skip_serializing_if = "is_false")]
        unknown: bool,
        /// The reason why it was skipped, was deferred or failed, unless its plugin has printed it in `output`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text<'a>>,
    },
    /// `why`: an entity, or an unmanaged path.
    Why(Box<WhyLine<'a>>),
    /// `blame`: consecutive lines of a file with the same origin.
    Blame {
        /// The entity's ID.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<Text<'a>>,
        /// The path of the file.
        path: Text<'a>,
        /// `base`, `edited`, `resource`, `holoscript`, or other words.
        origin: Text<'a>,
        /// The resource file or holoscript.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<Text<'a>>,
        /// The number of the first line in that file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_line: Option<usize>,
        /// The package that owns the file, for lines of the base.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        package: Option<Cow<'a, str>>,
        /// The number of the first line in the managed file.
        line: usize,
        /// The number of lines.
        count: usize,
        /// The lines.
        text: Text<'a>,
    },
    /// `history`: an earlier run.
    Run(Box<RunLine<'a>>),
    /// `history`: the result of an entity in an earlier run.
    Record(Box<RecordLine<'a>>),
    /// `history edited`: what a person had edited before it was overwritten.
    EditedVersion(Box<EditedLine<'a>>),
    /// `status`: the state of the machine, as the last check or apply found it.
    Status(Box<StatusLine<'a>>),
    /// `generations`: the saved inputs of an earlier run.
    Generation(Box<GenerationLine<'a>>),
    /// `generations diff`: the difference of an input.
    InputDiff(InputDiffLine<'a>),
    /// `watch`: all entities have been checked once, and are watched from now on.
    Watching {
        /// The number of entities.
        entities: usize,
    },
    /// `watch`: nothing is watched from now on, until the next `watching`: entities or paths cannot be determined.
    Blind {
        /// The reason, unless errors have named it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text<'a>>,
    },
    /// `watch`: the services that entities register with a fleet while they are in their desired state. There is such a line
    /// only if there are any, or templates read the registry, and again when that has changed.
    Registry {
        /// The services.
        services: Vec<RegisteredService<'a>>,
        /// True if templates or conditions read the registry.
        read: bool,
    },
    /// `watch`: an entity is no longer in its desired state.
    Drifted {
        /// Its ID.
        id: Text<'a>,
        /// The event, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text<'a>>,
        /// The process that modified it, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        writer: Option<Writer<'a>>,
        /// True if a repair requires `--force`.
        #[serde(default, skip_serializing_if = "is_false")]
        needs_force: bool,
        /// True if it requires `--force` because the entity was changed or deleted manually.
        #[serde(default, skip_serializing_if = "is_false")]
        edited: bool,
    },
    /// `watch`: an entity cannot be checked or repaired, or was repaired too often.
    Failed {
        /// Its ID.
        id: Text<'a>,
        /// The reason.
        reason: Text<'a>,
    },
    /// `watch`: an entity is in its desired state again without having been repaired.
    Returned {
        /// Its ID.
        id: Text<'a>,
    },
    /// `watch --apply`: an entity was repaired or refreshed.
    Repaired {
        /// Its ID.
        id: Text<'a>,
        /// The changes that were made, as fragments in the past tense; a plugin need not name them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<Text<'a>>,
    },
    /// `watch --requests`: the run that was asked for begins; its lines follow, up to its `summary`.
    Begun {
        /// The words of the command.
        command: Vec<Text<'a>>,
    },
    /// `watch --requests`: the answer to a ping, also written about every 20 seconds while the watch waits for plugins.
    Alive {},
    /// The last line of every run.
    Summary {
        /// `apply`, `check`: the ID of the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<Cow<'a, str>>,
        /// `apply`, `check`: the time at which the run began, in UTC.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<String>,
        /// `apply`, `check`: the duration in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration: Option<f64>,
        /// `apply`, `check`: the number of entities by result, if any were processed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tally: Option<Tally>,
        /// `apply`, `check`: the number of entities whose refresh is still due.
        #[serde(default, skip_serializing_if = "is_zero")]
        refreshes_due: usize,
        /// `apply`, `check`: the generation of the inputs, if generations are saved: the newest, or the one that is
        /// used instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generation: Option<u32>,
        /// The process that holds the lock, if the run could not begin because of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        busy: Option<Writer<'a>>,
        /// The exit status of the program.
        exit_code: u8,
        /// The reason why the run could not begin, or ended early; other errors are in `error` lines.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Text<'a>>,
    },
    /// An unknown event; it is never written.
    #[serde(other, skip_serializing)]
    #[cfg_attr(test, schemars(skip))]
    Unknown,
}

impl Line<'_> {
    /// Returns the line, including its newline.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = Vec::new();
        // Cannot fail: JSON can represent all fields, and writing to memory succeeds.
        let _ = serde_json::to_writer(&mut text, self);
        // The version belongs to the line rather than to each event, so it is inserted after the brace.
        text.splice(..1, format!("{{\"version\":{VERSION},").into_bytes());
        text.push(b'\n');
        text
    }
}

impl Line<'static> {
    /// Parses a line with or without its newline.
    ///
    /// # Errors
    /// If the line is invalid, or of another version.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A text that is not a valid line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The text is not JSON, or required fields are missing.
    #[error("not a line of holo --json: {0}")]
    NotALine(serde_json::Error),
    /// The version is not supported.
    #[error("a line of version {version}, while only version {} is known", crate::VERSION)]
    Version {
        /// The version of the line.
        version: u8,
    },
}

/// A process that modified a file, or that holds the lock.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Writer<'a> {
    /// Its ID.
    pub pid: u32,
    /// The name of its command, unless the process had already ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Text<'a>>,
}

impl Writer<'_> {
    /// Returns an owned copy.
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

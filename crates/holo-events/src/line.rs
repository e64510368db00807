//! A line: an event with its fields, as it is written and read.

use crate::{
    Action, Controls, Edges, GenerationLine, HealthState, Information, InputDiffLine, Level, LineError, Outcome,
    RecordLine, Refusal, RunLine, Stream, Tally, Text, VERSION, WhyLine, Writer, is_false,
};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A line of the output of `holo --json`: what `event` names.
///
/// Readers should pass over events and fields that they do not know: a later holo may add some without counting the version up.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema), schemars(transform = crate::tests::with_version))]
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

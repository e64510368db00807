//! The events of a run, as data.

use super::remark::{Remark, Severity};
use super::table::{Description, Table};
use crate::entity::Entity;
use crate::error::FatalError;
use crate::finding::Finding;
use crate::preview::Difference;
use crate::run_id::RunId;
use bstr::{BStr, BString};
use holo_events::{Line, Tally, Writer};
use holo_protocol::session::Stream;
use holo_protocol::{Level, Limit, Message};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Something that happens during a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// Something is said about the run, or about the entity that is at work.
    Remark(Remark<'a>),
    /// The remarks that follow are about this entity, or about none.
    About(Option<&'a Entity>),
    /// Something is said beside a text that programs read.
    Aside(Severity, &'a str),
    /// The command line cannot be understood; the text is the usage.
    Usage(&'a str),
    /// A selector selects nothing.
    UnknownSelector(&'a BStr),
    /// These entities claim the same.
    Conflict(&'a [&'a Entity], &'a str),
    /// The verb's answer is a text.
    Text(&'a [u8]),
    /// A scan lists an entity of the plugin with this ID.
    Listed {
        /// The entity.
        entity: &'a Entity,
        /// The plugin's ID.
        plugin: &'a str,
        /// The form that people asked for.
        form: Form,
    },
    /// Something was adopted, or would be.
    Adopted(&'a Adopted),
    /// The verb has found this.
    Finding(&'a Finding),
    /// So many findings of each level are all there are.
    Diagnosed(&'a BTreeMap<Level, usize>),
    /// Lines of a file, and where they have come from.
    Blamed(&'a [BlamedLine]),
    /// A string selects something.
    Selector(&'a BStr),
    /// The verb's answer has rows.
    Table(&'a Table<'a>),
    /// The verb's answer describes this.
    Description(&'a Description<'a>),
    /// The same answer is this line for programs.
    Line(&'a Line<'a>),
    /// The verb's answer is a unified diff.
    Difference(&'a [u8]),

    /// A run of this ID has begun that works on entities, or looks at them.
    RunBegins(&'a RunId),
    /// The work on entities begins.
    WorkBegins,
    /// The entity is next.
    Begin(&'a Entity),
    /// The plugin, or what it called, said this of an entity that had been done with.
    Belated(Stream, &'a [u8]),
    /// The plugin said this on file descriptor 3.
    Message(&'a Message),
    /// The changes that a person made, as a unified diff.
    Diff(&'a [u8]),
    /// Applying the entity would make this difference, or has made it. It stands alone if nothing else is shown.
    Preview {
        /// The difference.
        difference: &'a Difference,
        /// True if nothing else is shown.
        is_alone: bool,
    },
    /// The entity is left out; the text says why.
    Skipped(&'a str),
    /// The entity failed; the text says why, unless the plugin has said so itself.
    Failed(Option<&'a str>),
    /// The entity is still being worked on, and has been for so long. It need not be the one that was begun last.
    Waiting(&'a Entity, Duration),
    /// A plugin has said what follows already, so that nothing is waited for in between.
    Burst {
        /// True if that was all of it.
        is_over: bool,
    },
    /// The entity is to be refreshed, as the entities with these IDs have changed.
    Refresh(&'a Entity, &'a [BString]),
    /// The entity is only looked at, and would be refreshed for the same reason.
    WouldRefresh(&'a Entity, &'a [BString]),
    /// The entity is done with, and ended so. It took this long since its plugin was asked, or had done with the entity before it.
    End(&'a Entity, End, Duration),
    /// All entities have been applied, which took so long.
    Applied(&'a Tally, Duration),

    /// So many entities are to be refreshed, which could not be done yet.
    RefreshesDue(usize),
    /// The inputs are those of this generation, or have been kept as it.
    Generation(u32),

    /// A watch has noticed something.
    Noticed(Noticed<'a>),

    /// The run ends with this exit code. It ends before its time if there is an error.
    RunEnds(u8, Option<&'a FatalError>),
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlamedLine {
    /// The origin, as people see it.
    pub origin: BString,
    /// The line, without its newline.
    pub text: BString,
}

/// Something that was adopted, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The ID of the entity.
    pub id: BString,
    /// The ID of its plugin.
    pub plugin: String,
    /// The reason for which it was found.
    pub reason: Option<BString>,
    /// The name of those that belong together.
    pub group: Option<BString>,
    /// The resource files that it is in now, or would be.
    pub written: Vec<PathBuf>,
    /// The resource files that are not needed any more.
    pub removed: Vec<PathBuf>,
    /// True if nothing was written, as that was only asked for.
    pub is_pending: bool,
}

/// Something that a watch has noticed, or done.
#[derive(Clone, Debug)]
pub enum Noticed<'a> {
    /// So many entities are watched from now on.
    Watching(usize),
    /// The entity is not in its desired state any more.
    Drifted {
        /// Its ID.
        id: &'a BStr,
        /// What happened, if that is known.
        reason: Option<BString>,
        /// The process that has written it, if that is known.
        writer: Option<Writer<'static>>,
        /// True if only force could bring it back.
        needs_force: bool,
    },
    /// The entity with this ID is in its desired state again, and not by our doing.
    Returned(&'a BStr),
    /// The entity was brought back into its desired state.
    Repaired {
        /// Its ID.
        id: &'a BStr,
        /// The changes, if its plugin has said them.
        changes: &'a [BString],
    },
    /// The entity could not be looked at, or not be brought back.
    Failed {
        /// Its ID.
        id: &'a BStr,
        /// The reason, if it is known.
        reason: Option<&'a BStr>,
    },
    /// The entity was brought back so often that somebody else must be changing it, and is left alone for now.
    LeftAlone {
        /// Its ID.
        id: &'a BStr,
        /// So often, at most.
        limit: Limit,
        /// It is left alone until then.
        until: Instant,
        /// The last process that is known to have written it.
        writer: Option<&'a Writer<'static>>,
    },
}

/// The form in which people see an entity that is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A paragraph.
    Paragraph,
    /// As plugins report it, in version 3 of the interface.
    Porcelain,
    /// Only the ID.
    Id,
}

/// The end of the work on an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// It is in its desired state, as it was before.
    Unchanged,
    /// By its own declaration it is not for this system, or not for now.
    ConditionNotMet,
    /// It is in its desired state now.
    Changed,
    /// It was only looked at, and would be changed, or that cannot be told.
    Pending,
    /// Without `--force` it was, or would be, left as it is.
    Refused,
    /// It was not worked on, since something that it requires is not in its desired state.
    DependencyFailed,
    /// Something went wrong.
    Failed,
}

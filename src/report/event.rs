//! The events of a run, and the findings of `holo doctor`, as data.

use super::remark::{Remark, Severity};
use super::table::{Description, Table};
use crate::diff::preview::Difference;
use crate::entities::Entity;
use crate::error::FatalError;
use crate::host::settings::RunId;
use bstr::{BStr, BString};
use holo_events::{Line, Tally, Writer};
use holo_protocol::session::Stream;
use holo_protocol::{Diagnosis, Level, Limit, Message, words};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// An event of a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// A remark about the run, or about the current entity.
    Remark(Remark<'a>),
    /// The following remarks are about this entity, or about none.
    About(Option<&'a Entity>),
    /// A remark next to output that programs read.
    Aside(Severity, &'a str),
    /// The command line is invalid; the text is the usage.
    Usage(&'a str),
    /// A selector that matches no entity.
    UnknownSelector(&'a BStr),
    /// A conflict between these entities.
    Conflict(&'a [&'a Entity], &'a str),
    /// The text that the verb was asked for.
    Text(&'a [u8]),
    /// An entity in a scan.
    Listed {
        /// The entity.
        entity: &'a Entity,
        /// The ID of its plugin.
        plugin: &'a str,
        /// The output form requested by the user.
        form: Form,
    },
    /// An entity that was or would be adopted.
    Adopted(&'a Adopted),
    /// Changes that were not adopted for the same reason.
    NotAdopted(&'a [NotAdopted]),
    /// A finding of the verb.
    Finding(&'a Finding),
    /// The number of findings of each level, after the last one.
    Diagnosed(&'a BTreeMap<Level, usize>),
    /// Lines of a file, with their origins.
    Blamed(&'a [BlamedLine]),
    /// A valid selector.
    Selector(&'a BStr),
    /// The answer of the verb, as a table.
    Table(&'a Table<'a>),
    /// The answer of the verb, as a description.
    Description(&'a Description<'a>),
    /// The same answer as a JSON line.
    Line(&'a Line<'a>),
    /// The answer of the verb, as a unified diff.
    Difference(&'a [u8]),

    /// A run with this ID has begun to check or apply entities.
    RunBegins(&'a RunId),
    /// The work on entities begins.
    WorkBegins {
        /// Whether they are forgotten, instead of checked or applied.
        forgets: bool,
    },
    /// Work on this entity begins.
    Begin(&'a Entity),
    /// Output of a plugin about an entity that is finished already.
    Belated(Stream, &'a [u8]),
    /// A message from file descriptor 3.
    Message(&'a Message),
    /// Manual changes, as a unified diff.
    Diff(&'a [u8]),
    /// The difference that applying the entity makes, or would make.
    Preview {
        /// The difference.
        difference: &'a Difference,
        /// Whether no other output is shown.
        is_alone: bool,
    },
    /// The entity is skipped, for this reason.
    Skipped(&'a str),
    /// The entity failed; without a reason if the plugin has reported it.
    Failed(Option<&'a str>),
    /// The entity has ended with this outcome before, and is not in its desired state any more: another one has undone it.
    Undone(End),
    /// The plugin broke down while it worked on the entity, which therefore failed.
    Broken,
    /// The entity is still being worked on after this time. It need not be the one that was begun last.
    Waiting(&'a Entity, Duration),
    /// Marks events that have arrived together, so that no wait occurs between them.
    Burst {
        /// Whether this is the end.
        is_over: bool,
    },
    /// The entity is being refreshed because the entities with these IDs have changed.
    Refresh(&'a Entity, &'a [BString]),
    /// The entity would be refreshed for this reason, but is only checked.
    WouldRefresh(&'a Entity, &'a [BString]),
    /// The entity is finished, with this outcome. The time is counted since its plugin received the request or finished
    /// the previous entity.
    End(&'a Entity, End, Duration),
    /// This number of entities is in the desired state, which is known without any of them in particular.
    Settled(usize),
    /// All entities have been applied, within this time.
    Applied(&'a Tally, Duration),

    /// The number of refreshes that are still due.
    RefreshesDue(usize),
    /// The generation of the inputs.
    Generation(u32),

    /// A watch has noticed a change, or made one.
    Noticed(Noticed<'a>),

    /// The run ends with this exit code, and with an error if it ends early.
    RunEnds(u8, Option<&'a FatalError>),
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlamedLine {
    /// The origin, formatted for people.
    pub origin: BString,
    /// The line, without its newline.
    pub text: BString,
}

/// An entity that was or would be adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The ID of the entity.
    pub id: BString,
    /// The ID of its plugin.
    pub plugin: String,
    /// The reason for which it is a candidate.
    pub reason: Option<BString>,
    /// The name of its group.
    pub group: Option<BString>,
    /// The resource files that now describe it, or would.
    pub written: Vec<PathBuf>,
    /// The resource files that are no longer needed.
    pub removed: Vec<PathBuf>,
    /// Whether this is a dry run.
    pub is_pending: bool,
}

/// A change that was not adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAdopted {
    /// The ID of the entity, or a pattern of such IDs.
    pub id: BString,
    /// The reason, as a clause.
    pub reason: BString,
    /// A command with which the user can keep the change.
    pub command: Option<BString>,
}

/// A change that a watch has noticed or made.
#[derive(Clone, Debug)]
pub enum Noticed<'a> {
    /// The number of entities that are watched from now on.
    Watching(usize),
    /// The entity is no longer in its desired state.
    Drifted {
        /// Its ID.
        id: &'a BStr,
        /// The event, if known.
        reason: Option<BString>,
        /// The process that has written the entity, if known.
        writer: Option<Writer<'static>>,
        /// Whether only force could repair it.
        needs_force: bool,
        /// Whether that is because it was changed manually.
        is_edited: bool,
    },
    /// The entity with this ID is in its desired state again, without our intervention.
    Returned(&'a BStr),
    /// The entity was brought back into its desired state.
    Repaired {
        /// Its ID.
        id: &'a BStr,
        /// The changes, if its plugin has reported them.
        changes: &'a [BString],
    },
    /// The entity could not be checked or repaired.
    Failed {
        /// Its ID.
        id: &'a BStr,
        /// The reason, if known.
        reason: Option<&'a BStr>,
    },
    /// The entity was repaired so often that another program must be changing it, and is not repaired for now.
    LeftAlone {
        /// Its ID.
        id: &'a BStr,
        /// The limit that was exceeded.
        limit: Limit,
        /// The time until which it is not repaired.
        until: Instant,
        /// The last process known to have written the entity.
        writer: Option<&'a Writer<'static>>,
    },
}

/// The output form of a listed entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A paragraph.
    Paragraph,
    /// The report of the plugin, in version 3 of the interface.
    Porcelain,
    /// The ID only.
    Id,
}

/// The outcome of the work on an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// It was in its desired state already.
    Unchanged,
    /// It does not apply to this system, or not now, according to its definition.
    ConditionNotMet,
    /// It is in its desired state now.
    Changed,
    /// It was only checked, and would be changed, or its plugin cannot tell.
    Pending,
    /// It was not changed for lack of `--force`, or would not be.
    Refused,
    /// It was skipped because a requirement is not in its desired state.
    DependencyFailed,
    /// An error occurred.
    Failed,
}

/// The reason, according to its events, why an entity is not in its desired state.
#[derive(Debug, Default)]
pub struct Reason(Option<BString>);

impl Reason {
    /// Hears an event. The last fact counts, but the first of several pending changes.
    pub fn hear(&mut self, event: &Event<'_>) {
        match event {
            Event::Begin(_) => self.0 = None,
            Event::Message(Message::WouldChange(text) | Message::RequiresForce(text)) => {
                self.0.get_or_insert_with(|| text.clone());
            }
            Event::Message(Message::RequiresForceToOverwrite) => self.0 = Some(words::MODIFIED.into()),
            Event::Message(Message::RequiresForceToRestore) => self.0 = Some(words::DELETED.into()),
            Event::Message(message @ Message::Deferred(_)) => self.0 = Some(message.to_line()),
            Event::Message(Message::Unknown) => self.0 = Some("its plugin cannot tell".into()),
            Event::Failed(Some(reason)) | Event::Skipped(reason) => self.0 = Some((*reason).into()),
            Event::Remark(remark) => self.0 = remark.error_text().map(BString::from).or_else(|| self.0.take()),
            _ => {}
        }
    }

    /// Returns the reason for the current entity, if its events give one.
    pub fn take(&mut self) -> Option<BString> {
        self.0.take()
    }
}

/// A finding about this machine: its level, a description, and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name of the check that found it, or the ID of the plugin.
    pub check: String,
    /// The level and the texts.
    pub diagnosis: Diagnosis,
}

impl Finding {
    /// Returns the finding of a check.
    pub fn new(check: &str, level: Level, title: impl AsRef<[u8]>, remedy: impl AsRef<[u8]>) -> Finding {
        Finding { check: check.to_owned(), diagnosis: Diagnosis::new(level, title, remedy) }
    }

    /// Returns its level.
    #[must_use]
    pub fn level(&self) -> Level {
        self.diagnosis.level
    }

    /// Returns the description.
    #[must_use]
    pub fn title(&self) -> &BString {
        &self.diagnosis.title
    }

    /// Returns the remedy, if there is one.
    #[must_use]
    pub fn remedy(&self) -> Option<&BString> {
        Some(&self.diagnosis.remedy).filter(|remedy| !remedy.is_empty())
    }
}

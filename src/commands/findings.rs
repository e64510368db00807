//! Collects the results of a check or an apply.

use crate::entities::entity::Source;
use crate::report::{End, Event, RemarkKind, Reporter, Severity};
use bstr::{BString, ByteSlice};
use holo_protocol::Message;
use std::collections::HashSet;

/// A reporter that collects events about entities, and forwards each remark about the run once.
pub(super) struct Findings<'a> {
    reporter: &'a mut dyn Reporter,
    /// Remarks about the run that have been forwarded before.
    told: &'a mut HashSet<BString>,
    /// The entity being worked on.
    current: Option<Finding>,
    found: Vec<Finding>,
}

/// The state or outcome of an entity.
#[derive(Debug)]
pub(super) struct Finding {
    /// Its ID.
    pub(super) id: BString,
    /// The outcome of the work on it.
    pub(super) end: End,
    /// The changes that were or would be made, in the words of its plugin.
    pub(super) changes: Vec<BString>,
    /// The reasons for which it would have to be forced.
    pub(super) refusals: Vec<BString>,
    /// The last error.
    pub(super) error: Option<BString>,
    /// Whether its plugin cannot tell its state.
    pub(super) is_unknown: bool,
    /// Its resource files, if it was changed.
    pub(super) sources: Vec<Source>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(reporter: &'a mut dyn Reporter, told: &'a mut HashSet<BString>) -> Findings<'a> {
        Findings { reporter, told, current: None, found: Vec::new() }
    }

    /// Returns the reporter for remarks about the run.
    pub(super) fn of_the_run(&mut self) -> &mut dyn Reporter {
        self.reporter
    }

    /// Returns the findings.
    pub(super) fn into_found(self) -> Vec<Finding> {
        self.found
    }

    fn message(&mut self, message: &Message) {
        let Some(current) = &mut self.current else { return };
        match message {
            Message::WouldChange(text) | Message::Changed(text) | Message::ChangedQuietly(text) => {
                current.changes.push(text.clone());
            }
            Message::RequiresForce(reason) => current.refusals.push(reason.clone()),
            Message::RequiresForceToOverwrite => current.refusals.push("modified by user".into()),
            Message::RequiresForceToRestore => current.refusals.push("deleted by user".into()),
            Message::Unknown => current.is_unknown = true,
            Message::NotChanged
            | Message::Skipped(_)
            | Message::Send(_)
            | Message::Malformed(_)
            | Message::Keep(_)
            | Message::Replaced(_)
            | Message::Progress(_) => {}
        }
    }
}

impl Reporter for Findings<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begin(entity) => {
                self.current = Some(Finding {
                    id: entity.id().to_owned(),
                    end: End::Unchanged,
                    changes: Vec::new(),
                    refusals: Vec::new(),
                    error: None,
                    is_unknown: false,
                    sources: Vec::new(),
                });
            }
            Event::Message(message) => self.message(message),
            Event::Failed(Some(reason)) | Event::Skipped(reason) => {
                self.current.iter_mut().for_each(|current| current.error = Some(reason.into()));
            }
            Event::Remark(remark) => match &mut self.current {
                Some(current) => {
                    let is_error = remark.kind == RemarkKind::Own(Severity::Error);
                    let marked = remark.text.lines().filter_map(|line| line.strip_prefix(b"!! ")).next_back();
                    if let Some(text) = if is_error { Some(remark.text.as_bytes()) } else { marked } {
                        current.error = Some(text.trim().into());
                    }
                }
                None if remark.kind == RemarkKind::ParagraphEnd || self.told.insert(remark.text.to_vec().into()) => {
                    self.reporter.event(Event::Remark(remark));
                }
                None => {}
            },
            Event::End(entity, end, _) => {
                let sources = if end == End::Changed { entity.report_sources() } else { Vec::new() };
                self.found.extend(self.current.take().map(|found| Finding { end, sources, ..found }));
            }
            // A conflict concerns several entities, and would otherwise not be reported.
            Event::Conflict(..) => self.reporter.event(event),
            // Entities that no longer exist are not watched, and selectors are checked beforehand.
            _ => {}
        }
    }

    fn is_read(&self) -> bool {
        self.reporter.is_read()
    }
}

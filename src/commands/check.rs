//! `holo check`, and the results of a check or an apply, collected.

use super::Context;
use super::inputs::Inputs;
use crate::apply::Walk;
use crate::cli::{Check, Selection};
use crate::discovery::inventory::{Inventory, Purpose};
use crate::discovery::misplaced::{self, Misplaced};
use crate::entities::Source;
use crate::error::{FatalError, exit};
use crate::generations::Changes;
use crate::history::Standings;
use crate::host::cache::CacheDirectory;
use crate::host::interrupt::Interrupt;
use crate::host::settings::Settings;
use crate::plan::refresh::Refreshes;
use crate::plan::select::Selected;
use crate::plan::sent::SentValues;
use crate::plugin::Task;
use crate::report::{End, Event, RemarkKind, Remarks, Reporter};
use bstr::{BString, ByteSlice};
use holo_events::{FileStamp, Tally};
use holo_protocol::{Message, words};
use holo_state::Database;
use std::collections::HashSet;
use std::fs;
use std::rc::Rc;

pub(super) fn run(arguments: &Check, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let preview = Preview { differences: arguments.diff, warns_of_misplaced: true, ..Preview::default() };
    context.settings.on_edit = arguments.policy.on_edit.unwrap_or(context.settings.on_edit);
    context.settings.jobs = arguments.jobs.unwrap_or(context.settings.jobs);
    let changes = Changes { with: arguments.with.as_deref(), without: &arguments.without };
    if changes.with.is_some() || !changes.without.is_empty() {
        return in_future(changes, &arguments.selection, preview, context);
    }
    let Context { settings, interrupt, reporter } = context;
    let mut standings = Standings::new(*reporter, arguments.selection.selectors.is_empty());
    let done = walk(settings, interrupt, &mut standings, &arguments.selection, preview);
    standings.keep(settings, "check", &done, &Database::new(settings.root.state_database()));
    done.map(exit_code)
}

/// Checks what an apply would do after these changes of the inputs. What is known about the machine stays as it is.
fn in_future(
    changes: Changes<'_>,
    selection: &Selection,
    preview: Preview,
    context: &mut Context<'_>,
) -> Result<u8, FatalError> {
    super::refuse_if_pinned("preview changes", context)?;
    let Context { settings, interrupt, reporter } = context;
    // It must outlive the use of the inputs.
    let cache = CacheDirectory::create(&settings.temporary_directory)?;
    let inputs = changes.lay_out(&settings.root, cache.path()).map_err(FatalError::could_not_run)?;
    settings.root = settings.root.clone().with_future_inputs(inputs);
    walk(settings, interrupt, *reporter, selection, preview).map(exit_code)
}

/// The options of the apply that a check previews.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Preview {
    pub(super) force: bool,
    pub(super) fail_fast: bool,
    pub(super) differences: bool,
    /// Whether unchanged entities are shown too.
    pub(super) names_all: bool,
    /// Whether to warn of resource files that no plugin reads.
    pub(super) warns_of_misplaced: bool,
}

/// Checks the selected entities in the order of an apply. Nothing is changed, so no lock is needed.
pub(super) fn walk(
    settings: &Settings,
    interrupt: &Interrupt,
    reporter: &mut dyn Reporter,
    selection: &Selection,
    preview: Preview,
) -> Result<Tally, FatalError> {
    reporter.event(Event::RunBegins(&settings.run));
    let mut inputs = Inputs::new(settings, &selection.selectors).with_memory();
    if !(preview.force || preview.names_all || preview.warns_of_misplaced)
        && let Some(entities) = inputs.settled()
    {
        return Ok(super::show_settled(entities, settings, reporter));
    }
    let (mut inventory, selected) = loop {
        let inventory = inputs.discover(Purpose::Check, interrupt, reporter)?;
        let selected = super::select("check", &inventory, &selection.selectors, reporter)?;
        if inputs.is_consistent(&inventory, &selected, interrupt, reporter)? {
            break (inventory, selected);
        }
    };
    let settings = &inputs.settings;
    if preview.warns_of_misplaced && selection.selectors.is_empty() && settings.root.earlier_inputs().is_none() {
        show_misplaced(settings, &inventory, reporter);
    }
    let flawed = inventory.is_flawed_for(selection);
    let tally = look(&mut inventory, &selected, settings, interrupt, reporter, preview)?;
    super::show_generation(&settings.root, reporter);
    Ok(Tally { flawed, ..tally })
}

/// Warns of resource files that no plugin reads.
fn show_misplaced(settings: &Settings, inventory: &Inventory, reporter: &mut dyn Reporter) {
    let ids: Vec<&str> = inventory.plugins.iter().map(|plugin| plugin.id.as_str()).collect();
    let mut found = misplaced::without_plugin(&settings.root, &ids);
    found.extend(misplaced::unread(&settings.root, inventory));
    for Misplaced { title, remedy } in found {
        reporter.warning(settings.root.with_shown_paths(&format!("{title}; {remedy}")));
        reporter.end_paragraph();
    }
}

/// Checks the selected entities of an inventory.
pub(super) fn look(
    inventory: &mut Inventory,
    selected: &Selected,
    settings: &Settings,
    interrupt: &Interrupt,
    reporter: &mut dyn Reporter,
    preview: Preview,
) -> Result<Tally, FatalError> {
    let database = Rc::new(Database::snapshot(settings.root.state_database()));
    // The discovery has reported state that cannot be read.
    let (mut refreshes, _) = Refreshes::look(&database).map_err(FatalError::could_not_run)?;
    inventory.hand_over_refreshes(&mut refreshes);
    let sent = SentValues::look(&database, inventory.cache()).map_err(FatalError::could_not_run)?;
    super::show_slips(inventory, selected, reporter);
    let walk = Walk::new(inventory, selected, settings, interrupt, Task::Check, (refreshes, sent));
    walk.with_force(preview.force).fail_fast(preview.fail_fast).with_differences(preview.differences).go(reporter)
}

/// Returns the exit code. Failures take precedence over pending changes.
pub(super) fn exit_code(tally: Tally) -> u8 {
    if tally.has_failed() {
        exit::FAILED
    } else if tally.pending + tally.hindered() > 0 {
        exit::PENDING
    } else {
        exit::DONE
    }
}

/// Remarks about runs that have been forwarded. A remark is only repeated if a survey in between did not find it, or if it begins with the
/// name of a file that has changed since.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Those since the last survey began.
    now: HashSet<(BString, Option<FileStamp>)>,
    /// During a survey, those from before it.
    before: HashSet<(BString, Option<FileStamp>)>,
}

impl Told {
    /// Returns true if a remark has not been forwarded yet.
    pub(super) fn is_new(&mut self, text: BString) -> bool {
        let file = text.split_once_str(":").map(|(file, _)| file.to_path_lossy());
        let found = file.and_then(|file| fs::metadata(file).ok()).filter(fs::Metadata::is_file);
        let remark = (text, found.as_ref().map(FileStamp::of));
        let is_known = self.before.contains(&remark);
        self.now.insert(remark) && !is_known
    }

    /// A survey begins.
    pub(super) fn begin(&mut self) {
        self.before.extend(self.now.drain());
    }

    /// A survey has ended: a remark that it did not find is new when it comes again.
    pub(super) fn end(&mut self) {
        self.before.clear();
    }
}

/// A reporter that collects events about entities, and forwards each remark about the run once.
pub(super) struct Findings<'a> {
    reporter: &'a mut dyn Reporter,
    told: &'a mut Told,
    /// The entity being worked on.
    current: Option<Finding>,
    found: Vec<Finding>,
    /// Whether all events are forwarded.
    passes_on: bool,
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
    /// Whether it would have to be forced because it was changed manually.
    pub(super) is_edited: bool,
    /// Whether its plugin broke down.
    pub(super) is_broken: bool,
    /// Whether it was refreshed because another one was changed.
    pub(super) is_refreshed: bool,
    /// The paths that belong to it besides those of its report, if its plugin was asked for them.
    pub(super) parts: Vec<BString>,
    /// Its resource files, if it was changed.
    pub(super) sources: Vec<Source>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(reporter: &'a mut dyn Reporter, told: &'a mut Told) -> Findings<'a> {
        Findings { reporter, told, current: None, found: Vec::new(), passes_on: false }
    }

    /// Returns a reporter that also forwards all events.
    pub(super) fn passing_on(reporter: &'a mut dyn Reporter, told: &'a mut Told) -> Findings<'a> {
        Findings { passes_on: true, ..Findings::new(reporter, told) }
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
            Message::RequiresForceToOverwrite => {
                current.is_edited = true;
                current.refusals.push(words::MODIFIED.into());
            }
            Message::RequiresForceToRestore => {
                current.is_edited = true;
                current.refusals.push(words::DELETED.into());
            }
            Message::Unknown => current.is_unknown = true,
            Message::Part(path) => current.parts.push(path.clone()),
            Message::NotChanged
            | Message::Skipped(_)
            | Message::Deferred(_)
            | Message::Send(_)
            | Message::Malformed(_)
            | Message::Keep(_)
            | Message::Replaced(_)
            | Message::Witness(_)
            | Message::Progress(_) => {}
        }
    }

    /// Takes an event. Returns true if it is about the run, and is forwarded.
    fn take(&mut self, event: &Event<'_>) -> bool {
        match event {
            Event::Begin(entity) => {
                self.current = Some(Finding {
                    id: entity.id().to_owned(),
                    end: End::Unchanged,
                    changes: Vec::new(),
                    refusals: Vec::new(),
                    error: None,
                    is_unknown: false,
                    is_edited: false,
                    is_broken: false,
                    is_refreshed: false,
                    parts: Vec::new(),
                    sources: Vec::new(),
                });
            }
            Event::Message(message) => self.message(message),
            Event::Failed(Some(reason)) | Event::Skipped(reason) => {
                self.current.iter_mut().for_each(|current| current.error = Some((*reason).into()));
            }
            Event::Refresh(..) => self.current.iter_mut().for_each(|current| current.is_refreshed = true),
            Event::Broken => self.current.iter_mut().for_each(|current| current.is_broken = true),
            Event::Remark(remark) => match &mut self.current {
                Some(current) => {
                    current.error = remark.error_text().map(BString::from).or_else(|| current.error.take());
                }
                None => {
                    return remark.kind == RemarkKind::ParagraphEnd || self.told.is_new(remark.text.to_vec().into());
                }
            },
            Event::End(entity, end, _) => {
                let end = *end;
                let sources = if end == End::Changed { entity.report_sources() } else { Vec::new() };
                self.found.extend(self.current.take().map(|found| Finding { end, sources, ..found }));
            }
            // A conflict concerns several entities, and would otherwise not be reported.
            Event::Conflict(..) => return true,
            // Entities that no longer exist are not watched, and selectors are checked beforehand.
            _ => {}
        }
        false
    }
}

impl Reporter for Findings<'_> {
    fn event(&mut self, event: Event<'_>) {
        let is_forwarded = self.take(&event) || self.passes_on;
        if is_forwarded {
            self.reporter.event(event);
        }
    }

    fn is_read(&self) -> bool {
        self.reporter.is_read()
    }
}

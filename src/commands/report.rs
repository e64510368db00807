//! `holo report`: writes a self-contained HTML page about a machine.

mod page;

use super::Context;
use super::doctor::{self, Scene};
use crate::apply::Walk;
use crate::cli::Report;
use crate::discovery::inventory::Inventory;
use crate::error::{FatalError, IoError, exit};
use crate::graph;
use crate::history::{Counts, History, Run, RunResult, RunState, Who};
use crate::host::interrupt::Interrupt;
use crate::host::root::Root;
use crate::host::settings::Settings;
use crate::plan::edges::Declarations;
use crate::plan::refresh::Refreshes;
use crate::plan::select::Selected;
use crate::plan::sent::SentValues;
use crate::plugin::Task;
use crate::report::{End, Event, Finding, RemarkKind, Reporter};
use bstr::{BString, ByteSlice};
use holo_facts::page::{PageError, safe};
use holo_protocol::Message;
use holo_state::Database;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use page::{Budget, Diff, Page, Plan};
use serde::Serialize;
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::mem;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// The maximum number of entities in a readable picture.
const MOST_DRAWN: usize = 400;

pub(super) fn run(arguments: &Report, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let mut scene = Scene::take(settings, interrupt)?;
    let findings = doctor::examine(&mut scene, interrupt)?;
    let page = match &mut scene.inventory {
        Some(inventory) => of_inventory(inventory, &findings, settings, interrupt)?,
        None => Page::new(settings, &findings, None, Plan::Nothing),
    };
    let html = page.render()?;
    match &arguments.output {
        Some(path) => write(path, html.as_bytes()).map_err(FatalError::could_not_run)?,
        None => reporter.event(Event::Text(html.as_bytes())),
    }
    Ok(exit::DONE)
}

fn of_inventory(
    inventory: &mut Inventory,
    findings: &[Finding],
    settings: &Settings,
    interrupt: &Interrupt,
) -> Result<Page, FatalError> {
    let everything: Selected = inventory.entities.iter().map(|_| true).collect();
    let database = Rc::new(Database::snapshot(settings.root.state_database()));
    let mut refreshes = Refreshes::look(&database).map_err(FatalError::could_not_run)?.0;
    let sent = SentValues::look(&database, inventory.cache()).map_err(FatalError::could_not_run)?;
    inventory.hand_over_refreshes(&mut refreshes);
    let mut collected = Collected::new();
    let walk = Walk::new(inventory, &everything, settings, interrupt, Task::Check, (refreshes, sent));
    walk.with_differences(true).go(&mut collected)?;
    let plan = draw(inventory);
    Ok(Page::new(settings, findings, Some((inventory, collected)), plan))
}

/// Draws the plan, or the part of it that is readable.
fn draw(inventory: &Inventory) -> Plan {
    let mut has_edges: Vec<bool> = vec![false; inventory.entities.len()];
    for edge in inventory.plan.edges() {
        for end in [edge.from, edge.to] {
            has_edges.get_mut(usize::from(end)).into_iter().for_each(|has_edge| *has_edge = true);
        }
    }
    let connected = has_edges.iter().filter(|has_edge| **has_edge).count();
    let selected: Selected = if inventory.entities.len() <= MOST_DRAWN {
        has_edges.iter().map(|_| true).collect()
    } else if connected == 0 {
        return Plan::Nothing;
    } else if connected <= MOST_DRAWN {
        has_edges.into_iter().collect()
    } else {
        return Plan::TooLarge(connected);
    };
    let declarations = Declarations::new(&inventory.entities);
    Plan::Picture(graph::svg(&declarations.nodes(&inventory.entities), &inventory.plan, &selected))
}

/// Writes the page atomically, readable only by us: it may contain what only we may read.
fn write(path: &Path, html: &[u8]) -> Result<(), IoError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(html)?;
        fs::rename(&temporary, path)
    })();
    written.map_err(|error: io::Error| {
        // The partial file is useless.
        let _ = fs::remove_file(&temporary);
        IoError::new("write", path, error)
    })
}

impl From<PageError> for FatalError {
    fn from(error: PageError) -> Self {
        FatalError::could_not_run(error)
    }
}

/// The total size, in bytes, of differences and plugin output on a page.
const ROOM_FOR_TEXT: usize = 1 << 20;
/// The number of bytes shown of a plugin's output about an entity.
const MOST_OUTPUT: usize = 4 << 10;
/// The number of bytes shown of a change, or of the reason for a failure.
const MOST_WORDS: usize = 500;

/// The results of a check.
struct Collected {
    /// By entity ID.
    entities: HashMap<BString, Looked>,
    current: Option<(BString, Looked)>,
    room: Budget,
}

/// The results for an entity.
#[derive(Debug, Default)]
struct Looked {
    end: Option<End>,
    /// The changes, refusals or errors.
    words: Vec<String>,
    output: String,
    diffs: Vec<Diff>,
}

impl Collected {
    fn new() -> Collected {
        Collected { entities: HashMap::new(), current: None, room: Budget::new(ROOM_FOR_TEXT) }
    }

    fn say(&mut self, words: impl AsRef<[u8]>) {
        if let Some((_, looked)) = &mut self.current {
            looked.words.push(safe(beginning(words.as_ref(), MOST_WORDS)));
        }
    }

    fn show(&mut self, text: &[u8]) {
        if let Some((_, looked)) = self.current.as_mut().filter(|_| !text.is_empty()) {
            looked.diffs.push(Diff::new(text, &mut self.room));
        }
    }

    fn message(&mut self, message: &Message) {
        match message {
            Message::WouldChange(text) | Message::RequiresForce(text) | Message::Skipped(text) => self.say(text),
            Message::RequiresForceToOverwrite => self.say("changed manually since it was last applied"),
            Message::RequiresForceToRestore => self.say("deleted manually since it was last applied"),
            Message::Unknown => self.say("the effect of applying it is unknown"),
            _ => {}
        }
    }
}

fn beginning(text: &[u8], most: usize) -> &[u8] {
    text.get(..most).unwrap_or(text)
}

impl Reporter for Collected {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begin(entity) => self.current = Some((entity.id().to_owned(), Looked::default())),
            Event::Message(message) => self.message(message),
            Event::Diff(text) => self.show(text),
            Event::Preview { difference, .. } => self.show(&difference.text),
            Event::Skipped(reason) | Event::Failed(Some(reason)) => self.say(reason),
            Event::WouldRefresh(..) => self.say("would be refreshed"),
            Event::Remark(remark) if matches!(remark.kind, RemarkKind::Output(_) | RemarkKind::Own(_)) => {
                if let Some((_, looked)) = &mut self.current {
                    let room = MOST_OUTPUT.saturating_sub(looked.output.len());
                    let text = beginning(remark.text.as_bytes(), room);
                    if self.room.take(text, 0) {
                        looked.output.push_str(&safe(text));
                    }
                }
            }
            Event::End(_, end, _) => {
                if let Some((id, looked)) = mem::take(&mut self.current) {
                    self.entities.insert(id, Looked { end: Some(end), ..looked });
                }
            }
            _ => {}
        }
    }
}

/// The number of runs that are shown.
const SHOWN: usize = 20;

/// A run.
#[derive(Debug, Serialize)]
struct RunRow {
    time: String,
    machine_time: String,
    who: String,
    result: &'static str,
    tone: &'static str,
    counts: String,
    duration: String,
}

/// Returns the most recent runs that did or attempted work, and the last one without work, newest first.
fn last(root: &Root) -> Vec<RunRow> {
    let Ok(history) = History::open(root) else { return Vec::new() };
    let mut rows: Vec<(String, RunRow)> =
        history.runs().take(SHOWN).map(|run| (run.id.as_str().to_owned(), of_run(&run))).collect();
    if let Some(last) = history.last_unchanged() {
        let row = RunRow {
            time: shown(last.time),
            machine_time: for_machines(last.time),
            who: String::new(),
            result: RunResult::Unchanged.name(),
            tone: "",
            counts: counted(&last.counts),
            duration: seconds(last.duration),
        };
        rows.push((last.run.as_str().to_owned(), row));
    }
    rows.sort_by(|(one, _), (other, _)| other.cmp(one));
    rows.into_iter().map(|(_, row)| row).collect()
}

fn of_run(run: &Run) -> RunRow {
    let (result, tone) = match run.state() {
        RunState::Running => ("at work", ""),
        RunState::Ended(result) => (result.name(), if result.is_bad() { "bad" } else { "" }),
    };
    let time = run.began.as_ref().map(|began| began.time);
    RunRow {
        time: time.map_or_else(|| run.id.as_str().to_owned(), shown),
        machine_time: time.map(for_machines).unwrap_or_default(),
        who: run.began.as_ref().map(|began| by(&began.who)).unwrap_or_default(),
        result,
        tone,
        counts: counted(&run.counts()),
        duration: run.ended.as_ref().and_then(|ended| ended.duration).map(seconds).unwrap_or_default(),
    }
}

/// Returns the user or program that started the run, as far as known.
fn by(who: &Who) -> String {
    match (&who.trigger, &who.sudo_user) {
        (Some(trigger), _) => safe(trigger.as_bstr()),
        (None, Some(user)) => safe(user.as_bstr()),
        (None, None) => match who.login_uid.unwrap_or(who.uid) {
            0 => "root".to_owned(),
            uid => format!("user {uid}"),
        },
    }
}

fn counted(counts: &Counts) -> String {
    let Counts { unchanged, changed, pending, refused, skipped, failed } = *counts;
    let all = [
        (changed, "changed"),
        (pending, "pending"),
        (failed, "failed"),
        (refused, "refused"),
        (skipped, "skipped"),
        (unchanged, "unchanged"),
    ];
    let there = all.iter().filter(|(count, _)| *count > 0);
    there.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Formats a time for the attribute `datetime`.
fn for_machines(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats a time in the time zone of this machine.
fn shown(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

//! Version 3's words: a paragraph an entity.

use super::{Console, End, Event, Reporter, bar};
use crate::entity::Entity;
use bstr::{BString, ByteSlice, ByteVec};
use holo_protocol::report::Information;
use holo_protocol::session::Stream;
use holo_protocol::{API_VERSION_3, Action, EntityReport, Message, Progress};
use std::time::Duration;

/// The width of the keys of a scan.
const SCAN_KEY_WIDTH: usize = 12;

/// Shows an apply as paragraphs: of each entity that there is something to say of, its report, then what was said.
pub struct Paragraphs<'a> {
    console: &'a mut Console,
    /// The entity at work, as long as its report has not been shown.
    prologue: Option<Entity>,
    /// The ID of the entity at work.
    at_work: BString,
    /// The progress that was shown last.
    progress: Option<String>,
    only_looks: bool,
}

impl<'a> Paragraphs<'a> {
    /// Shows on this console what is done or, if it is only looked, what would be done.
    pub fn new(console: &'a mut Console, only_looks: bool) -> Paragraphs<'a> {
        Paragraphs { console, prologue: None, at_work: BString::default(), progress: None, only_looks }
    }

    fn show_prologue(&mut self) {
        if let Some(entity) = self.prologue.take() {
            let report = apply_report(self.console, &entity.report());
            self.console.write(Stream::Stdout, &report);
            self.console.end_paragraph();
        }
    }

    fn error(&mut self, text: &str) {
        self.show_prologue();
        self.console.error(text);
    }

    fn message(&mut self, message: &Message) {
        match message {
            // Its end tells the same; what is sent is between entities; and what cannot be understood is shown as a failure.
            Message::NotChanged | Message::Skipped(_) | Message::Send(_) | Message::Malformed(_) => {}
            Message::RequiresForce(reason) => self.error(&format!("{reason} (use --force to proceed)")),
            // Into a pipe, there is nothing that version 3 has not.
            Message::ChangedQuietly(_) if !self.console.is_terminal() => {}
            Message::WouldChange(text) | Message::Changed(text) | Message::ChangedQuietly(text) => {
                self.show_prologue();
                self.console.write(Stream::Stdout, &[&text[..], b"\n"].concat());
            }
            Message::Progress(said) => {
                let line = bar::line(self.at_work.as_bstr(), &Progress::parse(&said.to_str_lossy()));
                self.console.status(line.as_bytes());
                self.progress = Some(line);
            }
            Message::Unknown => {
                self.show_prologue();
                self.console.warning("It cannot be told what applying would do");
            }
            Message::RequiresForceToOverwrite => {
                self.error("Entity has been modified by user (use --force to overwrite)");
            }
            Message::RequiresForceToRestore => self.error("Entity has been deleted by user (use --force to restore)"),
        }
    }

    fn end(&mut self, end: End) {
        if !matches!(end, End::Unchanged | End::ConditionNotMet) {
            self.show_prologue();
        }
        if self.prologue.take().is_none() {
            self.console.end_paragraph();
            self.console.flush();
        }
    }
}

impl Reporter for Paragraphs<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begin(entity) => {
                self.prologue = Some(entity.clone());
                entity.id().clone_into(&mut self.at_work);
                self.progress = None;
                self.console.status(entity.id());
            }
            Event::Output(stream, bytes) => {
                self.show_prologue();
                self.console.write(stream, bytes);
                self.console.flush();
            }
            Event::Belated(stream, bytes) => {
                self.console.end_paragraph();
                self.console.write(stream, bytes);
                self.console.end_paragraph();
                self.console.flush();
            }
            Event::Message(message) => self.message(message),
            // Of an entity of version 3 that is only looked at, it says that nothing has changed.
            Event::Diff([]) => {}
            Event::Diff(diff) => {
                self.show_prologue();
                self.console.end_paragraph();
                self.console.indented_diff(diff);
                self.console.end_paragraph();
            }
            // Of what has just been begun there is nothing to say yet.
            Event::Waiting(_, time) if time < Duration::from_millis(900) => {}
            Event::Waiting(entity, time) => {
                let progress = self.progress.clone().filter(|_| entity.id() == self.at_work);
                let line = progress.unwrap_or_else(|| entity.id().to_string());
                self.console.status(bar::with_time(&line, time).as_bytes());
            }
            Event::Warning(text) => {
                self.show_prologue();
                self.console.warning(text);
            }
            Event::Skipped(reason) => {
                self.show_prologue();
                self.console.warning(format!("Skipped: {reason}"));
            }
            Event::Error(text) => self.error(text),
            Event::Failed(reason) => {
                self.show_prologue();
                if let Some(reason) = reason {
                    self.console.error(reason);
                }
            }
            Event::Refresh(_) if self.only_looks => {
                self.show_prologue();
                self.console.warning("Would be refreshed");
            }
            // That is between the dispatcher and the plugin, which says what it does.
            Event::Refresh(_) => {}
            Event::End(_, end) => self.end(end),
        }
    }
}

/// Returns the heading of an entity's output: `VERB ID (reason)`, then its information with keys as wide as the verb.
fn apply_report(console: &Console, report: &EntityReport) -> BString {
    let verb = &report.action.verb;
    let mut text = BString::from([&verb[..], b" ", &console.bold(report.id.as_ref())].concat());
    push_reason_and_information(&mut text, report, verb.len());
    text
}

/// Shows an entity as `scan` does.
pub fn entity(console: &mut Console, entity: &Entity) {
    let report = &entity.report();
    let mut text = console.bold(report.id.as_ref());
    push_reason_and_information(&mut text, report, SCAN_KEY_WIDTH);
    console.write(Stream::Stdout, &text);
    console.end_paragraph();
}

fn push_reason_and_information(text: &mut BString, report: &EntityReport, key_width: usize) {
    if let Action { reason: Some(reason), .. } = &report.action {
        [&b" ("[..], reason, b")"].iter().for_each(|part| text.push_str(part));
    }
    text.push(b'\n');
    for Information { key, value } in &report.information {
        let blanks = key_width.saturating_sub(key.chars().count());
        text.extend(std::iter::repeat_n(b' ', blanks));
        [&key[..], b" ", value, b"\n"].iter().for_each(|part| text.push_str(part));
    }
}

/// Shows an entity as `scan --porcelain` does: its report in the form that plugins write.
pub fn porcelain(console: &mut Console, entity: &Entity) {
    let mut text = Vec::new();
    // Version 3 has no edges, and scripts read this.
    entity.report().write(&mut text, API_VERSION_3);
    console.write(Stream::Stdout, &text);
    console.end_paragraph();
}

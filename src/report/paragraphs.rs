//! Shows version 3's output: one paragraph per entity, and the findings of `holo doctor`.

use super::Consumer;
use super::console::{Console, Styled};
use super::event::{Adopted, BlamedLine, End, Event, Finding, Form, NotAdopted, Noticed};
use super::remark::{self, Remark, RemarkKind, Severity};
use super::table::{Description, Table};
use crate::entities::Entity;
use crate::error::FatalError;
use bstr::{BString, ByteSlice, ByteVec};
use holo_protocol::report::Information;
use holo_protocol::session::Stream;
use holo_protocol::{API_VERSION_3, Action, EntityReport, Level, Message, duration};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The width of the keys of a scan.
const SCAN_KEY_WIDTH: usize = 12;

/// Shows output for people and for scripts written for version 3. An apply prints a paragraph for each entity with
/// output or changes: its report, then its messages.
pub(super) struct Paragraphs {
    reader: Reader,
    /// The current entity, until its report has been shown.
    prologue: Option<Entity>,
    /// Whether entities are forgotten.
    forgets: bool,
    /// The last line on stderr so far, for hints.
    unfinished_line: Vec<u8>,
}

/// The reader of the paragraphs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    /// Whether a person reads both streams, so that additions to version 3's output can be shown.
    pub(super) sees_all: bool,
    /// Whether a person reads stderr, so that hints can be shown.
    pub(super) wants_hints: bool,
}

impl Paragraphs {
    /// Shows paragraphs to this reader.
    pub(super) fn new(reader: Reader) -> Paragraphs {
        Paragraphs { reader, prologue: None, forgets: false, unfinished_line: Vec::new() }
    }

    fn show_prologue(&mut self, console: &mut Console) {
        if let Some(entity) = self.prologue.take() {
            console.write_styled(&apply_report(&shown(&entity, self.forgets)));
            console.end_paragraph();
        }
    }

    fn remark(&mut self, remark: &Remark<'_>, console: &mut Console) {
        let text = &remark.text[..];
        match remark.kind {
            // The same text comes as output.
            RemarkKind::Diagnostic(_) => {}
            RemarkKind::Advice if !self.reader.wants_hints => {}
            RemarkKind::Output(stream) => self.write(stream, text, console),
            RemarkKind::UnsortedOutput => self.write(Stream::Stderr, text, console),
            RemarkKind::Own(severity) => self.marked(severity, text, console),
            RemarkKind::Explanation => self.write(Stream::Stderr, &[text.as_bytes(), b"\n"].concat(), console),
            RemarkKind::Advice => self.marked(Severity::Warning, text, console),
            RemarkKind::ParagraphEnd => console.end_paragraph(),
        }
    }

    fn marked(&mut self, severity: Severity, text: &[u8], console: &mut Console) {
        self.show_prologue(console);
        console.marked(severity, text);
        if severity == Severity::Error {
            self.hint_at(text, console);
        }
    }

    fn write(&mut self, stream: Stream, text: &[u8], console: &mut Console) {
        self.show_prologue(console);
        if stream == Stream::Stderr && self.reader.wants_hints {
            for line in text.lines_with_terminator() {
                console.write(stream, line);
                self.follow_line(line, console);
            }
        } else {
            console.write(stream, text);
        }
    }

    /// Takes the next piece of a line on stderr, and shows a hint when the line is complete and is an error that has
    /// one.
    fn follow_line(&mut self, piece: &[u8], console: &mut Console) {
        self.unfinished_line.extend_from_slice(piece);
        if piece.ends_with(b"\n") {
            let line = std::mem::take(&mut self.unfinished_line);
            if let Some(error) = line.trim_ascii_end().strip_prefix(b"!! ") {
                self.hint_at(error, console);
            }
        }
    }

    fn hint_at(&self, error: &[u8], console: &mut Console) {
        let hint = self.reader.wants_hints.then(|| remark::for_error(&error.to_str_lossy())).flatten();
        if let Some(hint) = hint {
            console.marked(Severity::Warning, hint.as_bytes());
        }
    }

    fn message(&mut self, message: &Message, console: &mut Console) {
        let mut error = |text: &str| self.marked(Severity::Error, text.as_bytes(), console);
        match message {
            // Reported by the end of the entity, not meant for users, or shown as a failure.
            Message::NotChanged
            | Message::Skipped(_)
            | Message::Send(_)
            | Message::Keep(_)
            | Message::Replaced(_)
            | Message::Witness(_)
            | Message::Part(_)
            | Message::Malformed(_) => {}
            // Shown in the status line.
            Message::Progress(_) => {}
            Message::RequiresForce(reason) => error(&format!("{reason} (use --force to proceed)")),
            Message::RequiresForceToOverwrite => error("Entity has been modified by user (use --force to overwrite)"),
            Message::RequiresForceToRestore => error("Entity has been deleted by user (use --force to restore)"),
            // Output to a pipe contains only what version 3 prints.
            Message::ChangedQuietly(_) if !self.reader.sees_all => {}
            Message::WouldChange(text) | Message::Changed(text) | Message::ChangedQuietly(text) => {
                self.show_prologue(console);
                console.write(Stream::Stdout, &[&text[..], b"\n"].concat());
            }
            Message::Deferred(_) => self.marked(Severity::Warning, &message.to_line(), console),
            Message::Unknown => {
                self.marked(Severity::Warning, b"The effect of applying it is unknown", console);
            }
        }
    }

    fn table(&self, table: &Table<'_>, console: &mut Console) {
        if self.reader.sees_all {
            for (index, line) in table.for_people().iter().enumerate().filter(|_| !table.rows.is_empty()) {
                let mut text = Styled::default();
                match index {
                    0 => text.append(Styled::bold(line.as_bytes())),
                    _ => text.push(line.as_bytes()),
                }
                text.push(b"\n");
                console.raw_styled(&text);
            }
        } else {
            table.for_scripts().for_each(|line| console.raw(Stream::Stdout, format!("{line}\n").as_bytes()));
        }
    }

    fn end(&mut self, end: End, console: &mut Console) {
        if !matches!(end, End::Unchanged | End::ConditionNotMet) {
            self.show_prologue(console);
        }
        if self.prologue.take().is_none() {
            console.end_paragraph();
            console.flush();
        }
    }

    fn run_ends(&mut self, fatal: &FatalError, console: &mut Console) {
        // This is about the run, not the current entity.
        self.prologue = None;
        if let Some(message) = fatal.message() {
            self.marked(Severity::Error, message.as_bytes(), console);
        }
        if matches!(fatal, FatalError::Generator(_)) {
            // Only in this case does version 3 end a paragraph.
            console.end_paragraph();
        }
    }
}

impl Consumer for Paragraphs {
    fn consume(&mut self, event: &Event<'_>, console: &mut Console) {
        match event {
            Event::Remark(remark) => {
                self.remark(remark, console);
                console.flush();
            }
            Event::Aside(severity, text) => {
                console.raw(Stream::Stderr, format!("{}{text}\n", severity.mark()).as_bytes());
            }
            Event::Usage(text) => console.raw(Stream::Stderr, text.as_bytes()),
            Event::UnknownSelector(selector) => {
                console.raw(Stream::Stderr, &[&b"Unrecognized argument: "[..], selector, b"\n"].concat());
            }
            Event::Conflict(_, text) => self.marked(Severity::Error, text.as_bytes(), console),
            Event::Text(text) => console.raw(Stream::Stdout, text),
            Event::Listed { entity, form, .. } => listed(entity, *form, console),
            Event::Adopted(adopted) => show_adopted(adopted, console),
            Event::NotAdopted(group) => show_not_adopted(group, console),
            Event::Finding(finding) => show(finding, console),
            Event::Diagnosed(counts) => console.raw(Stream::Stdout, counted(counts).as_bytes()),
            Event::Table(table) => self.table(table, console),
            Event::Description(described) => description(described, self.reader.sees_all, console),
            Event::Line(_) => {}
            Event::Blamed(lines) => show_blamed(lines, self.reader.sees_all, console),
            Event::Selector(selector) => console.raw(Stream::Stdout, &[selector, &b"\n"[..]].concat()),
            Event::Difference(diff) => {
                console.end_paragraph();
                console.raw_diff(diff);
            }
            Event::WorkBegins { forgets } => self.forgets = *forgets,
            Event::Begin(entity) => self.prologue = Some((*entity).clone()),
            Event::Belated(stream, bytes) => {
                console.end_paragraph();
                self.write(*stream, bytes, console);
                console.end_paragraph();
                console.flush();
            }
            Event::Message(message) => self.message(message, console),
            // The answer of an unchanged entity of version 3 to a check.
            Event::Diff([]) => {}
            Event::Diff(diff) => {
                self.show_prologue(console);
                console.end_paragraph();
                console.indented_diff(diff);
                console.end_paragraph();
            }
            Event::Preview { difference, is_alone: true } => {
                console.end_paragraph();
                console.raw_diff(&difference.text);
            }
            Event::Preview { difference, .. } => {
                self.show_prologue(console);
                console.end_paragraph();
                console.indented_diff(&difference.text);
                console.end_paragraph();
            }
            Event::Skipped(reason) => {
                self.marked(Severity::Warning, format!("Skipped: {reason}").as_bytes(), console);
            }
            Event::Failed(Some(reason)) => self.marked(Severity::Error, reason.as_bytes(), console),
            Event::Failed(None) => self.show_prologue(console),
            Event::WouldRefresh(..) => self.marked(Severity::Warning, b"Would be refreshed", console),
            Event::End(_, end, _) => self.end(*end, console),
            Event::Applied(tally, time) if self.reader.sees_all => {
                console.end_paragraph();
                console.raw(Stream::Stdout, format!("{tally} in {:.1} s\n", time.as_secs_f64()).as_bytes());
            }
            Event::RunEnds(_, Some(fatal)) => self.run_ends(fatal, console),
            Event::Noticed(noticed) => show_notice(noticed, self.reader.wants_hints, console),
            // Refreshes are internal; the plugin reports what it does.
            Event::Refresh(..) | Event::Broken | Event::Undone(_) => {}
            Event::RunBegins(_) | Event::RefreshesDue(_) | Event::Generation(_) => {}
            Event::About(_) | Event::Waiting(..) | Event::Burst { .. } => {}
            Event::Settled(_) | Event::Applied(..) | Event::RunEnds(..) => {}
        }
    }
}

/// Returns the report of an entity that is worked on. Its plugin describes what an apply does.
pub(super) fn shown(entity: &Entity, forgets: bool) -> EntityReport {
    let mut report = entity.report();
    if forgets {
        report.information.clear();
        report.action = Action { verb: "Forgetting".into(), reason: None };
    }
    report
}

/// Returns the heading of an entity's output: `VERB ID (reason)`, then its information with keys as wide as the verb.
fn apply_report(report: &EntityReport) -> Styled {
    let verb = &report.action.verb;
    let mut text = Styled::default();
    text.push(verb);
    text.push(b" ");
    text.append(Styled::bold(&report.id));
    text.push(&reason_and_information(report, verb.len()));
    text
}

/// Shows an entity as `scan` does.
fn listed(entity: &Entity, form: Form, console: &mut Console) {
    match form {
        Form::Paragraph => {
            let report = &entity.report();
            let mut text = Styled::bold(&report.id);
            text.push(&reason_and_information(report, SCAN_KEY_WIDTH));
            console.write_styled(&text);
            console.end_paragraph();
        }
        Form::Porcelain => {
            let mut text = Vec::new();
            // Version 3 has no edges, and scripts read this.
            entity.report().write(&mut text, API_VERSION_3);
            console.write(Stream::Stdout, &text);
            console.end_paragraph();
        }
        Form::Id => console.raw(Stream::Stdout, &[entity.id().as_bytes(), b"\n"].concat()),
    }
}

/// Shows the lines of a file with their origins, in columns for people and with tabs for scripts.
fn show_blamed(lines: &[BlamedLine], sees_all: bool, console: &mut Console) {
    let width = lines.iter().map(|line| line.origin.chars().count()).max().unwrap_or_default();
    let digits = lines.len().to_string().len();
    for (index, BlamedLine { origin, text }) in lines.iter().enumerate() {
        let number = index + 1;
        let line = if sees_all {
            let blanks = " ".repeat(width - origin.chars().count());
            [&origin[..], format!("{blanks}  {number:>digits$}  ").as_bytes(), text].concat()
        } else {
            [&origin[..], format!("\t{number}\t").as_bytes(), text].concat()
        };
        console.raw(Stream::Stdout, &[&line[..], b"\n"].concat());
    }
}

/// Shows an adopted entity in the form of a scan.
fn show_adopted(adopted: &Adopted, console: &mut Console) {
    let path = |path: &PathBuf| BString::from(path.as_os_str().as_encoded_bytes());
    let (write, remove) = if adopted.is_pending { ("would write", "would remove") } else { ("wrote", "removed") };
    let mut report = EntityReport::new(adopted.id.clone());
    report.action.reason.clone_from(&adopted.reason);
    adopted.group.iter().for_each(|group| report.inform("group", group.clone()));
    adopted.written.iter().for_each(|file| report.inform(write, path(file)));
    adopted.removed.iter().for_each(|file| report.inform(remove, path(file)));
    let mut text = Styled::bold(&report.id);
    text.push(&reason_and_information(&report, SCAN_KEY_WIDTH));
    console.write_styled(&text);
    console.end_paragraph();
}

/// Shows changes that were not adopted for the same reason, in the form of a scan.
fn show_not_adopted(group: &[NotAdopted], console: &mut Console) {
    let mut report = EntityReport::new("Not adopted");
    report.action.reason = group.first().map(|first| first.reason.clone());
    for NotAdopted { id, command, .. } in group {
        report.inform("entity", id.clone());
        command.iter().for_each(|command| report.inform("command", command.clone()));
    }
    let mut text = Styled::bold(&report.id);
    text.push(&reason_and_information(&report, SCAN_KEY_WIDTH));
    console.write_styled(&text);
    console.end_paragraph();
}

/// Shows a description in the form of a scan.
fn description(described: &Description<'_>, to_people: bool, console: &mut Console) {
    console.end_paragraph();
    let mut text = Styled::bold(described.heading.as_bytes());
    text.push(b"\n");
    for (key, value) in described.lines {
        let value = if to_people { value.for_people() } else { value.for_scripts() };
        text.push(format!("{key:>SCAN_KEY_WIDTH$} {value}\n").as_bytes());
    }
    console.write_styled(&text);
    console.end_paragraph();
}

/// Returns the rest of the heading line, and the lines below it.
fn reason_and_information(report: &EntityReport, key_width: usize) -> Vec<u8> {
    let mut text = Vec::new();
    if let Action { reason: Some(reason), .. } = &report.action {
        [&b" ("[..], reason, b")"].iter().for_each(|part| text.push_str(part));
    }
    text.push(b'\n');
    for Information { key, value } in &report.information {
        let blanks = key_width.saturating_sub(key.chars().count());
        text.extend(std::iter::repeat_n(b' ', blanks));
        [&key[..], b" ", value, b"\n"].iter().for_each(|part| text.push_str(part));
    }
    text
}

/// The widths of the first two columns.
const LEVEL_WIDTH: usize = 7;
const CHECK_WIDTH: usize = 13;

/// Shows a finding: level, check and title in columns, and the remedy below the title.
pub(super) fn show(finding: &Finding, console: &mut Console) {
    let level = finding.level();
    let mut line = Styled::level(level, &format!("{:<LEVEL_WIDTH$}", level.word()));
    line.push(format!("  {:<CHECK_WIDTH$}  ", finding.check).as_bytes());
    line.push(finding.title());
    line.push(b"\n");
    console.raw_styled(&line);
    if let Some(remedy) = finding.remedy() {
        let indent = " ".repeat(LEVEL_WIDTH + CHECK_WIDTH + 4);
        console.raw(Stream::Stdout, &[indent.as_bytes(), "→ ".as_bytes(), remedy, b"\n"].concat());
    }
}

/// Returns the summary line: `1 error, 2 warnings, 12 ok`.
pub(super) fn counted(counts: &BTreeMap<Level, usize>) -> String {
    let count = |level| counts.get(&level).copied().unwrap_or_default();
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (errors, warnings) = (plural(count(Level::Error), "error"), plural(count(Level::Warning), "warning"));
    format!("\n{errors}, {warnings}, {} ok\n", count(Level::Ok))
}

/// Shows a change to people.
fn show_notice(noticed: &Noticed<'_>, wants_hints: bool, console: &mut Console) {
    let (stream, line) = match noticed {
        Noticed::Watching(_) if !wants_hints => return,
        Noticed::Watching(1) => (Stream::Stderr, marked(Severity::Warning, b"Watching 1 entity")),
        Noticed::Watching(entities) => {
            (Stream::Stderr, marked(Severity::Warning, format!("Watching {entities} entities").as_bytes()))
        }
        Noticed::Drifted { id, reason, writer, needs_force, is_edited: _ } => {
            let writer = writer.as_ref().map(|writer| BString::from(format!("written by {writer}")));
            let force = needs_force.then(|| BString::from("needs --force"));
            let words: Vec<&BString> = reason.iter().chain(&writer).chain(&force).collect();
            (Stream::Stdout, [&b"drifted "[..], id.as_bytes(), &in_brackets(&words)].concat())
        }
        Noticed::Returned(id) => (Stream::Stdout, [&b"returned "[..], id.as_bytes()].concat()),
        Noticed::Repaired { id, changes } => {
            let words: Vec<&BString> = changes.iter().collect();
            (Stream::Stdout, [&b"repaired "[..], id.as_bytes(), &in_brackets(&words)].concat())
        }
        Noticed::Failed { .. } | Noticed::LeftAlone { .. } => {
            (Stream::Stderr, marked(Severity::Error, &error(noticed)))
        }
    };
    console.raw(stream, &[&line[..], b"\n"].concat());
    console.flush();
}

/// Returns the error message, without the entity's ID.
pub(super) fn reason(noticed: &Noticed<'_>) -> BString {
    match noticed {
        Noticed::Failed { reason, .. } => reason.map_or_else(|| "failed".into(), ToOwned::to_owned),
        Noticed::LeftAlone { limit, until, writer, .. } => {
            let times = if limit.times == 1 { "once".to_owned() } else { format!("{} times", limit.times) };
            let other = writer.map_or_else(|| "something else".to_owned(), ToString::to_string);
            // Rounded to minutes.
            let minutes = until.saturating_duration_since(Instant::now()).as_secs().div_ceil(60);
            format!(
                "repaired {times} within {}, and changed again: {other} manages it. \
                 It is left alone for {}, or until its definition changes",
                duration::shown(limit.within),
                duration::shown(Duration::from_secs(minutes * 60))
            )
            .into()
        }
        Noticed::Watching(_) | Noticed::Drifted { .. } | Noticed::Returned(_) | Noticed::Repaired { .. } => {
            BString::default()
        }
    }
}

fn error(noticed: &Noticed<'_>) -> BString {
    let (Noticed::Failed { id, .. } | Noticed::LeftAlone { id, .. }) = noticed else { return BString::default() };
    [id.as_bytes(), b": ", &reason(noticed)].concat().into()
}

fn marked(severity: Severity, text: &[u8]) -> Vec<u8> {
    [severity.mark().as_bytes(), text].concat()
}

fn in_brackets(words: &[&BString]) -> Vec<u8> {
    let mut text = Vec::new();
    for (index, word) in words.iter().enumerate() {
        text.push_str(if index == 0 { " (" } else { ", " });
        text.push_str(word.as_bytes());
    }
    if !words.is_empty() {
        text.push_str(")");
    }
    text
}

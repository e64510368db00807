//! Renders events as JSON Lines, for programs.

use super::console::Console;
use super::event::{End, Event, NotAdopted, Noticed};
use super::remark::{Remark, RemarkKind, Severity};
use super::{Consumer, paragraphs};
use crate::diff::preview::Difference;
use crate::entities::Entity;
use crate::error::FatalError;
use crate::host::settings::RunId;
use bstr::{BStr, BString};
use holo_events as line;
use holo_events::{Edges, Information, Line, Outcome, Refusal, Tally, Text};
use holo_protocol::Message;
use holo_protocol::session::Stream;
use jiff::{Timestamp, Unit};
use std::mem;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Renders each event as a [`Line`], or as part of one.
#[derive(Default)]
pub(super) struct Json {
    state: JsonState,
    /// The messages about the current entity, for its last line.
    said: Said,
    /// Whether entities are forgotten.
    forgets: bool,
}

/// The messages about an entity, other than output.
#[derive(Default)]
struct Said {
    messages: Vec<Message>,
    reason: Option<String>,
}

impl Json {
    /// Takes an event, and returns the bytes to write.
    fn lines(&mut self, event: &Event<'_>) -> Vec<u8> {
        match event {
            Event::Remark(remark) => self.remark(remark),
            Event::About(entity) => self.state.set_entity(entity.map(Entity::id)),
            Event::Aside(severity, text) => self.marked(*severity, text.as_bytes()),
            Event::UnknownSelector(selector) => self.state.error(&[&b"Unrecognized argument: "[..], selector].concat()),
            Event::Conflict(owners, text) => self.conflict(owners, text),
            Event::Text(text) => [self.state.finish(), text.to_vec()].concat(),
            Event::Listed { entity, plugin, .. } => self.listed(entity, plugin),
            Event::Adopted(adopted) => {
                let paths = |paths: &'_ [PathBuf]| -> Vec<BString> {
                    paths.iter().map(|path| path.as_os_str().as_encoded_bytes().into()).collect()
                };
                let (written, removed) = (paths(&adopted.written), paths(&adopted.removed));
                self.state.line(&Line::Adopted {
                    id: (&adopted.id).into(),
                    plugin: (&adopted.plugin).into(),
                    reason: adopted.reason.as_ref().map(Text::from),
                    group: adopted.group.as_ref().map(Text::from),
                    written: written.iter().map(Text::from).collect(),
                    removed: removed.iter().map(Text::from).collect(),
                    pending: adopted.is_pending,
                })
            }
            Event::NotAdopted(group) => group
                .iter()
                .flat_map(|NotAdopted { id, reason, command }| {
                    self.state.line(&Line::NotAdopted {
                        id: id.into(),
                        reason: reason.into(),
                        command: command.as_ref().map(Text::from),
                    })
                })
                .collect(),
            Event::Finding(finding) => self.state.line(&Line::Finding {
                check: (&finding.check).into(),
                level: finding.level().into(),
                title: finding.title().into(),
                remedy: finding.remedy().map(Text::from),
            }),
            Event::Selector(selector) => self.state.line(&Line::Selector { selector: (*selector).into() }),
            Event::Line(line) => self.state.line(line),
            // The same answer comes as lines.
            Event::Table(_) | Event::Description(_) | Event::Blamed(_) => Vec::new(),
            Event::Difference(diff) | Event::Diff(diff) => self.state.diff(diff),
            Event::Preview { difference, .. } => self.state.preview(difference),
            Event::RunBegins(run) => {
                self.state.begin_run(run);
                Vec::new()
            }
            Event::WorkBegins { forgets } => {
                self.forgets = *forgets;
                self.state.begin_tally();
                Vec::new()
            }
            Event::RefreshesDue(number) => {
                self.state.set_refreshes_due(*number);
                Vec::new()
            }
            Event::Generation(number) => {
                self.state.set_generation(*number);
                Vec::new()
            }
            Event::Begin(entity) => {
                let rest = self.state.set_entity(Some(entity.id()));
                let action = paragraphs::shown(entity, self.forgets).action;
                let line = Line::Begin { id: entity.id().into(), action: (&action).into() };
                [rest, self.state.line(&line)].concat()
            }
            Event::Belated(stream, bytes) => self.state.output_of_nobody(*stream, bytes),
            // These events are meant for people.
            Event::Message(Message::Progress(_)) | Event::Waiting(..) | Event::Burst { .. } => Vec::new(),
            Event::Message(message) => {
                self.said.messages.push((*message).clone());
                Vec::new()
            }
            Event::Skipped(reason) => {
                self.said.reason = Some((*reason).to_owned());
                Vec::new()
            }
            Event::Failed(reason) => {
                self.said.reason = reason.map(str::to_owned);
                Vec::new()
            }
            Event::Undone(end) => {
                self.state.uncount((*end).into());
                Vec::new()
            }
            Event::Refresh(entity, _) | Event::WouldRefresh(entity, _) => {
                self.state.line(&Line::Refresh { id: entity.id().into() })
            }
            Event::End(entity, end, duration) => self.end(entity, (*end).into(), *duration),
            Event::Noticed(noticed) => self.noticed(noticed),
            Event::RunEnds(exit_code, fatal) => self.run_ends(*exit_code, *fatal),
            // The summary line contains the numbers, and an invalid command line does not request JSON.
            Event::Applied(..) | Event::Diagnosed(_) | Event::Usage(_) | Event::Broken => Vec::new(),
            // JSON contains each entity.
            Event::Settled(_) => Vec::new(),
        }
    }

    fn remark(&mut self, Remark { kind, text }: &Remark<'_>) -> Vec<u8> {
        match kind {
            RemarkKind::Output(stream) => self.state.output(*stream, text),
            RemarkKind::Diagnostic(None) => self.state.output(Stream::Stderr, text),
            RemarkKind::Diagnostic(Some(severity)) | RemarkKind::Own(severity) => self.marked(*severity, text),
            RemarkKind::ParagraphEnd => self.state.finish(),
            // It follows line by line.
            RemarkKind::UnsortedOutput => Vec::new(),
            // These remarks are meant for people.
            RemarkKind::Explanation | RemarkKind::Advice => Vec::new(),
        }
    }

    fn marked(&mut self, severity: Severity, text: &[u8]) -> Vec<u8> {
        match severity {
            Severity::Error => self.state.error(text),
            Severity::Warning => self.state.warning(text),
        }
    }

    /// Returns the error of a conflict once for each of its entities, as programs look for their own entity.
    fn conflict(&mut self, owners: &[&Entity], text: &str) -> Vec<u8> {
        let mut lines = Vec::new();
        for owner in owners {
            lines.extend(self.state.set_entity(Some(owner.id())));
            lines.extend(self.state.error(text.as_bytes()));
        }
        lines.extend(self.state.set_entity(None));
        lines
    }

    fn listed(&mut self, entity: &Entity, plugin: &str) -> Vec<u8> {
        let report = &entity.report();
        let information = report.information.iter();
        self.state.line(&Line::Entity {
            id: entity.id().into(),
            plugin: plugin.into(),
            action: (&report.action).into(),
            sources: report.sources.iter().map(Text::from).collect(),
            information: information
                .map(|line| Information { key: (&line.key).into(), value: (&line.value).into() })
                .collect(),
            edges: Box::new(Edges::from(&report.edges)),
            controls: (report.controls != holo_protocol::Controls::NONE).then(|| Box::new((&report.controls).into())),
        })
    }

    fn end(&mut self, entity: &Entity, outcome: Outcome, duration: Duration) -> Vec<u8> {
        let Said { messages, reason } = mem::take(&mut self.said);
        let texts = |text: fn(&Message) -> Option<&BString>| messages.iter().filter_map(text).map(Text::from).collect();
        let condition = messages.iter().find_map(|message| match message {
            Message::Skipped(reason) if outcome == Outcome::Skipped => Some(reason.clone()),
            Message::Deferred(_) if outcome == Outcome::Pending => Some(message.to_line()),
            _ => None,
        });
        let sent: Vec<BString> = messages.iter().filter_map(shown_value).collect();
        let line = Line::End {
            id: entity.id().into(),
            plugin: entity.plugin_id().into(),
            result: outcome,
            duration: line::seconds(duration),
            changed: texts(|message| match message {
                Message::Changed(text) | Message::ChangedQuietly(text) => Some(text),
                _ => None,
            }),
            would_change: texts(|message| if let Message::WouldChange(text) = message { Some(text) } else { None }),
            refused: messages.iter().filter_map(refusal).collect(),
            sent: sent.iter().map(Text::from).collect(),
            kept: texts(|message| if let Message::Keep(value) = message { Some(value) } else { None }),
            unknown: messages.contains(&Message::Unknown),
            reason: reason.as_ref().map(Text::from).or(condition.as_ref().map(Text::from)),
        };
        self.state.count(outcome);
        [self.state.line(&line), self.state.set_entity(None)].concat()
    }

    fn noticed(&mut self, noticed: &Noticed<'_>) -> Vec<u8> {
        match noticed {
            Noticed::Watching(entities) => self.state.line(&Line::Watching { entities: *entities }),
            Noticed::Drifted { id, reason, writer, needs_force, is_edited } => {
                let reason = reason.as_ref().map(Text::from);
                let (id, writer) = ((*id).into(), writer.clone());
                self.state.line(&Line::Drifted { id, reason, writer, needs_force: *needs_force, edited: *is_edited })
            }
            Noticed::Returned(id) => self.state.line(&Line::Returned { id: (*id).into() }),
            Noticed::Repaired { id, changes } => {
                let changed = changes.iter().map(Text::from).collect();
                self.state.line(&Line::Repaired { id: (*id).into(), changed })
            }
            Noticed::Failed { id, .. } | Noticed::LeftAlone { id, .. } => {
                let reason = paragraphs::reason(noticed);
                self.state.line(&Line::Failed { id: (*id).into(), reason: (&reason).into() })
            }
        }
    }

    fn run_ends(&mut self, exit_code: u8, fatal: Option<&FatalError>) -> Vec<u8> {
        let Some(fatal) = fatal else { return self.state.summary(exit_code, None) };
        // This is about the run, not the current entity.
        let rest = self.state.set_entity(None);
        let error = fatal.message().map(|message| self.state.error(message.as_bytes())).unwrap_or_default();
        [rest, error, self.state.summary(exit_code, Some(fatal))].concat()
    }
}

impl Consumer for Json {
    fn consume(&mut self, event: &Event<'_>, console: &mut Console) {
        let lines = self.lines(event);
        console.raw(Stream::Stdout, &lines);
        if !matches!(event, Event::Listed { .. } | Event::Selector(_)) {
            console.flush();
        }
    }
}

/// Returns the value that a message sends as `KEY=VALUE`, unless it is sensitive.
fn shown_value(message: &Message) -> Option<BString> {
    match message {
        Message::Send(sent) if !sent.sensitive => Some(sent.to_pair()),
        _ => None,
    }
}

fn refusal(message: &Message) -> Option<Refusal<'_>> {
    match message {
        Message::RequiresForceToOverwrite => Some(Refusal::Overwrite),
        Message::RequiresForceToRestore => Some(Refusal::Restore),
        Message::RequiresForce(reason) => Some(Refusal::Other { reason: reason.into() }),
        _ => None,
    }
}

impl From<End> for Outcome {
    fn from(end: End) -> Self {
        match end {
            End::Unchanged => Outcome::Unchanged,
            End::Changed => Outcome::Changed,
            End::Pending => Outcome::Pending,
            End::Refused => Outcome::Refused,
            End::ConditionNotMet | End::DependencyFailed => Outcome::Skipped,
            End::Failed => Outcome::Failed,
        }
    }
}

/// The state of the JSON Lines of a run. Each method returns the bytes to write.
#[derive(Default)]
pub(super) struct JsonState {
    /// The current entity.
    entity: Option<BString>,
    /// An incomplete UTF-8 character at the end of the last output on stdout and stderr.
    unfinished: [Vec<u8>; 2],
    last_error: Option<BString>,
    tally: Option<Tally>,
    refreshes_due: usize,
    generation: Option<u32>,
    run: Option<CurrentRun>,
}

/// The run that checks or applies entities.
struct CurrentRun {
    id: RunId,
    time: Timestamp,
    begun: Instant,
}

impl JsonState {
    pub(super) fn begin_run(&mut self, id: &RunId) {
        let now = Timestamp::now();
        let time = now.round(Unit::Millisecond).unwrap_or(now);
        self.run = Some(CurrentRun { id: id.clone(), time, begun: Instant::now() });
    }

    pub(super) fn begin_tally(&mut self) {
        self.tally = Some(Tally::default());
    }

    pub(super) fn count(&mut self, outcome: Outcome) {
        if let Some(tally) = &mut self.tally {
            tally.count(outcome);
        }
    }

    pub(super) fn uncount(&mut self, outcome: Outcome) {
        if let Some(tally) = &mut self.tally {
            tally.uncount(outcome);
        }
    }

    /// Sets the current entity, or none.
    pub(super) fn set_entity(&mut self, entity: Option<&BStr>) -> Vec<u8> {
        let rest = self.finish();
        self.entity = entity.map(BStr::to_owned);
        rest
    }

    /// Takes output that belongs to no entity, possibly while another one is current.
    pub(super) fn output_of_nobody(&mut self, stream: Stream, bytes: &[u8]) -> Vec<u8> {
        let rest = self.finish();
        let at_work = self.entity.take();
        let lines = [rest, self.output(stream, bytes), self.finish()].concat();
        self.entity = at_work;
        lines
    }

    pub(super) fn line(&mut self, line: &Line<'_>) -> Vec<u8> {
        [self.finish(), line.to_bytes()].concat()
    }

    pub(super) fn error(&mut self, text: &[u8]) -> Vec<u8> {
        let rest = self.finish();
        self.last_error = Some(text.into());
        [rest, Line::Error { id: self.id(), text: text.into() }.to_bytes()].concat()
    }

    pub(super) fn warning(&mut self, text: &[u8]) -> Vec<u8> {
        let rest = self.finish();
        [rest, Line::Warning { id: self.id(), text: text.into() }.to_bytes()].concat()
    }

    pub(super) fn diff(&mut self, text: &[u8]) -> Vec<u8> {
        let rest = self.finish();
        match &self.entity {
            Some(id) if !text.is_empty() => {
                let line = Line::Diff { id: id.into(), from: None, to: None, text: text.into(), binary: false };
                [rest, line.to_bytes()].concat()
            }
            _ => rest,
        }
    }

    pub(super) fn preview(&mut self, difference: &Difference) -> Vec<u8> {
        let rest = self.finish();
        let Some(id) = &self.entity else { return rest };
        let Difference { from, to, text, is_binary } = difference;
        let (from, to, text) = (Some(from.into()), Some(to.into()), (&text[..]).into());
        [rest, Line::Diff { id: id.into(), from, to, text, binary: *is_binary }.to_bytes()].concat()
    }

    pub(super) fn output(&mut self, stream: Stream, bytes: &[u8]) -> Vec<u8> {
        let [stdout, stderr] = &mut self.unfinished;
        let unfinished = match stream {
            Stream::Stdout => stdout,
            Stream::Stderr => stderr,
        };
        unfinished.extend_from_slice(bytes);
        let rest = unfinished.split_off(unfinished.len() - beginning_of_character(unfinished));
        let whole = mem::replace(unfinished, rest);
        self.output_line(stream, &whole)
    }

    /// Sets the number of due refreshes for the summary.
    pub(super) fn set_refreshes_due(&mut self, number: usize) {
        self.refreshes_due = number;
    }

    /// Sets the generation of the inputs for the summary.
    pub(super) fn set_generation(&mut self, number: u32) {
        self.generation = Some(number);
    }

    /// Returns the summary line.
    pub(super) fn summary(&mut self, exit_code: u8, fatal: Option<&FatalError>) -> Vec<u8> {
        let rest = self.finish();
        // A watch does several runs.
        let JsonState { last_error, tally, refreshes_due, generation, run, .. } = mem::take(self);
        let told = |text: &'_ str| if text.is_empty() { last_error.clone() } else { Some(text.into()) };
        let error: Option<BString> = fatal.and_then(|fatal| told(&fatal.to_string()));
        let busy = match fatal {
            Some(FatalError::Busy(holder)) => holder.clone(),
            _ => None,
        };
        let run = run.as_ref();
        let line = Line::Summary {
            run: run.map(|run| run.id.as_str().into()),
            time: run.map(|run| run.time.to_string()),
            duration: run.map(|run| line::seconds(run.begun.elapsed())),
            tally,
            refreshes_due,
            generation,
            busy,
            exit_code,
            error: error.as_ref().map(Text::from),
        };
        [rest, line.to_bytes()].concat()
    }

    /// Returns incomplete characters that remained incomplete.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let [stdout, stderr] = mem::take(&mut self.unfinished);
        [self.output_line(Stream::Stdout, &stdout), self.output_line(Stream::Stderr, &stderr)].concat()
    }

    fn output_line(&self, stream: Stream, text: &[u8]) -> Vec<u8> {
        if text.is_empty() {
            return Vec::new();
        }
        Line::Output { id: self.id(), stream: stream.into(), text: text.into() }.to_bytes()
    }

    fn id(&self) -> Option<Text<'_>> {
        self.entity.as_ref().map(Text::from)
    }
}

/// Returns the length of an incomplete UTF-8 character at the end.
fn beginning_of_character(text: &[u8]) -> usize {
    let last = text.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let may_go_on = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
    if may_go_on { last.len() } else { 0 }
}

#[cfg(test)]
mod json_state_tests {
    use super::*;
    use Stream::{Stderr, Stdout};

    fn lines(bytes: &[u8]) -> Vec<String> {
        String::from_utf8(bytes.to_vec()).unwrap().lines().map(str::to_owned).collect()
    }

    fn output(text: &str) -> String {
        format!(r#"{{"version":1,"event":"output","stream":"stdout","text":{text}}}"#)
    }

    #[test]
    fn split_characters_are_joined() {
        let mut state = JsonState::default();
        assert_eq!(lines(&state.output(Stdout, b"caf\xc3")), [output("\"caf\"")]);
        assert_eq!(lines(&state.output(Stdout, b"\xa9\xe2\x82")), [output("\"\u{e9}\"")]);
        assert_eq!(lines(&state.output(Stdout, b"\xac")), [output("\"\u{20ac}\"")]);
        assert!(state.finish().is_empty());
    }

    #[test]
    fn invalid_utf_8_is_shown_as_bytes() {
        let mut state = JsonState::default();
        assert_eq!(lines(&state.output(Stdout, b"a\xff")), [output("[97,255]")]);
        assert!(state.output(Stdout, b"\xc3").is_empty());
        let after = lines(&state.warning(b"careful"));
        assert_eq!(after, [output("[195]"), r#"{"version":1,"event":"warning","text":"careful"}"#.to_owned()]);
    }

    #[test]
    fn line_contains_its_entity() {
        let mut state = JsonState::default();
        state.set_entity(Some("x:y".into()));
        let error = lines(&state.error(b"no"));
        assert_eq!(error, [r#"{"version":1,"event":"error","id":"x:y","text":"no"}"#]);
        state.output(Stderr, b"\xc3");
        let rest = state.set_entity(None);
        assert_eq!(lines(&rest), [r#"{"version":1,"event":"output","id":"x:y","stream":"stderr","text":[195]}"#]);
        assert_eq!(lines(&state.warning(b"hm")), [r#"{"version":1,"event":"warning","text":"hm"}"#]);
    }

    #[test]
    fn summary_contains_the_fatal_error() {
        let mut state = JsonState::default();
        state.error(b"no lock");
        let summary =
            |state: &mut JsonState, code, error: Option<&FatalError>| lines(&state.summary(code, error)).remove(0);
        assert_eq!(
            summary(&mut state, 255, Some(&FatalError::Reported)),
            r#"{"version":1,"event":"summary","exit_code":255,"error":"no lock"}"#
        );
        assert_eq!(
            summary(&mut state, 130, Some(&FatalError::CouldNotRun("signal".into()))),
            r#"{"version":1,"event":"summary","exit_code":130,"error":"signal"}"#
        );
        state.begin_tally();
        state.count(Outcome::Failed);
        let tally = r#"{"unchanged":0,"changed":0,"pending":0,"refused":0,"skipped":0,"failed":1}"#;
        assert_eq!(
            summary(&mut state, 1, None),
            format!(r#"{{"version":1,"event":"summary","tally":{tally},"exit_code":1}}"#)
        );
    }

    #[test]
    fn tally_is_formatted_as_a_sentence() {
        assert_eq!(Tally::default().to_string(), "0 entities");
        assert_eq!(Tally { changed: 1, ..Tally::default() }.to_string(), "1 entity: 1 changed");
        let tally = Tally { changed: 3, unchanged: 11, failed: 1, ..Tally::default() };
        assert_eq!(tally.to_string(), "15 entities: 3 changed, 11 unchanged, 1 failed");
    }
}

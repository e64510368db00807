//! The same events as JSON Lines, for programs.

use super::line::{Action, Asset, Edges, Information, Line, Outcome, Refusal, Stream, Tally, Text};
use super::{Console, End, Event, Reporter};
use crate::entity::Entity;
use bstr::{BStr, BString};
use holo_protocol::{Message, session};
use std::mem;

/// Shows an apply as [`Line`]s, on a console that [speaks](Console::speak_json) them.
pub struct Json<'a> {
    console: &'a mut Console,
    /// What was said of the entity at work, for its end.
    said: Said,
}

/// What is said of an entity beside its output.
#[derive(Default)]
struct Said {
    messages: Vec<Message>,
    reason: Option<String>,
}

impl<'a> Json<'a> {
    /// Shows what is done on this console.
    pub fn new(console: &'a mut Console) -> Json<'a> {
        console.begin_tally();
        Json { console, said: Said::default() }
    }

    fn end(&mut self, entity: &Entity, outcome: Outcome) {
        let Said { messages, reason } = mem::take(&mut self.said);
        let texts = |text: fn(&Message) -> Option<&BString>| messages.iter().filter_map(text).map(Text::from).collect();
        let condition = messages.iter().find_map(|message| match message {
            Message::Skipped(reason) if outcome == Outcome::Skipped => Some(reason),
            _ => None,
        });
        let line = Line::End {
            id: entity.id().into(),
            result: outcome,
            changed: texts(|message| match message {
                Message::Changed(text) | Message::ChangedQuietly(text) => Some(text),
                _ => None,
            }),
            would_change: texts(|message| if let Message::WouldChange(text) = message { Some(text) } else { None }),
            refused: messages.iter().filter_map(refusal).collect(),
            sent: texts(|message| if let Message::Send(value) = message { Some(value) } else { None }),
            unknown: messages.contains(&Message::Unknown),
            reason: reason.as_ref().map(Text::from).or(condition.map(Text::from)),
        };
        self.console.end_entity(outcome, &line);
    }
}

impl Reporter for Json<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begin(entity) => {
                self.console.turn_to(Some(entity.id().into()));
                self.console.line(&Line::Begin { id: entity.id().into(), action: action(&entity.report().action) });
            }
            Event::Output(stream, bytes) => self.console.write(stream, bytes),
            Event::Belated(stream, bytes) => {
                let at_work = self.console.turn_to(None);
                self.console.write(stream, bytes);
                self.console.turn_to(at_work);
            }
            // It is for those who wait and look.
            Event::Message(Message::Progress(_)) | Event::Waiting(..) => {}
            Event::Message(message) => self.said.messages.push(message.clone()),
            Event::Diff(diff) => self.console.raw_diff(diff),
            Event::Warning(text) => self.console.warning(text),
            Event::Error(text) => self.console.error(text),
            Event::Skipped(reason) => self.said.reason = Some(reason.to_owned()),
            Event::Failed(reason) => self.said.reason = reason.map(str::to_owned),
            Event::Refresh(entity) => self.console.line(&Line::Refresh { id: entity.id().into() }),
            Event::End(entity, end) => self.end(entity, end.into()),
        }
        self.console.flush();
    }
}

/// Shows an entity as `scan --json` does.
pub fn entity_line(console: &mut Console, entity: &Entity, plugin: &str) {
    let report = &entity.report();
    let information = &report.information;
    console.line(&Line::Entity {
        id: entity.id().into(),
        plugin,
        action: action(&report.action),
        sources: report.sources.iter().map(Text::from).collect(),
        information: information
            .iter()
            .map(|line| Information { key: (&line.key).into(), value: (&line.value).into() })
            .collect(),
        edges: Box::new(Edges::from(&report.edges)),
    });
}

/// Shows a selector as `selectors --json` does.
pub fn selector_line(console: &mut Console, selector: &BStr) {
    console.line(&Line::Selector { selector: selector.into() });
}

fn action(action: &holo_protocol::Action) -> Action<'_> {
    Action { verb: (&action.verb).into(), reason: action.reason.as_ref().map(Text::from) }
}

fn refusal(message: &Message) -> Option<Refusal<'_>> {
    match message {
        Message::RequiresForceToOverwrite => Some(Refusal::Overwrite),
        Message::RequiresForceToRestore => Some(Refusal::Restore),
        Message::RequiresForce(reason) => Some(Refusal::Other { reason: reason.into() }),
        _ => None,
    }
}

impl<'a> From<&'a holo_protocol::Edges> for Edges<'a> {
    fn from(edges: &'a holo_protocol::Edges) -> Self {
        let texts = |list: &'a [BString]| list.iter().map(Text::from).collect();
        let assets = |list: &'a [holo_protocol::Asset]| {
            list.iter().map(|asset| Asset { kind: (&asset.kind).into(), value: (&asset.value).into() }).collect()
        };
        Edges {
            after: texts(&edges.after),
            before: texts(&edges.before),
            requires: texts(&edges.requires),
            subscribes: texts(&edges.subscribes),
            notifies: texts(&edges.notifies),
            provides: assets(&edges.provides),
            needs: assets(&edges.needs),
            owns: assets(&edges.owns),
            watch: texts(&edges.watch),
            orphan: edges.orphan,
        }
    }
}

impl From<End> for Outcome {
    fn from(end: End) -> Self {
        match end {
            End::Unchanged => Outcome::Unchanged,
            End::Changed => Outcome::Changed,
            End::Pending => Outcome::Pending,
            End::Refused => Outcome::Refused,
            End::LeftOut | End::Skipped => Outcome::Skipped,
            End::Failed => Outcome::Failed,
        }
    }
}

impl From<session::Stream> for Stream {
    fn from(stream: session::Stream) -> Self {
        match stream {
            session::Stream::Stdout => Stream::Stdout,
            session::Stream::Stderr => Stream::Stderr,
        }
    }
}

/// What a console that speaks JSON has to remember: each method gives what is to be written.
#[derive(Clone, Default)]
pub(super) struct Memory {
    /// The entity at work.
    entity: Option<BString>,
    /// The beginning of a character at the end of what was printed last on stdout and stderr: characters arrive in pieces.
    unfinished: [Vec<u8>; 2],
    last_error: Option<BString>,
    tally: Option<Tally>,
}

impl Memory {
    pub(super) fn begin_tally(&mut self) {
        self.tally = Some(Tally::default());
    }

    pub(super) fn count(&mut self, outcome: Outcome) {
        if let Some(tally) = &mut self.tally {
            tally.count(outcome);
        }
    }

    /// Turns to an entity, or away from all; the one before.
    pub(super) fn turn_to(&mut self, entity: Option<BString>) -> (Option<BString>, Vec<u8>) {
        let rest = self.finish();
        (mem::replace(&mut self.entity, entity), rest)
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
            Some(id) if !text.is_empty() => [rest, Line::Diff { id: id.into(), text: text.into() }.to_bytes()].concat(),
            _ => rest,
        }
    }

    pub(super) fn output(&mut self, stream: session::Stream, bytes: &[u8]) -> Vec<u8> {
        let unfinished = &mut self.unfinished[stream as usize];
        unfinished.extend_from_slice(bytes);
        let rest = unfinished.split_off(unfinished.len() - beginning_of_character(unfinished));
        let whole = mem::replace(unfinished, rest);
        self.output_line(stream, &whole)
    }

    /// The last line.
    pub(super) fn summary(&mut self, exit_code: u8, broken_off: Option<&str>) -> Vec<u8> {
        let rest = self.finish();
        let told = |text: &'_ str| if text.is_empty() { self.last_error.clone() } else { Some(text.into()) };
        let error: Option<BString> = broken_off.and_then(told);
        [rest, Line::Summary { tally: self.tally, exit_code, error: error.as_ref().map(Text::from) }.to_bytes()]
            .concat()
    }

    /// What is left of characters that do not become whole any more.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let [stdout, stderr] = mem::take(&mut self.unfinished);
        [self.output_line(session::Stream::Stdout, &stdout), self.output_line(session::Stream::Stderr, &stderr)]
            .concat()
    }

    fn output_line(&self, stream: session::Stream, text: &[u8]) -> Vec<u8> {
        if text.is_empty() {
            return Vec::new();
        }
        Line::Output { id: self.id(), stream: stream.into(), text: text.into() }.to_bytes()
    }

    fn id(&self) -> Option<Text<'_>> {
        self.entity.as_ref().map(Text::from)
    }
}

/// How many bytes at the end begin a character that more bytes may finish.
fn beginning_of_character(text: &[u8]) -> usize {
    let last = text.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let may_go_on = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
    if may_go_on { last.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::Stream::{Stderr, Stdout};

    fn lines(bytes: &[u8]) -> Vec<String> {
        String::from_utf8(bytes.to_vec()).unwrap().lines().map(str::to_owned).collect()
    }

    fn output(text: &str) -> String {
        format!(r#"{{"version":1,"event":"output","stream":"stdout","text":{text}}}"#)
    }

    #[test]
    fn characters_are_put_together_again() {
        let mut memory = Memory::default();
        assert_eq!(lines(&memory.output(Stdout, b"caf\xc3")), [output("\"caf\"")]);
        assert_eq!(lines(&memory.output(Stdout, b"\xa9\xe2\x82")), [output("\"\u{e9}\"")]);
        assert_eq!(lines(&memory.output(Stdout, b"\xac")), [output("\"\u{20ac}\"")]);
        assert!(memory.finish().is_empty());
    }

    #[test]
    fn what_is_no_character_is_shown_as_bytes() {
        let mut memory = Memory::default();
        assert_eq!(lines(&memory.output(Stdout, b"a\xff")), [output("[97,255]")]);
        assert!(memory.output(Stdout, b"\xc3").is_empty());
        let after = lines(&memory.warning(b"careful"));
        assert_eq!(after, [output("[195]"), r#"{"version":1,"event":"warning","text":"careful"}"#.to_owned()]);
    }

    #[test]
    fn a_line_says_whom_it_is_about() {
        let mut memory = Memory::default();
        memory.turn_to(Some("x:y".into()));
        let error = lines(&memory.error(b"no"));
        assert_eq!(error, [r#"{"version":1,"event":"error","id":"x:y","text":"no"}"#]);
        memory.output(Stderr, b"\xc3");
        let (before, rest) = memory.turn_to(None);
        assert_eq!(before, Some("x:y".into()));
        assert_eq!(lines(&rest), [r#"{"version":1,"event":"output","id":"x:y","stream":"stderr","text":[195]}"#]);
        assert_eq!(lines(&memory.warning(b"hm")), [r#"{"version":1,"event":"warning","text":"hm"}"#]);
    }

    #[test]
    fn the_summary_says_why_a_run_ended_before_its_time() {
        let mut memory = Memory::default();
        memory.error(b"no lock");
        let summary = |memory: &mut Memory, code, error| lines(&memory.summary(code, error)).remove(0);
        assert_eq!(
            summary(&mut memory, 255, Some("")),
            r#"{"version":1,"event":"summary","exit_code":255,"error":"no lock"}"#
        );
        assert_eq!(
            summary(&mut memory, 130, Some("signal")),
            r#"{"version":1,"event":"summary","exit_code":130,"error":"signal"}"#
        );
        memory.begin_tally();
        memory.count(Outcome::Failed);
        let tally = r#"{"unchanged":0,"changed":0,"pending":0,"refused":0,"skipped":0,"failed":1}"#;
        assert_eq!(
            summary(&mut memory, 1, None),
            format!(r#"{{"version":1,"event":"summary","tally":{tally},"exit_code":1}}"#)
        );
    }

    #[test]
    fn a_tally_is_a_sentence() {
        assert_eq!(Tally::default().to_string(), "0 entities");
        assert_eq!(Tally { changed: 1, ..Tally::default() }.to_string(), "1 entity: 1 changed");
        let tally = Tally { changed: 3, unchanged: 11, failed: 1, ..Tally::default() };
        assert_eq!(tally.to_string(), "15 entities: 3 changed, 11 unchanged, 1 failed");
    }
}

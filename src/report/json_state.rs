//! The state of the JSON Lines of a run.

use crate::preview::Difference;
use crate::run_id::RunId;
use bstr::{BStr, BString};
use holo_events::{self as line, Line, Outcome, Tally, Text};
use holo_protocol::session;
use jiff::{Timestamp, Unit};
use std::mem;
use std::time::Instant;

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

    /// Sets the current entity, or none.
    pub(super) fn set_entity(&mut self, entity: Option<&BStr>) -> Vec<u8> {
        let rest = self.finish();
        self.entity = entity.map(BStr::to_owned);
        rest
    }

    /// Takes output that belongs to no entity, possibly while another one is current.
    pub(super) fn output_of_nobody(&mut self, stream: session::Stream, bytes: &[u8]) -> Vec<u8> {
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

    pub(super) fn output(&mut self, stream: session::Stream, bytes: &[u8]) -> Vec<u8> {
        let [stdout, stderr] = &mut self.unfinished;
        let unfinished = match stream {
            session::Stream::Stdout => stdout,
            session::Stream::Stderr => stderr,
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
    pub(super) fn summary(&mut self, exit_code: u8, broken_off: Option<&str>) -> Vec<u8> {
        let rest = self.finish();
        let told = |text: &'_ str| if text.is_empty() { self.last_error.clone() } else { Some(text.into()) };
        let error: Option<BString> = broken_off.and_then(told);
        let run = self.run.as_ref();
        let line = Line::Summary {
            run: run.map(|run| run.id.as_str().into()),
            time: run.map(|run| run.time.to_string()),
            duration: run.map(|run| line::seconds(run.begun.elapsed())),
            tally: self.tally,
            refreshes_due: self.refreshes_due,
            generation: self.generation,
            exit_code,
            error: error.as_ref().map(Text::from),
        };
        [rest, line.to_bytes()].concat()
    }

    /// Returns incomplete characters that remained incomplete.
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

/// Returns the length of an incomplete UTF-8 character at the end.
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
        let summary = |state: &mut JsonState, code, error| lines(&state.summary(code, error)).remove(0);
        assert_eq!(
            summary(&mut state, 255, Some("")),
            r#"{"version":1,"event":"summary","exit_code":255,"error":"no lock"}"#
        );
        assert_eq!(
            summary(&mut state, 130, Some("signal")),
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

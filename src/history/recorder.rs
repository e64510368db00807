//! A reporter that records the events of an apply.

mod draft;
mod who;

use super::journal::Journal;
use super::process::ProcessMark;
use super::record::{Began, Counts, Ended, EntityRecord, LastRun, RunResult, VERSION, to_json};
use super::writer::Writer;
use crate::error::FatalError;
use crate::report::{Event, RemarkKind, Remarks, Reporter, Severity};
use crate::retention::Retention;
use crate::root::Root;
use crate::run_id::RunId;
use crate::settings::Settings;
use bstr::BString;
use draft::Draft;
use holo_events::Tally;
use holo_protocol::Text;
use holo_state::{Database, StateError};
use jiff::{Timestamp, Unit};
use std::os::unix::ffi::OsStringExt;
use std::rc::Rc;
use std::time::Instant;

/// Forwards the events of a run, and records its work.
pub struct Recorder<'a> {
    reporter: &'a mut dyn Reporter,
    root: Root,
    database: Rc<Database>,
    /// Whether history is enabled.
    observes: bool,
    began: Began,
    /// The time at which the run began, on the monotonic clock.
    start: Instant,
    state: State,
    /// The messages so far about the current entity.
    draft: Draft,
    counts: Counts,
    journal: Journal,
    /// The last error that was reported.
    last_error: Option<BString>,
}

/// The stage of a run's records.
enum State {
    /// Work on entities has not begun.
    Idle,
    /// No entity has been recorded yet.
    Begun(Writer),
    /// An entity has been recorded.
    Writing(Writer),
    /// Recording is disabled, or has failed.
    Off,
}

impl<'a> Recorder<'a> {
    /// Returns a recorder for a run that begins now.
    pub fn new(settings: &Settings, database: &Rc<Database>, reporter: &'a mut dyn Reporter) -> Recorder<'a> {
        let command = settings.command_line.iter().map(|word| Text::from(word.clone().into_vec())).collect();
        let began = Began {
            version: VERSION,
            run: settings.run.clone(),
            time: now(),
            holo: env!("CARGO_PKG_VERSION").to_owned(),
            command,
            who: who::who(settings),
            process: ProcessMark::own(),
        };
        Recorder {
            reporter,
            root: settings.root.clone(),
            database: Rc::clone(database),
            observes: settings.keeps_history,
            began,
            start: Instant::now(),
            state: if settings.keeps_history { State::Idle } else { State::Off },
            draft: Draft::default(),
            counts: Counts::default(),
            journal: Journal::new(settings),
            last_error: None,
        }
    }

    /// Records the end of the run.
    pub fn finish(mut self, done: &Result<Tally, FatalError>, exit_code: u8) {
        let result = match done {
            Ok(tally) if tally.has_failed() => RunResult::Failed,
            Ok(_) => self.counts.result(),
            Err(FatalError::Interrupted { .. } | FatalError::TimeIsOver { .. }) => RunResult::Interrupted,
            Err(_) => RunResult::Failed,
        };
        let error = done.as_ref().err().and_then(|fatal| self.error(fatal));
        let duration = self.start.elapsed();
        let run = self.began.run.clone();
        let ended = Ended {
            run: run.clone(),
            time: now(),
            result,
            duration: Some(duration),
            exit_code: Some(exit_code),
            counts: self.counts,
            error,
        };
        let written = match std::mem::replace(&mut self.state, State::Off) {
            State::Off => Ok(()),
            // Errors are ignored: a user who may not write the record has been told about a more serious problem.
            State::Idle => self.database.add_run(run.as_str(), &to_json(&self.began), &to_json(&ended)).or(Ok(())),
            State::Begun(writer) if result == RunResult::Unchanged => {
                let last = LastRun { version: VERSION, run, time: self.began.time, duration, counts: self.counts };
                writer.end_unchanged(&last)
            }
            State::Begun(writer) | State::Writing(writer) => {
                let (retention, mistake) = Retention::read(&self.root);
                mistake.iter().for_each(|mistake| self.reporter.warning(mistake.to_string()));
                writer.end(&ended, &retention.runs)
            }
        };
        self.check(written);
        self.journal.finish();
    }

    /// Returns the reason for which the run ended early.
    fn error(&self, fatal: &FatalError) -> Option<Text> {
        let text = fatal.to_string();
        if text.is_empty() { self.last_error.clone().map(Text::from) } else { Some(text.into()) }
    }

    fn observe(&mut self, event: &Event<'_>) {
        match event {
            Event::WorkBegins => self.begin(),
            Event::Begin(_) => self.draft.clear(),
            Event::Refresh(_, sources) => self.draft.refreshed_by = sources.iter().cloned().map(Text).collect(),
            Event::Message(message) => self.draft.message(message),
            Event::Failed(reason) => self.draft.reason = reason.map(Text::from),
            Event::Skipped(reason) => self.draft.reason = Some((*reason).into()),
            Event::Preview { difference, .. } => self.draft.difference(difference),
            Event::Remark(remark) => {
                self.hold(false);
                match remark.kind {
                    RemarkKind::Output(stream) => self.draft.output(stream, &remark.text),
                    RemarkKind::Own(Severity::Error) => self.last_error = Some(remark.text.clone().into_owned()),
                    _ => {}
                }
            }
            Event::UnknownSelector(selector) => {
                self.last_error = Some(format!("Unrecognized argument: {selector}").into());
            }
            Event::Burst { is_over } => self.hold(!is_over),
            Event::Waiting(..) => {
                let synced = match &mut self.state {
                    State::Writing(writer) => writer.sync_now_and_then(),
                    _ => Ok(()),
                };
                self.check(synced);
            }
            Event::End(entity, end, duration) => {
                let result = RunResult::from(*end);
                self.counts.count(result);
                if result != RunResult::Unchanged || !self.draft.refreshed_by.is_empty() {
                    let mut draft = std::mem::take(&mut self.draft);
                    if result == RunResult::Changed {
                        draft.compare(&self.root);
                    }
                    let record = draft.finish(&self.began.run, entity, result, *duration);
                    self.journal.tell(&record);
                    self.write(&record);
                }
            }
            _ => {}
        }
    }

    /// Buffers records while more follow immediately. They are written before any of these events is shown.
    fn hold(&mut self, holds: bool) {
        let held = match &mut self.state {
            State::Begun(writer) | State::Writing(writer) => writer.hold(holds),
            State::Idle | State::Off => Ok(()),
        };
        self.check(held);
    }

    /// Records the beginning of the run, before any change.
    fn begin(&mut self) {
        if matches!(self.state, State::Idle) {
            match Writer::begin(&self.database, &self.began) {
                Ok(writer) => self.state = State::Begun(writer),
                Err(error) => self.check(Err(error)),
            }
        }
    }

    fn write(&mut self, record: &EntityRecord) {
        let mut writer = match std::mem::replace(&mut self.state, State::Off) {
            State::Begun(writer) | State::Writing(writer) => writer,
            other => {
                self.state = other;
                return;
            }
        };
        let written = writer.append(record);
        if written.is_ok() {
            self.state = State::Writing(writer);
        }
        self.check(written);
    }

    /// Warns once that the run is not recorded. The work continues.
    fn check(&mut self, written: Result<(), StateError>) {
        if let Err(error) = written {
            self.state = State::Off;
            self.reporter.warning(format!("Not keeping a record of this run: {error}"));
            self.reporter.end_paragraph();
        }
    }
}

impl Reporter for Recorder<'_> {
    fn event(&mut self, event: Event<'_>) {
        // Messages are recorded before others can act on them.
        if self.observes {
            self.observe(&event);
        }
        self.reporter.event(event);
    }

    fn is_read(&self) -> bool {
        self.reporter.is_read()
    }
}

impl<'a> Recorder<'a> {
    /// Returns the ID of the run.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.began.run
    }
}

/// Returns the current time, rounded to milliseconds.
fn now() -> Timestamp {
    let now = Timestamp::now();
    now.round(Unit::Millisecond).unwrap_or(now)
}

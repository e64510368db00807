//! A reporter that records the events of an apply.

use super::journal::Journal;
use super::record::{
    Began, Counts, DiffRecord, Ended, EntityRecord, LastRun, ProcessMark, RefusalRecord, RunResult, VERSION, Who, now,
    to_json,
};
use super::store::{Writer, retain_edited};
use crate::diff::preview::{self, Difference};
use crate::entities::Entity;
use crate::error::FatalError;
use crate::host::engine::EngineSettings;
use crate::host::root::Root;
use crate::host::settings::{RunId, Settings};
use crate::report::{Event, RemarkKind, Remarks, Reporter, Severity};
use bstr::{BString, ByteSlice};
use holo_events::Tally;
use holo_protocol::session::Stream;
use holo_protocol::{Message, Replaced, Text};
use holo_state::{Database, StateError};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

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
    /// Whether anything was remarked.
    has_remarked: bool,
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
            who: who(settings),
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
            has_remarked: false,
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
                let (settings, mistake) = EngineSettings::read(&self.root);
                mistake.iter().for_each(|mistake| self.reporter.warning(mistake.to_string()));
                let ended = writer.end(&ended, &settings.runs);
                if let Err(error) = retain_edited(&self.root, &settings.runs) {
                    self.reporter.warning(error.to_string());
                }
                ended
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
            Event::WorkBegins { .. } => self.begin(),
            Event::Settled(number) => self.counts.unchanged += number,
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
            Event::Undone(end) => self.counts.uncount(RunResult::from(*end)),
            Event::End(entity, end, duration) => {
                let result = RunResult::from(*end);
                self.counts.count(result);
                if result != RunResult::Unchanged || !self.draft.refreshed_by.is_empty() {
                    let mut draft = std::mem::take(&mut self.draft);
                    // What has failed may have changed files before.
                    if matches!(result, RunResult::Changed | RunResult::Failed) {
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
        if let Event::Remark(remark) = &event {
            self.has_remarked |= remark.kind != RemarkKind::ParagraphEnd;
        }
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
    /// Returns true if anything was remarked, for example a warning.
    #[must_use]
    pub fn has_remarked(&self) -> bool {
        self.has_remarked
    }

    /// Returns the ID of the run.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.began.run
    }
}

/// The maximum size of a recorded difference, in bytes.
const MAX_DIFF: usize = 64 << 10;
/// The maximum size, in bytes, of recorded output about a failed entity.
const MAX_OUTPUT: usize = 4 << 10;

/// The messages so far about the current entity.
#[derive(Debug, Default)]
struct Draft {
    refreshed_by: Vec<Text>,
    reason: Option<Text>,
    changes: Vec<Text>,
    refused: Vec<RefusalRecord>,
    diffs: Vec<DiffRecord>,
    /// The replaced files, as `COPY PATH`, or `FROM TAB TO TAB NAME` for an object that is not a file.
    replaced: Vec<BString>,
    /// The end of the output to stderr.
    output: BString,
}

impl Draft {
    /// Clears the messages about the previous entity, which are almost always empty already.
    fn clear(&mut self) {
        *self = Draft::default();
    }

    fn message(&mut self, message: &Message) {
        match message {
            Message::Changed(text) | Message::ChangedQuietly(text) => self.changes.push(text.clone().into()),
            Message::Replaced(text) => self.replaced.push(text.clone()),
            Message::RequiresForceToOverwrite => self.refused.push(RefusalRecord::Overwrite),
            Message::RequiresForceToRestore => self.refused.push(RefusalRecord::Restore),
            Message::RequiresForce(reason) => {
                self.refused.push(RefusalRecord::Other { reason: reason.clone().into() });
            }
            Message::Deferred(_) => self.reason = Some(message.to_line().into()),
            _ => {}
        }
    }

    fn output(&mut self, stream: Stream, text: &[u8]) {
        if matches!(stream, Stream::Stderr) {
            self.output.extend_from_slice(text);
            let more = self.output.len().saturating_sub(MAX_OUTPUT);
            self.output.drain(..more);
        }
    }

    fn difference(&mut self, difference: &Difference) {
        let Difference { from, to, text, is_binary } = difference;
        let kept = text.get(..MAX_DIFF.min(text.len())).unwrap_or_default();
        self.diffs.push(DiffRecord {
            from: from.clone().into(),
            to: to.clone().into(),
            text: kept.into(),
            binary: *is_binary,
            cut: text.len() - kept.len(),
        });
    }

    /// Computes the differences of replaced files, unless they have been shown.
    fn compare(&mut self, root: &Root) {
        let replaced = std::mem::take(&mut self.replaced);
        for text in replaced.iter().filter(|_| self.diffs.is_empty()).collect::<Vec<_>>() {
            let difference = match Replaced::parse(text) {
                Some(Replaced::Shown { from, to, name }) => preview::changed(&from, &to, name.as_bstr(), root),
                Some(Replaced::File { copy, path }) => preview::replaced(&copy, &path, root),
                None => None,
            };
            difference.iter().for_each(|difference| self.difference(difference));
        }
    }

    fn finish(self, run: &RunId, entity: &Entity, result: RunResult, duration: Duration) -> EntityRecord {
        let Draft { refreshed_by, reason, changes, refused, diffs, output, replaced: _ } = self;
        EntityRecord {
            run: run.clone(),
            id: entity.id().into(),
            plugin: entity.plugin_id().to_owned(),
            time: now(),
            duration,
            result,
            changes,
            refused,
            reason,
            output: (result == RunResult::Failed && !output.is_empty()).then(|| output.into()),
            refreshed_by,
            diffs,
        }
    }
}

/// The login user ID of a process without a login session.
const NOBODY: u32 = u32::MAX;

fn who(settings: &Settings) -> Who {
    let text = |text: &OsString| Text::from(text.clone().into_vec());
    let login_uid = fs::read_to_string("/proc/self/loginuid").ok();
    Who {
        uid: rustix::process::getuid().as_raw(),
        sudo_user: settings.sudo_user.as_ref().map(text),
        login_uid: login_uid.and_then(|uid| uid.trim().parse().ok()).filter(|&uid| uid != NOBODY),
        terminal: terminal().map(|path| path.into_os_string().into_vec().into()),
        trigger: settings.trigger.as_ref().map(text),
    }
}

/// Returns the terminal that a standard stream is connected to.
fn terminal() -> Option<PathBuf> {
    let mut streams = (0..3).filter_map(|stream| fs::read_link(format!("/proc/self/fd/{stream}")).ok());
    let names = [Path::new("/dev/pts"), Path::new("/dev/console")];
    let is_tty =
        |path: &Path| path.parent() == Some(Path::new("/dev")) && path.as_os_str().as_bytes().starts_with(b"/dev/tty");
    streams.find(|path| names.iter().any(|name| path.starts_with(name)) || is_tty(path))
}

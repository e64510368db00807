//! A task as an entity.

use crate::answer::{Answer, End};
use crate::definition::PythonTable;
use crate::difference;
use crate::module::ModuleName;
use crate::record::Record;
use crate::runner::{Job, RunError, Runner};
use holo_bridge::{Attributes, DigestStore, NO_DEFINITION, Sensitive, digest, limits, shown, text};
use holo_change::base_store::Remembered;
use holo_plugin::{Action, Applied, Asset, Entity, EntityReport, FilePair, Host, Mode, Output, Sink, Stream, Verdict};
use std::sync::Arc;
use std::time::Duration;

/// State shared by all tasks.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) runner: Runner,
    mocks: DigestStore,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared { runner: Runner::default(), mocks: DigestStore::for_mocks() }
    }
}

/// A task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) module: ModuleName,
    pub(crate) args: Attributes,
    pub(crate) sensitive: Sensitive,
    pub(crate) timeout: Option<Duration>,
    pub(crate) table: Arc<PythonTable>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) origin: Origin,
}

/// The origin of a task.
#[derive(Debug)]
pub(crate) enum Origin {
    Defined(Box<Defined>),
    /// An orphan, with the arguments that undo it.
    Orphan(Box<Remembered<Record>>),
}

/// The properties of a defined task.
#[derive(Debug)]
pub(crate) struct Defined {
    /// The file and line that name the module.
    pub(crate) location: String,
    pub(crate) check_mode: bool,
    pub(crate) send: Vec<String>,
    /// How to undo it.
    pub(crate) record: Option<Record>,
    /// The existing record of how to undo it.
    pub(crate) kept: Option<Remembered<Record>>,
    /// The report, including the common keys.
    pub(crate) full_report: EntityReport,
}

/// The purpose of running a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Apply,
    Check,
    Diff,
}

impl Entity for Task {
    fn report(&self) -> EntityReport {
        let mut report = match &self.origin {
            Origin::Defined(_) => EntityReport::new(self.id.as_str()),
            Origin::Orphan(remembered) => remembered.orphan_report(),
        };
        if let Origin::Orphan(_) = &self.origin {
            report.action = Action::because("Scrubbing", NO_DEFINITION);
        }
        report.inform("module", self.module.to_string());
        shown::inform(&mut report, &self.args, &self.sensitive);
        self.add_needs(&mut report);
        report
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        if self.is_mocked(host) {
            return self.mock(host, output);
        }
        let answer = match self.run(host, Purpose::Apply, mode, output) {
            Ok(answer) => answer,
            Err(error) => return self.refuse(&error, output),
        };
        self.show(&answer, output);
        let applied = match &answer.end {
            End::Failed(reason) => {
                output.error(self.hide(reason));
                return Applied::FAILED;
            }
            End::Skipped(reason) => Applied::Skipped(self.hide(reason)),
            End::Changed(change) => {
                self.look_again(host, mode, output);
                self.send(&answer, output);
                Applied::Changed(vec![self.hide(change)])
            }
            End::Unchanged => Applied::Unchanged,
        };
        self.finish(host, applied, output)
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        if self.is_mocked(host) {
            return self.check_mock(host, output);
        }
        if !self.can_check() {
            return Verdict::Unknown;
        }
        let answer = match self.run(host, Purpose::Check, mode, output) {
            Ok(answer) => answer,
            Err(error) => {
                self.refuse(&error, output);
                return Verdict::Failed;
            }
        };
        self.show(&answer, output);
        match &answer.end {
            End::Failed(reason) => {
                output.error(self.hide(reason));
                Verdict::Failed
            }
            End::Skipped(_) => Verdict::Unknown,
            End::Changed(change) => Verdict::WouldChange(vec![self.hide(change)]),
            End::Unchanged => Verdict::InDesiredState,
        }
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        if self.is_mocked(host) || !self.can_check() {
            return None;
        }
        // Output is discarded here, as a check shows it.
        let answer = self.run(host, Purpose::Diff, Mode::default(), &mut Output::new(&mut Unheard)).ok()?;
        let (before, after) = answer.difference()?;
        difference::write(host, &self.id, &self.hide(&after), &self.hide(&before)).ok()
    }
}

impl Task {
    fn run(&self, host: &Host, purpose: Purpose, mode: Mode<'_>, output: &mut Output<'_>) -> Result<Answer, RunError> {
        let job = Job {
            module: &self.module,
            args: &self.args,
            sensitive: &self.sensitive,
            timeout: limits::work(self.timeout),
            check: purpose != Purpose::Apply,
            diff: purpose == Purpose::Diff,
            mode,
        };
        self.shared.runner.run(host, &self.table, job, output)
    }

    /// Returns true if the module supports check mode.
    fn can_check(&self) -> bool {
        match &self.origin {
            Origin::Defined(defined) => defined.check_mode,
            Origin::Orphan(_) => true,
        }
    }

    fn hide(&self, text: &str) -> String {
        self.sensitive.hide(text).into_owned()
    }

    /// Reports why the module was not run to completion.
    fn refuse(&self, error: &RunError, output: &mut Output<'_>) -> Applied {
        if let RunError::NoPython { reason } = error {
            output.warning(self.hide(reason));
        }
        match (error, &self.origin) {
            (RunError::Library(_), Origin::Defined(defined)) => {
                output.error(format!("{}: {}: {error}", defined.location, self.id));
            }
            _ => output.error(self.hide(&error.to_string())),
        }
        if matches!(error, RunError::Fault(_)) { Applied::FAILED } else { Applied::FAILED_UNCHANGED }
    }

    /// Shows an answer except for its result.
    fn show(&self, answer: &Answer, output: &mut Output<'_>) {
        // Without output, there is no line for the task.
        if !answer.printed.is_empty() {
            output.print(self.hide(&answer.printed));
        }
        for line in &answer.details {
            output.relay(Stream::Stderr, format!("{}\n", self.hide(line)).as_bytes());
        }
        answer.warnings.iter().for_each(|warning| output.warning(self.hide(warning)));
        answer.deprecations.iter().for_each(|text| output.warning(format!("deprecated: {}", self.hide(text))));
    }

    /// Runs the module in check mode, to report if it would make the same changes again.
    fn look_again(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) {
        if !self.can_check() {
            return;
        }
        let again = self.run(host, Purpose::Check, mode, &mut Output::new(&mut Unheard));
        if again.is_ok_and(|answer| matches!(answer.end, End::Changed(_))) {
            output.warning("the module would change it again");
        }
    }

    /// Sends the requested values of the answer to the entities that the change refreshes.
    fn send(&self, answer: &Answer, output: &mut Output<'_>) {
        let Origin::Defined(defined) = &self.origin else { return };
        for name in &defined.send {
            let Some(value) = answer.field(name) else { continue };
            match text(value).map(|text| output.send(name, self.hide(&text))) {
                Some(true) => {}
                Some(false) => output.warning(format!("{name} is too long to be sent, or more than a line")),
                None => output.warning(format!("{name} is a list or table, and is not sent")),
            }
        }
    }

    /// Saves how to undo the task, or removes the record of a task that was undone.
    fn finish(&self, host: &Host, applied: Applied, output: &mut Output<'_>) -> Applied {
        let finished = match &self.origin {
            Origin::Orphan(_) => Record::forget(host, &self.id),
            Origin::Defined(defined) => match (&defined.record, &defined.kept) {
                // A task that was skipped need not be undone.
                (Some(_), _) if matches!(applied, Applied::Skipped(_)) => Ok(()),
                (Some(record), kept) => record.keep(host, &defined.full_report, kept.as_ref()),
                (None, Some(_)) => Record::forget(host, &self.id),
                (None, None) => Ok(()),
            },
        };
        match finished {
            Ok(()) => applied,
            Err(reason) => {
                output.error(reason);
                if applied.may_have_changed() { Applied::FAILED } else { Applied::FAILED_UNCHANGED }
            }
        }
    }

    fn add_needs(&self, report: &mut EntityReport) {
        let python = self.table.python.words().first();
        let collections = self.table.collections.iter().filter(|_| self.module.collection().is_some());
        for path in python.into_iter().chain(collections).filter(|path| !path.contains(char::is_control)) {
            report.edges.needs.push(Asset::new("path", path.as_str()));
        }
    }

    /// Returns true if the module would change another system than the one below the root.
    fn is_mocked(&self, host: &Host) -> bool {
        host.test_mode() && !self.table.respects_root
    }

    fn digest(&self) -> String {
        digest(&(self.module.to_string(), &self.args))
    }

    fn mock(&self, host: &Host, output: &mut Output<'_>) -> Applied {
        let mocked = self.shared.mocks.is_known(host, &self.id, &self.digest()).and_then(|is_done| {
            let is_orphan = matches!(self.origin, Origin::Orphan(_));
            if is_done && !is_orphan {
                return Ok(Applied::Unchanged);
            }
            let line = shown::mock(&["task", &self.module.to_string()], &self.args, &self.sensitive);
            output.print(format!("{line}\n"));
            match is_orphan {
                true => self.shared.mocks.forget(host, &self.id)?,
                false => self.shared.mocks.note(host, &self.id, &self.digest())?,
            }
            Ok(Applied::Changed(Vec::new()))
        });
        match mocked {
            Ok(applied) => self.finish(host, applied, output),
            Err(reason) => {
                output.error(reason);
                Applied::FAILED
            }
        }
    }

    fn check_mock(&self, host: &Host, output: &mut Output<'_>) -> Verdict {
        match self.shared.mocks.is_known(host, &self.id, &self.digest()) {
            Ok(true) if matches!(self.origin, Origin::Defined(_)) => Verdict::InDesiredState,
            Ok(_) => Verdict::WouldChange(vec![format!("would run {}", self.module)]),
            Err(reason) => {
                output.error(reason);
                Verdict::Failed
            }
        }
    }
}

/// Discards output.
struct Unheard;

impl Sink for Unheard {
    fn write(&mut self, _: Stream, _: &[u8]) {}
}

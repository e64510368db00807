//! A task as an entity.

use crate::answer::{Answer, End};
use crate::definition::{Conditions, Options, PythonTable};
use crate::library::{EMULATED, ModuleName};
use crate::record::Record;
use crate::runner::{Job, LONGEST, RunError, Runner};
use holo_bridge::{Attributes, DigestStore, HIDDEN, NO_DEFINITION, Sensitive, digest, limits, shown};
use holo_change::base_store::Remembered;
use holo_change::error::PathError;
use holo_change::{OnDisk, Tree};
use holo_plugin::{Action, Applied, Asset, Entity, EntityReport, FilePair, Host, Mode, Output, Sink, Stream, Verdict};
use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    /// Once the module was run, also with the arguments that it declares as `no_log`, and those from expressions.
    pub(crate) sensitive: Mutex<Sensitive>,
    pub(crate) options: Options,
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
    pub(crate) refresh_only: bool,
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
    /// A check after an apply, whose answer is the one for later tasks.
    CheckAgain,
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
        if let Some(user) = &self.options.become_user {
            report.inform("as", user.as_str());
        }
        shown::inform(&mut report, &self.args, &self.sensitive());
        for (name, expression) in &self.options.expressions {
            let shown = match self.sensitive().hides(name) {
                true => format!("{name} = {HIDDEN}"),
                false => format!("{name} = {{{{ {expression} }}}}"),
            };
            report.inform("with", shown::one_line(&shown));
        }
        self.add_needs(&mut report);
        report
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        if self.waits_for_refresh(mode) {
            return Applied::Unchanged;
        }
        if self.is_mocked(host) {
            return self.mock(host, output);
        }
        let answer = match self.run(host, Purpose::Apply, mode, output) {
            Ok(answer) => answer,
            Err(error) => return self.refuse(&error, output),
        };
        self.show(host, &answer, output);
        let applied = match &answer.end {
            End::Failed(reason) if self.options.ignore_errors => {
                output.warning(format!("the failure is ignored: {}", self.cut(host, "reason", reason)));
                Applied::Unchanged
            }
            End::Failed(reason) => {
                output.error(self.cut(host, "reason", reason));
                return Applied::FAILED;
            }
            End::Skipped(reason) => Applied::Skipped(self.hide(reason)),
            End::Changed(change) => {
                self.look_again(host, mode, output);
                self.send(&answer, output);
                Applied::Changed(vec![self.hide(change)])
            }
            End::Unchanged => {
                if self.options.register.is_some() {
                    self.send(&answer, output);
                }
                Applied::Unchanged
            }
        };
        self.finish(host, applied, output)
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        if self.waits_for_refresh(mode) {
            return Verdict::InDesiredState;
        }
        if host.is_offline() {
            // Modules may examine the running system.
            return Verdict::Unknown;
        }
        if self.is_mocked(host) {
            return self.check_mock(host, output);
        }
        if self.never_changes() {
            return Verdict::InDesiredState;
        }
        if !self.can_check() {
            return Verdict::Unknown;
        }
        let answer = match self.run(host, Purpose::Check, mode, output) {
            Ok(answer) => answer,
            // An earlier task was not run, so there is no answer that the expressions could use.
            Err(RunError::Task(_)) if self.options.when.is_some() || !self.options.expressions.is_empty() => {
                return Verdict::Unknown;
            }
            Err(error) => {
                self.refuse(&error, output);
                return Verdict::Failed;
            }
        };
        self.show(host, &answer, output);
        match &answer.end {
            End::Failed(reason) if self.options.ignore_errors => {
                output.warning(format!("the failure is ignored: {}", self.cut(host, "reason", reason)));
                Verdict::InDesiredState
            }
            End::Failed(reason) => {
                output.error(self.cut(host, "reason", reason));
                Verdict::Failed
            }
            End::Skipped(_) => Verdict::Unknown,
            End::Changed(change) => Verdict::WouldChange(vec![self.hide(change)]),
            End::Unchanged => Verdict::InDesiredState,
        }
    }

    fn needs_running_system(&self) -> bool {
        true
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        if host.is_offline() || self.is_mocked(host) || !self.can_check() || self.waits_for_refresh(Mode::default()) {
            return None;
        }
        // Output is discarded here, as a check shows it.
        let answer = self.run(host, Purpose::Diff, Mode::default(), &mut Output::new(&mut Unheard)).ok()?;
        let (before, after) = answer.difference()?;
        write(host, &self.id, &self.hide(&after), &self.hide(&before)).ok()
    }
}

impl Task {
    fn run(&self, host: &Host, purpose: Purpose, mode: Mode<'_>, output: &mut Output<'_>) -> Result<Answer, RunError> {
        let send: &[String] = if let Origin::Defined(defined) = &self.origin { &defined.send } else { &[] };
        let sensitive = RefCell::new(self.sensitive().clone());
        let job = Job {
            id: &self.id,
            module: &self.module,
            args: &self.args,
            sensitive: &sensitive,
            options: &self.options,
            send,
            timeout: limits::work(self.timeout),
            check: purpose != Purpose::Apply,
            diff: purpose == Purpose::Diff,
            is_registered: purpose != Purpose::CheckAgain,
            mode,
        };
        let answer = self.shared.runner.run(host, &self.table, job, output);
        self.sensitive().unite(&sensitive.into_inner());
        answer
    }

    fn sensitive(&self) -> MutexGuard<'_, Sensitive> {
        self.sensitive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the task has nothing to do, as it is not refreshed.
    fn waits_for_refresh(&self, mode: Mode<'_>) -> bool {
        matches!(&self.origin, Origin::Defined(defined) if defined.refresh_only) && !mode.refresh
    }

    /// Returns true if the task only reads, according to its definition.
    fn never_changes(&self) -> bool {
        self.options.changed_when.as_ref().is_some_and(Conditions::is_never)
    }

    /// Returns true if the module supports check mode.
    fn can_check(&self) -> bool {
        match &self.origin {
            Origin::Defined(defined) => defined.check_mode,
            Origin::Orphan(_) => true,
        }
    }

    fn hide(&self, text: &str) -> String {
        self.sensitive().hide(text).into_owned()
    }

    /// Reports why the module was not run to completion.
    fn refuse(&self, error: &RunError, output: &mut Output<'_>) -> Applied {
        if let RunError::NoPython { reason } = error {
            output.warning(self.hide(reason));
        }
        match (error, &self.origin) {
            (RunError::Library(_) | RunError::Arguments(_), Origin::Defined(defined)) => {
                output.error(format!("{}: {}: {error}", defined.location, self.id));
            }
            _ => output.error(self.hide(&error.to_string())),
        }
        if matches!(error, RunError::Fault(_)) { Applied::FAILED } else { Applied::FAILED_UNCHANGED }
    }

    /// Shows an answer except for its result.
    fn show(&self, host: &Host, answer: &Answer, output: &mut Output<'_>) {
        // Without output, there is no line for the task.
        if !answer.printed.is_empty() {
            let shown = self.cut(host, "output", &answer.printed);
            output.print(if shown.ends_with('\n') { shown } else { format!("{shown}\n") });
        }
        if !answer.more_errors.is_empty() {
            let line = self.keep(host, "errors", &answer.more_errors, answer.more_errors.len());
            output.relay(Stream::Stderr, format!("{line}\n").as_bytes());
        }
        if !answer.details.is_empty() {
            let shown = self.cut(host, "details", &answer.details.join("\n"));
            output.relay(Stream::Stderr, format!("{shown}\n").as_bytes());
        }
        let deprecations = answer.deprecations.iter().map(|text| format!("deprecated: {text}"));
        for (number, text) in answer.warnings.iter().cloned().chain(deprecations).enumerate() {
            output.warning(self.cut(host, &format!("warning-{number}"), &text));
        }
    }

    /// Returns a text, or the beginning of one that is too long for a terminal. The whole is then in a file.
    fn cut(&self, host: &Host, kind: &str, text: &str) -> String {
        let text = self.hide(text);
        if text.len() <= LONGEST {
            return text;
        }
        let end = (0..=LONGEST).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
        format!("{}…\n{}", text.get(..end).unwrap_or_default(), self.keep(host, kind, &text, text.len() - end))
    }

    /// Saves a text to a file, and returns the line that names it and how much of the text was not shown.
    fn keep(&self, host: &Host, kind: &str, text: &str, more: usize) -> String {
        let name = format!("output/{}-{kind}.txt", digest(&self.id));
        let written = Tree::open(host.state_dir()).and_then(|state| {
            let place = state.place(Path::new(&name));
            place.create_folder()?;
            place.replace(text.as_bytes(), 0o600, OnDisk::Nothing)
        });
        let rest = match written {
            Ok(_) => format!("the rest is in {}", host.state_dir().join(name).display()),
            Err(error) => error.to_string(),
        };
        format!("{more} bytes more: {rest}")
    }

    /// Runs the module in check mode, to report if it would make the same changes again.
    fn look_again(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) {
        if !self.can_check() || self.module.as_builtin().is_some_and(|name| EMULATED.contains(&name)) {
            return;
        }
        let again = self.run(host, Purpose::CheckAgain, mode, &mut Output::new(&mut Unheard));
        if again.is_ok_and(|answer| matches!(answer.end, End::Changed(_))) {
            output.warning("the module would change it again");
        }
    }

    /// Sends the requested values of the answer to the entities that the change refreshes.
    fn send(&self, answer: &Answer, output: &mut Output<'_>) {
        for name in answer.fields.keys() {
            let Some(value) = answer.fields.get(name) else { continue };
            match value.as_ref().map(|text| output.send(name, self.hide(text))) {
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
            let line = shown::mock(&["task", &self.module.to_string()], &self.args, &self.sensitive());
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

/// Writes the desired and the actual state.
///
/// # Errors
/// If the files cannot be written.
pub(crate) fn write(host: &Host, id: &str, desired: &str, actual: &str) -> Result<FilePair, PathError> {
    let cache = Tree::open(host.cache_dir())?;
    let folder = Path::new("difference").join(digest(&id));
    let write = |name: &str, text: &str| {
        let place = cache.place(&folder.join(name));
        place.create_folder()?;
        let written = place.create()?.write_all(text.as_bytes());
        written.map(|()| place.shown()).map_err(|error| PathError::new("write", place.shown(), error))
    };
    let pair = FilePair::new(write("desired", desired)?, write("actual", actual)?);
    Ok(pair.with_applied_label(id).with_to_label(id.as_bytes()))
}

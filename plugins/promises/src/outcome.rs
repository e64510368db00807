//! The outcome of a promise: the meaning of a module's results for the entity.

use crate::answer::Answer;
use crate::module::{AskError, Module};
use crate::module_log::{Logs, ModuleLog, Phase};
use crate::names::{Subject, class_name};
use crate::request::Operation;
use holo_bridge::{DigestStore, Sensitive, limits};
use holo_plugin::{Applied, Host, Output, Verdict};
use std::time::Duration;

/// The ends of warnings in dry runs, which do not describe the change.
const ONLY_WARNINGS: [&str; 2] = [", but only warning promised", ", but only warnings promised"];

/// A promise in progress.
pub(crate) struct Task<'t> {
    pub(crate) host: &'t Host,
    pub(crate) module: &'t mut Module,
    pub(crate) subject: &'t Subject,
    pub(crate) sensitive: &'t Sensitive,
    pub(crate) timeout: Option<Duration>,
    pub(crate) id: &'t str,
    /// The file and line of the definition.
    pub(crate) location: &'t str,
    /// Modules that have changed the system in a dry run, with the digests of their files.
    pub(crate) distrusted: &'t DigestStore,
}

/// The result of a dry run.
enum DryRun {
    Kept,
    Would(Vec<String>),
    Unknown,
    Failed { has_changed: bool },
}

/// A module's support for dry runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Support {
    Full,
    None,
    /// The module declares support, but has changed the system in a dry run.
    Distrusted,
}

impl Task<'_> {
    /// Lets the module keep the promise.
    pub(crate) fn keep(&mut self, output: &mut Output<'_>) -> Applied {
        let subject = self.subject;
        if !self.is_valid(subject, output) {
            return Applied::FAILED_UNCHANGED;
        }
        let (answer, logs) = match self.evaluate(subject, Phase::Evaluating, output) {
            Ok(answered) => answered,
            Err(error) if error.is_unsent => return Applied::FAILED_UNCHANGED,
            Err(_) => return Applied::FAILED,
        };
        match answer.result.as_deref() {
            Some("kept") => {
                self.send(&answer, output);
                Applied::Unchanged
            }
            Some("repaired") => {
                self.send(&answer, output);
                Applied::Changed(if logs.infos.is_empty() { vec!["repaired".to_owned()] } else { logs.infos })
            }
            result => {
                self.report_failure(result, &logs, output);
                Applied::FAILED
            }
        }
    }

    /// Lets the module warn about a promise that must never change the system.
    pub(crate) fn warn_only(&mut self, output: &mut Output<'_>) -> Applied {
        match self.dry_run_support(output) {
            Some(Support::Full) => {}
            Some(Support::None) => {
                self.report_missing_action_policy(output);
                return Applied::FAILED_UNCHANGED;
            }
            Some(Support::Distrusted) => {
                self.report_distrust(output);
                return Applied::FAILED_UNCHANGED;
            }
            None => return Applied::FAILED_UNCHANGED,
        }
        match self.dry_run(output) {
            DryRun::Kept => return Applied::Unchanged,
            DryRun::Would(changes) => changes.iter().for_each(|change| output.warning(change)),
            DryRun::Unknown => {}
            DryRun::Failed { has_changed: true } => return Applied::FAILED,
            DryRun::Failed { has_changed: false } => return Applied::FAILED_UNCHANGED,
        }
        output.error("only warnings are promised");
        Applied::FAILED_UNCHANGED
    }

    /// Determines the changes that keeping the promise would make, as far as the module supports that.
    pub(crate) fn check(&mut self, warn_only: bool, output: &mut Output<'_>) -> Verdict {
        match self.dry_run_support(output) {
            Some(Support::Full) => match self.dry_run(output) {
                DryRun::Kept => Verdict::InDesiredState,
                DryRun::Would(changes) => Verdict::WouldChange(changes),
                DryRun::Unknown => Verdict::Unknown,
                DryRun::Failed { .. } => Verdict::Failed,
            },
            Some(Support::None) if warn_only => {
                self.report_missing_action_policy(output);
                Verdict::Failed
            }
            Some(_) if self.is_valid(self.subject, output) => Verdict::Unknown,
            Some(_) | None => Verdict::Failed,
        }
    }

    /// Returns the module's support for dry runs; `None` if it cannot be determined.
    fn dry_run_support(&mut self, output: &mut Output<'_>) -> Option<Support> {
        let mut log = ModuleLog::new(output, self.sensitive, self.subject.log_level, Phase::Validating);
        match self.module.introduction(self.host, &self.subject.for_dry_run(), &mut log) {
            Ok(introduction) if !introduction.has_action_policy => Some(Support::None),
            Ok(introduction) if self.is_distrusted(&introduction.digest, output) => Some(Support::Distrusted),
            Ok(_) => Some(Support::Full),
            Err(error) => {
                self.report_error(&error, output);
                None
            }
        }
    }

    fn is_distrusted(&self, digest: &str, output: &mut Output<'_>) -> bool {
        self.distrusted.is_known(self.host, &self.module.shown(), digest).unwrap_or_else(|error| {
            output.warning(error);
            // It may have been recorded in an earlier run.
            true
        })
    }

    fn report_missing_action_policy(&self, output: &mut Output<'_>) {
        output.error(format!("{} cannot only look (no action_policy)", self.module.shown()));
    }

    fn report_distrust(&self, output: &mut Output<'_>) {
        let path = self.module.shown();
        output.error(format!(
            "{path}: changed the system when asked only to look; its action_policy is not trusted any more"
        ));
    }

    fn dry_run(&mut self, output: &mut Output<'_>) -> DryRun {
        let subject = self.subject.for_dry_run();
        if !self.is_valid(&subject, output) {
            return DryRun::Failed { has_changed: false };
        }
        let Ok((answer, logs)) = self.evaluate(&subject, Phase::DryRun, output) else {
            return DryRun::Failed { has_changed: false };
        };
        match answer.result.as_deref() {
            Some("kept") => {
                logs.warnings.iter().for_each(|warning| output.warning(warning));
                DryRun::Kept
            }
            Some("not_kept") if logs.warnings.is_empty() => {
                output.warning(format!("{} would make a change, but does not describe it", self.module.shown()));
                DryRun::Unknown
            }
            Some("not_kept") => DryRun::Would(logs.warnings.iter().map(|warning| without_end(warning)).collect()),
            Some("repaired") => {
                print_infos(&logs, output);
                self.distrust(output);
                DryRun::Failed { has_changed: true }
            }
            result => {
                logs.warnings.iter().for_each(|warning| output.warning(warning));
                self.report_failure(result, &logs, output);
                DryRun::Failed { has_changed: false }
            }
        }
    }

    fn distrust(&mut self, output: &mut Output<'_>) {
        self.report_distrust(output);
        let path = self.module.shown();
        let mut log = ModuleLog::new(output, self.sensitive, self.subject.log_level, Phase::DryRun);
        let introduction = self.module.introduction(self.host, &self.subject.for_dry_run(), &mut log);
        let digest = introduction.map(|introduction| introduction.digest).unwrap_or_default();
        if let Err(error) = self.distrusted.note_for_good(self.host, &path, &digest) {
            output.warning(format!("this cannot be kept for later runs: {error}"));
        }
    }

    /// Returns true if the module considers the promise valid; otherwise the reason has been reported.
    fn is_valid(&mut self, subject: &Subject, output: &mut Output<'_>) -> bool {
        let (answer, logs) = match self.ask(Operation::Validate, subject, limits::LOOK, Phase::Validating, output) {
            Ok(answered) => answered,
            Err(error) => {
                self.report_error(&error, output);
                return false;
            }
        };
        if !answer.classes.is_empty() {
            let path = self.module.shown();
            output.warning(format!("{path} has result classes for a promise that was not evaluated; they are ignored"));
        }
        if answer.result.as_deref() == Some("valid") {
            return true;
        }
        print_infos(&logs, output);
        if !logs.has_error {
            let Task { location, id, .. } = self;
            output.error(format!("{location}: {id}: the promise is not valid, and the module does not say why"));
        }
        false
    }

    fn evaluate(
        &mut self,
        subject: &Subject,
        phase: Phase,
        output: &mut Output<'_>,
    ) -> Result<(Answer, Logs), AskError> {
        let limit = limits::work(self.timeout);
        let answered = self.ask(Operation::Evaluate, subject, limit, phase, output);
        answered.inspect_err(|error| self.report_error(error, output))
    }

    fn ask(
        &mut self,
        operation: Operation,
        subject: &Subject,
        limit: Duration,
        phase: Phase,
        output: &mut Output<'_>,
    ) -> Result<(Answer, Logs), AskError> {
        let mut log = ModuleLog::new(output, self.sensitive, subject.log_level, phase);
        let answer = self.module.ask(self.host, operation, subject, self.sensitive, limit, &mut log);
        let logs = std::mem::take(&mut log.logs);
        if answer.is_err() {
            print_infos(&logs, output);
        }
        Ok((answer?, logs))
    }

    /// Reports a request without a usable answer.
    fn report_error(&self, error: &AskError, output: &mut Output<'_>) {
        for message in &error.messages {
            let message = self.sensitive.hide(message);
            if error.is_of_definition {
                output.error(format!("{}: {}: attributes.{message}", self.location, self.id));
            } else {
                output.error(message.as_bytes());
            }
        }
    }

    /// Reports the result of a promise that is not kept, unless the module has logged the reason.
    fn report_failure(&self, result: Option<&str>, logs: &Logs, output: &mut Output<'_>) {
        print_infos(logs, output);
        let path = self.module.shown();
        match result {
            Some("not_kept") if logs.has_error => {}
            Some("not_kept") => {
                output.error(format!("{path}: the promise is not kept, and the module does not say why"));
            }
            other => {
                let other = self.sensitive.hide(other.unwrap_or_default());
                output.error(format!("{path}: the module answered \"{other}\""));
            }
        }
    }

    /// Sends the result classes to the entities that are refreshed.
    fn send(&self, answer: &Answer, output: &mut Output<'_>) {
        for class in &answer.classes {
            let name = class_name(&self.sensitive.hide(class));
            if !output.send(&name, "1") {
                let start: String = name.chars().take(40).collect();
                output.warning(format!("{}: the result class {start}… is too long to be sent", self.module.shown()));
            }
        }
    }
}

/// Prints messages that do not describe a change.
fn print_infos(logs: &Logs, output: &mut Output<'_>) {
    logs.infos.iter().for_each(|info| output.print(format!("{info}\n")));
}

fn without_end(warning: &str) -> String {
    let end = ONLY_WARNINGS.into_iter().find_map(|end| warning.strip_suffix(end));
    end.unwrap_or(warning).to_owned()
}

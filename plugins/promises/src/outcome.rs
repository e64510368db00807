//! How a promise ends: what a module's results mean for the entity.

use crate::answer::Answer;
use crate::module::{AskError, Module};
use crate::names::class_name;
use crate::request::Operation;
use crate::subject::Subject;
use crate::voice::{Logs, Phase, Voice};
use holo_bridge::{DigestStore, Sensitive};
use holo_plugin::{Applied, Host, Output, Verdict};
use std::time::Duration;

/// The time that a module has to look at what is promised.
const VALIDATE_LIMIT: Duration = Duration::from_secs(60);
/// The time that a module has to keep a promise, unless its definition says something else.
const EVALUATE_LIMIT: Duration = Duration::from_secs(600);
/// The ends of warnings about what would be done.
const ONLY_WARNINGS: [&str; 2] = [", but only warning promised", ", but only warnings promised"];

/// A promise that is worked on.
pub(crate) struct Task<'t> {
    pub(crate) host: &'t Host,
    pub(crate) module: &'t mut Module,
    pub(crate) subject: &'t Subject,
    pub(crate) sensitive: &'t Sensitive,
    pub(crate) timeout: Option<Duration>,
    pub(crate) id: &'t str,
    /// The file and line of the definition.
    pub(crate) location: &'t str,
    /// The modules that have changed something when they were to look, with the digests of their files.
    pub(crate) distrusted: &'t DigestStore,
}

/// The result of looking.
enum Look {
    Kept,
    Would(Vec<String>),
    Unknown,
    Failed { has_changed: bool },
}

impl Task<'_> {
    /// Has the module keep the promise.
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
                self.explain(result, &logs, output);
                Applied::FAILED
            }
        }
    }

    /// Has the module look, where nothing may ever be changed for the promise.
    pub(crate) fn only_look(&mut self, output: &mut Output<'_>) -> Applied {
        match self.can_look(output) {
            Some(true) => {}
            Some(false) => {
                self.say_that_it_cannot_look(output);
                return Applied::FAILED_UNCHANGED;
            }
            None => return Applied::FAILED_UNCHANGED,
        }
        match self.look(output) {
            Look::Kept => return Applied::Unchanged,
            Look::Would(changes) => changes.iter().for_each(|change| output.warning(change)),
            Look::Unknown => {}
            Look::Failed { has_changed: true } => return Applied::FAILED,
            Look::Failed { has_changed: false } => return Applied::FAILED_UNCHANGED,
        }
        output.error("only warnings are promised");
        Applied::FAILED_UNCHANGED
    }

    /// Finds out what keeping the promise would do, as far as the module can tell without doing it.
    pub(crate) fn check(&mut self, must_look: bool, output: &mut Output<'_>) -> Verdict {
        match self.can_look(output) {
            Some(true) => match self.look(output) {
                Look::Kept => Verdict::InDesiredState,
                Look::Would(changes) => Verdict::WouldChange(changes),
                Look::Unknown => Verdict::Unknown,
                Look::Failed { .. } => Verdict::Failed,
            },
            Some(false) if must_look => {
                self.say_that_it_cannot_look(output);
                Verdict::Failed
            }
            Some(false) if self.is_valid(self.subject, output) => Verdict::Unknown,
            Some(false) | None => Verdict::Failed,
        }
    }

    /// Returns true if the module can look without changing anything; nothing if it cannot be asked.
    fn can_look(&mut self, output: &mut Output<'_>) -> Option<bool> {
        let mut voice = Voice::new(output, self.sensitive, self.subject.log_level, Phase::Validating);
        match self.module.introduction(self.host, &self.subject.for_looking(), &mut voice) {
            Ok(introduction) => Some(introduction.looks && !self.is_distrusted(&introduction.digest, output)),
            Err(error) => {
                self.complain(&error, output);
                None
            }
        }
    }

    fn is_distrusted(&self, digest: &str, output: &mut Output<'_>) -> bool {
        self.distrusted.is_known(self.host, &self.module.shown(), digest).unwrap_or_else(|error| {
            output.warning(error);
            // It may be one of those.
            true
        })
    }

    fn say_that_it_cannot_look(&self, output: &mut Output<'_>) {
        output.error(format!("{} cannot only look (no action_policy)", self.module.shown()));
    }

    fn look(&mut self, output: &mut Output<'_>) -> Look {
        let subject = self.subject.for_looking();
        if !self.is_valid(&subject, output) {
            return Look::Failed { has_changed: false };
        }
        let Ok((answer, logs)) = self.evaluate(&subject, Phase::Looking, output) else {
            return Look::Failed { has_changed: false };
        };
        match answer.result.as_deref() {
            Some("kept") => {
                logs.warnings.iter().for_each(|warning| output.warning(warning));
                Look::Kept
            }
            Some("not_kept") if logs.warnings.is_empty() => {
                output.warning(format!("{} would change something, and should say what", self.module.shown()));
                Look::Unknown
            }
            Some("not_kept") => Look::Would(logs.warnings.iter().map(|warning| without_end(warning)).collect()),
            Some("repaired") => {
                tell(&logs, output);
                self.distrust(output);
                Look::Failed { has_changed: true }
            }
            result => {
                logs.warnings.iter().for_each(|warning| output.warning(warning));
                self.explain(result, &logs, output);
                Look::Failed { has_changed: false }
            }
        }
    }

    fn distrust(&mut self, output: &mut Output<'_>) {
        let path = self.module.shown();
        output.error(format!(
            "{path}: changed the system when asked only to look; its action_policy is not trusted any more"
        ));
        let mut voice = Voice::new(output, self.sensitive, self.subject.log_level, Phase::Looking);
        let introduction = self.module.introduction(self.host, &self.subject.for_looking(), &mut voice);
        let digest = introduction.map(|introduction| introduction.digest).unwrap_or_default();
        if let Err(error) = self.distrusted.note_for_good(self.host, &path, &digest) {
            output.warning(format!("this cannot be kept for later runs: {error}"));
        }
    }

    /// Returns true if the module finds nothing wrong with what is promised; otherwise it has been said what.
    fn is_valid(&mut self, subject: &Subject, output: &mut Output<'_>) -> bool {
        let (answer, logs) = match self.ask(Operation::Validate, subject, VALIDATE_LIMIT, Phase::Validating, output) {
            Ok(answered) => answered,
            Err(error) => {
                self.complain(&error, output);
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
        tell(&logs, output);
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
        let limit = self.timeout.unwrap_or(EVALUATE_LIMIT);
        let answered = self.ask(Operation::Evaluate, subject, limit, phase, output);
        answered.inspect_err(|error| self.complain(error, output))
    }

    fn ask(
        &mut self,
        operation: Operation,
        subject: &Subject,
        limit: Duration,
        phase: Phase,
        output: &mut Output<'_>,
    ) -> Result<(Answer, Logs), AskError> {
        let mut voice = Voice::new(output, self.sensitive, subject.log_level, phase);
        let answer = self.module.ask(self.host, operation, subject, self.sensitive, limit, &mut voice);
        let logs = std::mem::take(&mut voice.logs);
        if answer.is_err() {
            tell(&logs, output);
        }
        Ok((answer?, logs))
    }

    /// Says why the module cannot be asked, or what is wrong with its answer.
    fn complain(&self, error: &AskError, output: &mut Output<'_>) {
        for message in &error.messages {
            let message = self.sensitive.hide(message);
            if error.is_of_definition {
                output.error(format!("{}: {}: attributes.{message}", self.location, self.id));
            } else {
                output.error(message.as_bytes());
            }
        }
    }

    /// Says why a promise is not kept, as far as the module has not.
    fn explain(&self, result: Option<&str>, logs: &Logs, output: &mut Output<'_>) {
        tell(logs, output);
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

    /// Sends the result classes to those who are refreshed.
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

/// Prints what a module has said of what it did, where the result does not.
fn tell(logs: &Logs, output: &mut Output<'_>) {
    logs.infos.iter().for_each(|info| output.print(format!("{info}\n")));
}

fn without_end(warning: &str) -> String {
    let end = ONLY_WARNINGS.into_iter().find_map(|end| warning.strip_suffix(end));
    end.unwrap_or(warning).to_owned()
}

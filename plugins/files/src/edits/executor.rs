//! Makes edits, those of one file that follow one another together. The new content is on disk before it replaces the file in one step, with the
//! same owner and mode.

mod group;

use super::entity::EditEntity;
use super::inspection::{FileError, Inspection, MAX_SIZE, Subject, mode_of};
use super::outcome::{self, Outcome};
use super::record::{FileRecord, Version};
use holo_change::snapshot::Snapshot;
use holo_change::{Durability, Tree};
use holo_plugin::Validation;
use holo_plugin::{Applied, ForceTo, Host, Job, Output, SetAnswers, Shown};
use std::path::Path;

/// The suffix of a new file beside the one whose place it is going to take.
const TEMPORARY: &str = ".holonew";
/// The mode of a file that is made.
const NEW_MODE: u32 = 0o644;
const NEW_SENSITIVE_MODE: u32 = 0o600;
/// The maximal number of attempts to edit a file that is changed by others each time.
const ATTEMPTS: usize = 5;

/// Applies edits, in their order.
pub(crate) fn apply(host: &Host, set: &[Job<'_, EditEntity>], answers: &mut dyn SetAnswers) {
    match Executor::open(host) {
        Ok(executor) => group::apply(&executor, set, answers),
        Err(error) => {
            for index in 0..set.len() {
                answers.begin(index);
                let applied = tell(&error, &mut answers.output(index));
                answers.end(index, applied);
            }
        }
    }
}

/// Says an error, and returns the end of an apply that it is the end of.
fn tell(error: &FileError, output: &mut Output<'_>) -> Applied {
    if matches!(error, FileError::Changed) {
        return Applied::NeedsForce(ForceTo::Overwrite);
    }
    output.error(format!("skipping target: {error}"));
    Applied::FAILED
}

struct Executor<'a> {
    inspection: Inspection<'a>,
    _held: std::os::fd::OwnedFd,
}

/// What has become of a file.
enum Replaced {
    Done,
    /// Others have changed it since it was looked at.
    Meanwhile,
}

impl<'a> Executor<'a> {
    fn open(host: &'a Host) -> Result<Executor<'a>, FileError> {
        let held = Tree::open(host.state_dir())?.hold()?;
        let inspection = Inspection::open(host)?;
        inspection.records.tidy()?;
        Ok(Executor { inspection, _held: held })
    }

    fn apply(&self, entity: &EditEntity, force: bool, output: &mut Output<'_>) -> Result<Applied, FileError> {
        for _ in 0..ATTEMPTS {
            let path = self.inspection.canonical(&entity.path)?;
            self.recover(&path)?;
            let subject = self.inspection.look_at(&path)?;
            let left = self.inspection.would_leave(entity, &subject);
            if let Some(left) = &left
                && matches!(self.take_back(entity, left, force, output)?, Replaced::Meanwhile)
            {
                continue;
            }
            let Some(outcome) = self.inspection.outcome(&subject, entity)? else {
                return self.without_file(entity, &subject);
            };
            if outcome.needs_force && !force {
                return Err(FileError::Changed);
            }
            let changes = outcome.ledger.text() != subject.ledger.text();
            let version = version(&subject, &outcome, entity);
            if let Replaced::Done = self.put(entity, &subject, version, &outcome, output)? {
                return Ok(self.told(entity, &subject, changes || left.is_some()));
            }
        }
        Err(FileError::Changed)
    }

    /// Removes what a killed run has left beside a file: a part of what it was about to be, or what it was. If it is neither, others have
    /// saved it at the moment when it was replaced, and it comes back.
    fn recover(&self, path: &Path) -> Result<(), FileError> {
        let Some(record) = self.inspection.records.of(path)?.filter(FileRecord::has_intent) else { return Ok(()) };
        let place = self.inspection.root.place(path);
        let temporary = place.temporary(TEMPORARY);
        let Some(left) = Snapshot::of_any_owner(&temporary, MAX_SIZE)? else { return Ok(()) };
        if record.has_begun(&left.content) || record.now.content() == left.content {
            temporary.remove()?;
        } else {
            temporary.rename_to(&place)?;
        }
        Ok(Durability::Each.sync([], [&place])?)
    }

    /// Returns the end of an entity whose file does not exist and is not to be made.
    fn without_file(&self, entity: &EditEntity, subject: &Subject) -> Result<Applied, FileError> {
        if entity.definition.as_ref().is_some_and(super::EditDefinition::is_absence) {
            return Ok(Applied::Unchanged);
        }
        Err(FileError::Missing(self.inspection.shown(&subject.path)))
    }

    fn told(&self, entity: &EditEntity, subject: &Subject, changes: bool) -> Applied {
        let shown = self.inspection.shown(&subject.path);
        match (&entity.definition, &subject.found) {
            (None, _) if !changes => Applied::Changed(vec![format!("forgot {}", entity.id)]),
            (None, _) => Applied::Changed(vec![format!("took back the edit of {shown}")]),
            (Some(_), _) if !changes => Applied::Unchanged,
            (Some(_), None) => Applied::Changed(vec![format!("made {shown}")]),
            (Some(_), Some(_)) => Applied::Changed(vec![format!("edited {shown}")]),
        }
    }

    /// Takes an edit back in a file that it is not about any more.
    fn take_back(
        &self,
        entity: &EditEntity,
        path: &Path,
        force: bool,
        output: &mut Output<'_>,
    ) -> Result<Replaced, FileError> {
        self.recover(path)?;
        let subject = self.inspection.look_at(path)?;
        let outcome = outcome::take_back(&subject.ledger, &entity.id);
        if outcome.needs_force && !force {
            return Err(FileError::Changed);
        }
        let version = subject.record.now.with(&outcome.ledger, None);
        self.put(entity, &subject, version, &outcome, output)
    }

    /// Puts what a file is to be in its place, and records that.
    fn put(
        &self,
        entity: &EditEntity,
        subject: &Subject,
        version: Version,
        outcome: &Outcome,
        output: &mut Output<'_>,
    ) -> Result<Replaced, FileError> {
        let records = &self.inspection.records;
        let mut record = subject.record.clone();
        let content = outcome.ledger.text().content();
        let is_same = subject.found.as_ref().is_some_and(|found| found.content == content);
        let goes = version.is_untouched() && version.created && content.is_empty();
        if (is_same && !goes) || (subject.found.is_none() && version.is_untouched()) {
            record.settle(version);
            let is_kept = match &subject.kept {
                Some(kept) => *kept == record,
                None => record.now.is_untouched(),
            };
            if !is_kept {
                records.keep(&record)?;
            }
            return Ok(Replaced::Done);
        }
        if !goes {
            self.validate(entity, subject, &content, output)?;
        }
        self.keep_replaced(entity, subject, output);
        record.intend(&subject.ledger, version.clone());
        records.keep(&record)?;
        if !self.replace(entity, subject, &content, goes)? {
            record.settle(subject.record.now.clone());
            records.keep(&record)?;
            return Ok(Replaced::Meanwhile);
        }
        record.settle(version);
        records.keep(&record)?;
        Ok(Replaced::Done)
    }

    /// Replaces a file, or removes it; returns false if it is another one than was found.
    fn replace(&self, entity: &EditEntity, subject: &Subject, content: &[u8], goes: bool) -> Result<bool, FileError> {
        let absent = Snapshot::absent(rustix::process::geteuid().as_raw());
        let found = subject.found.as_ref().unwrap_or(&absent);
        if goes {
            return Ok(found.remove(&subject.place)?);
        }
        if entity.in_place && subject.found.is_some() {
            return Ok(found.overwrite(&subject.place, content)?);
        }
        let new_mode = if entity.sensitive { NEW_SENSITIVE_MODE } else { NEW_MODE };
        let mode = if subject.found.is_some() { mode_of(subject) } else { new_mode };
        let temporary = subject.place.temporary(TEMPORARY);
        Ok(found.replace(&subject.place, &temporary, content, mode)?.is_some())
    }

    fn validate(
        &self,
        entity: &EditEntity,
        subject: &Subject,
        content: &[u8],
        output: &mut Output<'_>,
    ) -> Result<(), FileError> {
        let Some(command) = entity.definition.as_ref().and_then(|edit| edit.shared().validate) else {
            return Ok(());
        };
        let validation = Validation { command, sensitive: entity.sensitive, timeout: entity.timeout };
        validation.run(&subject.path, content, self.inspection.host, output).map_err(FileError::Invalid)
    }

    /// Keeps the file as it was for the record of the run.
    fn keep_replaced(&self, entity: &EditEntity, subject: &Subject, output: &mut Output<'_>) {
        if entity.sensitive {
            return;
        }
        let before = || {
            let shown = |found: &Snapshot| Shown::File { content: found.content.clone(), mode: mode_of(subject) };
            Ok::<_, FileError>(subject.found.as_ref().map(shown))
        };
        self.inspection.host.keep_replaced(&subject.path, before, output);
    }
}

/// Returns what is known of a file once an entity is applied.
fn version(subject: &Subject, outcome: &Outcome, entity: &EditEntity) -> Version {
    subject.record.now.with(&outcome.ledger, entity.definition.as_ref().map(|_| entity))
}

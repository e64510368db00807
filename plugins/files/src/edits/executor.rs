//! Applies edits. All edits of one file in a set are applied together: the file is read once, and replaced once. The new content is on disk
//! before it replaces the file in one step, with the same owner and mode.

use super::inspection::{
    CanonicalFiles, FileError, FileState, Inspection, MAX_SIZE, new_mode, overwrites, validation, would_leave,
};
use super::ledger::{Draft, Ledger};
use super::record::{MadeEdit, Subject, Version};
use super::{EditDefinition, EditEntity, outcome};
use crate::overlay::BufferedOutput;
use holo_change::snapshot::Snapshot;
use holo_change::tracked::{Digest, Unmanaged};
use holo_change::{Durability, PathError, Tree};
use holo_plugin::{Applied, ForceTo, Host, Job, Output, SetAnswers, Shown, Validation, edited};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The suffix of the new file until it replaces the old one.
const TEMPORARY: &str = ".holonew";
/// The maximum number of attempts to edit a file that another process changes each time.
const ATTEMPTS: usize = 5;

/// An edit with its index in the set.
type Indexed<'e> = (usize, Job<'e, EditEntity>);
/// An edit with its result. Several edits may share an error.
type Ended<'e> = (Indexed<'e>, Result<Applied, Rc<FileError>>);

/// Applies edits, those of one file in the order of the set. If an attempt is repeated, edits are begun again.
pub(crate) fn apply(host: &Host, set: &[Job<'_, EditEntity>], answers: &mut dyn SetAnswers) {
    match Executor::open(host) {
        Ok(executor) => executor.apply(set, answers),
        Err(error) => {
            for index in 0..set.len() {
                answers.begin(index);
                let applied = tell(&error, &mut answers.output(index));
                answers.end(index, applied);
            }
        }
    }
}

/// Reports an error, and returns the result of the apply that it ended.
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

/// The operation on an edit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    /// Makes it, or takes it back if it is an orphan.
    Apply,
    /// Takes it back in the file that it was made in before its path led to another one.
    Leave,
}

/// The result of replacing a file.
enum Replaced {
    Done,
    /// The file was not replaced, because another process had changed it since it was read.
    Meanwhile,
}

/// The new state of a file.
struct Wanted<'e> {
    ledger: Ledger,
    version: Version,
    in_place: bool,
    sensitive: bool,
    /// The programs that must accept the content.
    validations: BTreeMap<&'e [String], Validation<'e>>,
    /// The first edit whose lines were changed manually, and are overwritten. The file is kept before.
    overwrites: Option<&'e str>,
}

/// Returns true if manual changes of the lines of an edit are overwritten, and the file is kept before.
fn may_overwrite(task: Task, job: Job<'_, EditEntity>) -> bool {
    if task == Task::Apply { overwrites(job.entity, job.mode) } else { job.mode.force }
}

impl<'a> Executor<'a> {
    fn open(host: &'a Host) -> Result<Executor<'a>, FileError> {
        let held = Tree::open(host.state_dir())?.hold()?;
        let inspection = Inspection::open(host)?;
        Ok(Executor { inspection, _held: held })
    }

    fn apply(&self, set: &[Job<'_, EditEntity>], answers: &mut dyn SetAnswers) {
        let mut paths = CanonicalFiles::default();
        let mut files: BTreeMap<PathBuf, Vec<Indexed<'_>>> = BTreeMap::new();
        for (index, job) in set.iter().copied().enumerate() {
            match paths.of(&job.entity.path, &self.inspection) {
                Ok(path) => files.entry(path).or_default().push((index, job)),
                Err(error) => {
                    answers.begin(index);
                    let applied = tell(&FileError::from(error), &mut answers.output(index));
                    answers.end(index, applied);
                }
            }
        }
        for (path, group) in files {
            self.apply_in(&path, group, answers);
        }
    }

    /// Applies the edits of a file. Edits that were made in another file are taken back there first.
    fn apply_in(&self, path: &Path, mut group: Vec<Indexed<'_>>, answers: &mut dyn SetAnswers) {
        let mut leaving: BTreeMap<&Path, Vec<Indexed<'_>>> = BTreeMap::new();
        for (index, job) in &group {
            if let Some(other) = would_leave(job.entity, path) {
                leaving.entry(other).or_default().push((*index, *job));
            }
        }
        let mut left = BTreeMap::new();
        for (other, leaving) in leaving {
            let ended = self.edit(other, &leaving, Task::Leave, answers);
            left.extend(ended.into_iter().map(|((index, _), end)| (index, end)));
        }
        let mut ended = Vec::new();
        group.retain(|&indexed| match left.get(&indexed.0) {
            Some(Err(error)) => {
                ended.push((indexed, Err(Rc::clone(error))));
                false
            }
            _ => true,
        });
        ended.extend(self.edit(path, &group, Task::Apply, answers));
        for ((index, job), end) in ended {
            let applied = match end {
                Ok(Applied::Unchanged) if left.contains_key(&index) => self.applied(job.entity, path, true, true),
                Ok(applied) => applied,
                Err(error) => tell(&error, &mut answers.output(index)),
            };
            answers.end(index, applied);
        }
    }

    /// Edits a file. Returns the result of each edit.
    fn edit<'e>(&self, path: &Path, group: &[Indexed<'e>], task: Task, answers: &mut dyn SetAnswers) -> Vec<Ended<'e>> {
        let failed = |error: FileError| -> Vec<Ended<'e>> {
            let error = Rc::new(error);
            group.iter().map(|&indexed| (indexed, Err(Rc::clone(&error)))).collect()
        };
        for _ in 0..ATTEMPTS {
            let (mut ended, replaced) = match self.attempt(path, group, task, answers) {
                Ok(attempted) => attempted,
                Err(error) => return failed(error),
            };
            let error = match replaced {
                Ok(Replaced::Done) => return ended,
                Ok(Replaced::Meanwhile) => continue,
                // Only the edits with which the content is rejected may fail, so they are searched for by halving.
                Err(FileError::Invalid(_)) if group.len() > 1 => {
                    let (first, second) = group.split_at(group.len() / 2);
                    let mut ended = self.edit(path, first, task, answers);
                    ended.extend(self.edit(path, second, task, answers));
                    return ended;
                }
                Err(error) => Rc::new(error),
            };
            for (_, end) in ended.iter_mut().filter(|(_, end)| end.is_ok()) {
                *end = Err(Rc::clone(&error));
            }
            return ended;
        }
        failed(FileError::Changed)
    }

    /// Makes one attempt to edit a file. Returns the result of each edit if the file is replaced, and whether it was.
    fn attempt<'e>(
        &self,
        path: &Path,
        group: &[Indexed<'e>],
        task: Task,
        answers: &mut dyn SetAnswers,
    ) -> Result<(Vec<Ended<'e>>, Result<Replaced, FileError>), FileError> {
        let subject = self.recovered(path)?;
        let (mut draft, mut made) = (Draft::from(&subject.ledger), subject.record.now.made());
        let mut exists = subject.found.is_some();
        let (mut in_place, mut sensitive) = (false, false);
        let mut validations = BTreeMap::new();
        let mut overwrites = None;
        let mut ended: Vec<Ended<'_>> = Vec::with_capacity(group.len());
        for &(index, job) in group {
            let entity = job.entity;
            (in_place, sensitive) = (in_place || entity.in_place, sensitive || entity.sensitive);
            let outcome = match task {
                Task::Apply => self.inspection.edit(&mut draft, &FileState { path, exists, made: &made }, entity),
                Task::Leave => Ok(Some(outcome::take_back(&mut draft, &entity.id))),
            };
            let end = match outcome {
                Ok(Some(outcome)) if outcome.needs_force && !may_overwrite(task, job) => {
                    draft.roll_back();
                    Err(FileError::Changed)
                }
                Ok(Some(outcome)) => {
                    draft.commit();
                    if task == Task::Apply && entity.definition.is_some() {
                        let (sensitive, in_place) = (entity.sensitive, entity.in_place);
                        let edit = MadeEdit { definition: entity.fingerprint().to_owned(), sensitive, in_place };
                        made.add(&entity.id, edit, || entity.to_report());
                    }
                    if let Some(validation) = validation(entity).filter(|_| outcome.changes) {
                        validations.insert(validation.command.words(), validation);
                    }
                    let mut applied = self.applied(entity, path, outcome.changes, exists);
                    if let Applied::Changed(changes) = &mut applied
                        && outcome.needs_force
                        && may_overwrite(task, job)
                    {
                        overwrites.get_or_insert(entity.id());
                        changes.insert(0, edited::kept(&self.inspection.host.below_root(path)));
                    }
                    exists |= outcome.changes;
                    Ok(applied)
                }
                Ok(None) if entity.definition.as_ref().is_some_and(EditDefinition::is_absence) => {
                    Ok(Applied::Unchanged)
                }
                Ok(None) => Err(FileError::Missing(self.inspection.shown(path))),
                Err(error) => Err(error),
            };
            ended.push(((index, job), end.map_err(Rc::new)));
        }
        if ended.iter().all(|(_, end)| end.is_err()) {
            return Ok((ended, Ok(Replaced::Done)));
        }
        let changing = ended.iter().filter(|(_, end)| end.as_ref().is_ok_and(|end| *end != Applied::Unchanged));
        let changing: Vec<usize> = changing.map(|((index, _), _)| *index).collect();
        answers.hold_back();
        changing.iter().for_each(|&index| answers.begin(index));
        for ((index, job), _) in ended.iter().filter(|((index, _), _)| changing.binary_search(index).is_ok()) {
            let warning = self.inspection.exposure(job.entity, &subject);
            warning.into_iter().for_each(|warning| answers.output(*index).warning(warning));
        }
        answers.flush();
        let ledger = Ledger::from(&draft);
        let version = Version::new(subject.record.now.created, made, &ledger);
        let wanted = Wanted { ledger, version, in_place, sensitive, validations, overwrites };
        // The output of programs belongs to the first edit that makes a change.
        let mut said = BufferedOutput::default();
        let replaced = self.put(&subject, wanted, &mut Output::new(&mut said));
        let is_repeated = matches!(replaced, Err(FileError::Invalid(_))) && group.len() > 1;
        if let Some(&first) = changing.first().filter(|_| !is_repeated) {
            said.repeat(&mut answers.output(first));
        }
        Ok((ended, replaced))
    }

    /// Reads a file, after removing the temporary file that a killed run left next to it: a part of the new content, or the old content. Any
    /// other content was saved by another process at the moment of the replacement, and is restored.
    fn recovered(&self, path: &Path) -> Result<Subject, FileError> {
        let kept = self.inspection.records.of(path)?;
        if let Some(record) = kept.as_ref().filter(|record| record.has_intent()) {
            let place = self.inspection.root.place(path);
            let temporary = place.temporary(TEMPORARY);
            if let Some(left) = Snapshot::of_any_owner(&temporary, MAX_SIZE)? {
                if record.has_begun(&left.content) || record.now.content() == left.content {
                    temporary.remove()?;
                } else {
                    temporary.rename_to(&place)?;
                }
                Durability::Each.sync([], [&place])?;
            }
        }
        self.inspection.look_at_recorded(path, kept)
    }

    /// Returns the result of an edit that could be applied.
    fn applied(&self, entity: &EditEntity, path: &Path, changes: bool, exists: bool) -> Applied {
        let shown = self.inspection.shown(path);
        match (&entity.definition, changes) {
            (None, false) => Applied::Changed(vec![format!("forgot {}", entity.id)]),
            (None, true) => Applied::Changed(vec![format!("took back the edit of {shown}")]),
            (Some(_), false) => Applied::Unchanged,
            (Some(_), true) if !exists => Applied::Changed(vec![format!("made {shown}")]),
            (Some(_), true) => Applied::Changed(vec![format!("edited {shown}")]),
        }
    }

    /// Replaces a file with its new content, and updates its record.
    fn put(&self, subject: &Subject, wanted: Wanted<'_>, output: &mut Output<'_>) -> Result<Replaced, FileError> {
        let records = &self.inspection.records;
        let mut record = subject.record.clone();
        let content = wanted.ledger.text().content();
        let is_same = subject.found.as_ref().is_some_and(|found| found.content == content);
        let goes = wanted.version.is_untouched() && wanted.version.created && content.is_empty();
        let is_gone = subject.found.is_none() && wanted.version.is_untouched();
        if (is_same && !goes) || is_gone {
            if is_gone {
                self.inspection.tracker()?.clear_way(&subject.path)?;
            }
            record.settle(wanted.version);
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
            for validation in wanted.validations.values() {
                let validation = Validation { sensitive: wanted.sensitive, ..*validation };
                let validated = validation.run(&subject.path, &content, self.inspection.host, output);
                validated.map_err(FileError::Invalid)?;
            }
        }
        if !wanted.sensitive {
            self.keep_replaced(subject, output);
        }
        if let (Some(id), Some(found)) = (wanted.overwrites, &subject.found) {
            let kept = self.inspection.host.keep_edited(id, &subject.path, &subject.place, wanted.sensitive);
            match kept {
                Ok(kept) if kept.content() == Some(&Digest::of_bytes(&found.content)) => {}
                Ok(_) | Err(Unmanaged::Meanwhile(_)) => return Ok(Replaced::Meanwhile),
                Err(Unmanaged::Path(error)) => return Err(error.into()),
                Err(error) => return Err(PathError::new("keep", subject.place.shown(), io::Error::other(error)).into()),
            }
        }
        record.intend(&subject.ledger, wanted.version.clone());
        records.keep(&record)?;
        if !self.replace(subject, &wanted, &content, goes)? {
            record.settle(subject.record.now.clone());
            records.keep(&record)?;
            return Ok(Replaced::Meanwhile);
        }
        record.settle(wanted.version);
        records.keep(&record)?;
        Ok(Replaced::Done)
    }

    /// Replaces or removes a file. Returns false if another process has changed it since it was read.
    fn replace(&self, subject: &Subject, wanted: &Wanted<'_>, content: &[u8], goes: bool) -> Result<bool, FileError> {
        let absent = Snapshot::absent(rustix::process::geteuid().as_raw());
        if goes {
            let is_gone = subject.found.as_ref().unwrap_or(&absent).remove(&subject.place)?;
            if is_gone {
                self.inspection.tracker()?.clear_way(&subject.path)?;
            }
            return Ok(is_gone);
        }
        let temporary = subject.place.temporary(TEMPORARY);
        if let Some(found) = &subject.found {
            return Ok(match wanted.in_place {
                true => found.overwrite(&subject.place, content)?,
                false => found.replace(&subject.place, &temporary, content, subject.mode())?.is_some(),
            });
        }
        let tracker = self.inspection.tracker()?;
        tracker.make_way(&subject.path)?;
        let inherited = tracker.inherited(&subject.path)?;
        let (uid, gid) = inherited.map(|inherited| (inherited.uid, inherited.gid)).unwrap_or_default();
        let mode = new_mode(wanted.sensitive, inherited);
        Ok(absent.with_owners(uid, gid).replace(&subject.place, &temporary, content, mode)?.is_some())
    }

    /// Keeps the old file for the history of the run.
    fn keep_replaced(&self, subject: &Subject, output: &mut Output<'_>) {
        let before = || {
            let shown = |found: &Snapshot| Shown::File { content: found.content.clone(), mode: subject.mode() };
            Ok::<_, FileError>(subject.found.as_ref().map(shown))
        };
        self.inspection.host.keep_replaced(&subject.path, before, output);
    }
}

//! Edits of one file that are made together: it is replaced once, and its record is written as for one edit.

use super::super::entity::EditEntity;
use super::super::inspection::{FileError, Subject};
use super::super::ledger::Ledger;
use super::super::outcome::Outcome;
use super::super::record::FileRecord;
use super::{Executor, Replaced, tell, version};
use holo_plugin::{Applied, Job, SetAnswers};

/// Edits of a file that are decided on and not made yet.
struct Group<'a> {
    /// The file, with the lines and the record that it has once they are made.
    subject: Subject,
    /// The lines and the record that it has now.
    ledger: Ledger,
    record: FileRecord,
    members: Vec<Member<'a>>,
}

struct Member<'a> {
    index: usize,
    job: Job<'a, EditEntity>,
    /// True if it changes a line.
    changes: bool,
}

/// Applies edits, in their order.
pub(super) fn apply(executor: &Executor<'_>, set: &[Job<'_, EditEntity>], answers: &mut dyn SetAnswers) {
    let mut group: Option<Group<'_>> = None;
    for (index, job) in set.iter().copied().enumerate() {
        if !group.as_ref().is_some_and(|group| executor.belongs_to(job, group)) {
            executor.make(group.take(), answers);
            group = executor.begin(job);
        }
        answers.begin(index);
        let added = group.as_mut().map(|group| executor.add(index, job, group));
        match added {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                let applied = tell(&error, &mut answers.output(index));
                answers.end(index, applied);
            }
            None => executor.apply_alone(index, job, answers),
        }
    }
    executor.make(group, answers);
}

impl Executor<'_> {
    /// Begins a group with an edit; none if that is to be made alone. What goes wrong is found again then, and said.
    fn begin<'a>(&self, job: Job<'_, EditEntity>) -> Option<Group<'a>> {
        let entity = job.entity;
        if !is_plain(entity) {
            return None;
        }
        let path = self.inspection.canonical(&entity.path).ok()?;
        self.recover(&path).ok()?;
        let subject = self.inspection.look_at(&path).ok()?;
        if subject.found.is_none() || self.inspection.would_leave(entity, &subject).is_some() {
            return None;
        }
        let (ledger, record) = (subject.ledger.clone(), subject.record.clone());
        Some(Group { subject, ledger, record, members: Vec::new() })
    }

    /// Returns true if an edit can be made together with those before it.
    fn belongs_to(&self, job: Job<'_, EditEntity>, group: &Group<'_>) -> bool {
        let is_alike = |member: &Member<'_>| {
            let (ours, other) = (job.entity, member.job.entity);
            job.mode.force == member.job.mode.force
                && (ours.in_place, ours.sensitive) == (other.in_place, other.sensitive)
        };
        is_plain(job.entity)
            && group.members.iter().all(is_alike)
            && self.inspection.canonical(&job.entity.path).is_ok_and(|path| path == group.subject.path)
            && self.inspection.would_leave(job.entity, &group.subject).is_none()
    }

    fn add<'a>(&self, index: usize, job: Job<'a, EditEntity>, group: &mut Group<'a>) -> Result<(), FileError> {
        let (entity, subject) = (job.entity, &mut group.subject);
        let Some(outcome) = self.inspection.outcome(subject, entity)? else {
            return Err(FileError::Missing(self.inspection.shown(&subject.path)));
        };
        if outcome.needs_force && !job.mode.force {
            return Err(FileError::Changed);
        }
        let changes = outcome.ledger.text() != subject.ledger.text();
        subject.record.now = version(subject, &outcome, entity);
        subject.ledger = outcome.ledger;
        group.members.push(Member { index, job, changes });
        Ok(())
    }

    /// Makes the edits of a group. If somebody has changed the file meanwhile, they are made one by one.
    fn make(&self, group: Option<Group<'_>>, answers: &mut dyn SetAnswers) {
        let Some(Group { mut subject, ledger, record, members }) = group else { return };
        let Some(first) = members.first() else { return };
        let made = std::mem::replace(&mut subject.record, record).now;
        let outcome = Outcome { ledger: std::mem::replace(&mut subject.ledger, ledger), needs_force: false };
        let put = self.put(first.job.entity, &subject, made, &outcome, &mut answers.output(first.index));
        for Member { index, job, changes } in members {
            match &put {
                Ok(Replaced::Done) => answers.end(index, self.told(job.entity, &subject, changes)),
                Ok(Replaced::Meanwhile) => self.apply_alone(index, job, answers),
                Err(error) => {
                    let applied = tell(error, &mut answers.output(index));
                    answers.end(index, applied);
                }
            }
        }
    }

    fn apply_alone(&self, index: usize, job: Job<'_, EditEntity>, answers: &mut dyn SetAnswers) {
        let applied = self.apply(job.entity, job.mode.force, &mut answers.output(index));
        let applied: Applied = applied.unwrap_or_else(|error| tell(&error, &mut answers.output(index)));
        answers.end(index, applied);
    }
}

/// Returns true if nothing has to be asked about the new content.
fn is_plain(entity: &EditEntity) -> bool {
    entity.definition.as_ref().is_none_or(|definition| definition.shared().validate.is_none())
}

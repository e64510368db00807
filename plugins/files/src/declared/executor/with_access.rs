//! Applies and scrubs declared files whose ACLs, contexts or recursive permissions are managed.

use super::super::access::{Accesses, At, Plan};
use super::super::definition::FileDefinition;
use super::super::inspection::own_path;
use super::super::wanted::DeclaredError;
use super::Executor;
use crate::declared::entity::DeclaredFile;
use holo_change::Commits;
use holo_plugin::{Applied, Job, Output, SetAnswers};

impl Executor<'_> {
    /// Applies a single entity: first its path, then its permissions; an orphan in reverse order.
    pub(super) fn apply_with_access(&self, index: usize, job: Job<'_, DeclaredFile>, answers: &mut dyn SetAnswers) {
        let mut kept = EndKept { answers, has_begun: self.changed_before.contains_key(&index), end: None };
        let applied = match &job.entity.definition {
            Some(definition) => self.make_with_access(index, job, definition, &mut kept),
            None => self.put_back_with_access(index, job, &mut kept),
        };
        let applied = applied.unwrap_or_else(|error| error.tell(&mut kept.output(index)));
        answers.end(index, applied);
    }

    fn make_with_access(
        &self,
        index: usize,
        job: Job<'_, DeclaredFile>,
        definition: &FileDefinition,
        answers: &mut EndKept<'_>,
    ) -> Result<Applied, DeclaredError> {
        let (entity, inspection) = (job.entity, &self.inspection);
        let accesses = Accesses::open(inspection)?;
        let mut record = inspection.recall(entity)?;
        if let Some(record) = record.as_mut().filter(|record| record.base.have_intents()) {
            answers.begin(index);
            inspection.tracker.recover_intents(record)?;
        }
        let subject = inspection.subject(entity, record)?;
        accesses.keep_base(entity, definition, &subject.path, &subject.takes_over)?;
        let plan = || accesses.plan(entity, definition, &subject.path, job.mode.force, At::Apply);
        // A manual change is refused before the path is changed.
        let before = plan()?;
        let applied = self.apply_alone(index, job, answers);
        let planned = match applied {
            Applied::Unchanged => Ok(before),
            // The change of the path may have changed the plan.
            Applied::Changed(_) | Applied::ChangedQuietly(_) => plan(),
            _ => return Ok(applied),
        };
        let plan = match planned {
            Err(error) => return Ok(after_change(error).tell(&mut answers.output(index))),
            Ok(plan) if plan.is_empty() => return Ok(applied),
            Ok(plan) => plan,
        };
        answers.begin(index);
        let made = self.expect_mode(entity, &plan).and_then(|expects_mode| {
            accesses.make(&plan)?;
            if expects_mode { self.settle_mode(entity) } else { Ok(()) }
        });
        if let Err(error) = made {
            return Ok(error.tell(&mut answers.output(index)));
        }
        Ok(self.with_changes(applied, &plan, "changed", entity))
    }

    fn put_back_with_access(
        &self,
        index: usize,
        job: Job<'_, DeclaredFile>,
        answers: &mut EndKept<'_>,
    ) -> Result<Applied, DeclaredError> {
        let accesses = Accesses::open(&self.inspection)?;
        // Otherwise, what a killed run has made would not be recognized by its permissions any more.
        if let Some(mut record) = self.inspection.recall(job.entity)?.filter(|record| record.base.have_intents()) {
            answers.begin(index);
            self.inspection.tracker.recover_intents(&mut record)?;
        }
        let plan = accesses.restoration(job.entity, job.mode.force)?;
        if !plan.is_empty() {
            answers.begin(index);
            self.expect_mode(job.entity, &plan)?;
        }
        let hands_over = accesses.hands_over(job.entity)?;
        accesses.put_back(job.entity, &plan)?;
        let applied = if hands_over { Applied::Unchanged } else { self.apply_alone(index, job, answers) };
        Ok(self.with_changes(applied, &plan, "restored", job.entity))
    }

    /// Records the mode that results from the new ACL as an intent, so that it does not count as a manual change. Returns
    /// true if it will be different.
    fn expect_mode(&self, entity: &DeclaredFile, plan: &Plan) -> Result<bool, DeclaredError> {
        let Some(mut remembered) = self.inspection.recall(entity)? else { return Ok(false) };
        let path = own_path(&remembered.base, &entity.path);
        let expects_mode = plan.mode_by_acl(&path).is_some_and(|mode| remembered.base.expect_permissions(&path, mode));
        if expects_mode {
            self.inspection.bases.keep(&remembered)?;
        }
        Ok(expects_mode)
    }

    /// Records the expected mode as provisioned.
    fn settle_mode(&self, entity: &DeclaredFile) -> Result<(), DeclaredError> {
        let Some(mut remembered) = self.inspection.recall(entity)? else { return Ok(()) };
        Ok(self.inspection.tracker.recover_intents(&mut remembered)?)
    }

    fn apply_alone(&self, index: usize, job: Job<'_, DeclaredFile>, answers: &mut EndKept<'_>) -> Applied {
        let mut commits = Commits::default();
        self.begin(index, job, &mut commits, answers);
        self.tell(commits.flush(&self.store), answers);
        answers.end.take().unwrap_or(Applied::FAILED)
    }

    /// Adds the permission changes to those of the path.
    fn with_changes(&self, applied: Applied, plan: &Plan, word: &str, entity: &DeclaredFile) -> Applied {
        let changes = plan.changes((word, "restored"), &self.inspection.host.below_root(&entity.path));
        match applied {
            Applied::Unchanged if !changes.is_empty() => Applied::Changed(changes),
            Applied::Changed(path) => Applied::Changed(path.into_iter().chain(changes).collect()),
            other => other,
        }
    }
}

/// Returns the error of an entity whose path was already changed. It is a failure even if force would help.
fn after_change(error: DeclaredError) -> DeclaredError {
    match error {
        DeclaredError::NeedsForce(reason) => DeclaredError::Never(format!("{reason} meanwhile")),
        error => error,
    }
}

/// Answers that hold back the result of an entity until further steps are done.
struct EndKept<'a> {
    answers: &'a mut dyn SetAnswers,
    has_begun: bool,
    end: Option<Applied>,
}

impl SetAnswers for EndKept<'_> {
    fn begin(&mut self, place: usize) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.answers.begin(place);
        }
    }

    fn output(&mut self, place: usize) -> Output<'_> {
        self.answers.output(place)
    }

    fn end(&mut self, _: usize, applied: Applied) {
        self.end = Some(applied);
    }

    fn hold_back(&mut self) {
        self.answers.hold_back();
    }

    fn flush(&mut self) {
        self.answers.flush();
    }
}

//! Prepares changes of declared files.

use super::{Consequences, Effect, Executor, Prepared};
use crate::declared::definition::FileDefinition;
use crate::declared::entity::DeclaredFile;
use crate::declared::inspection::{Scrubbing, own_path};
use crate::declared::wanted::DeclaredError;
use crate::declared::{self, preview};
use holo_change::base_store::Remembered;
use holo_change::tracked::{Decision, EntityChange, Found, PathChange, State, Tracks, Unmanaged};
use holo_change::{Image, PathHandle};
use holo_plugin::{Applied, Entity, ForceTo, Host, Job, Mode, Output, SetAnswers, Validation, ValidationError};
use std::path::{Path, PathBuf};

impl Executor<'_> {
    /// Determines the change of a file, and carries out the steps that precede it.
    pub(super) fn prepare(
        &self,
        index: usize,
        job: &Job<'_, DeclaredFile>,
        answers: &mut dyn SetAnswers,
    ) -> Result<Prepared, DeclaredError> {
        let (entity, mode, inspection) = (job.entity, job.mode, &self.inspection);
        let tracker = &inspection.tracker;
        let deciding = self.known.deciding(entity, inspection);
        if deciding.as_ref().is_some_and(|deciding| self.known.is_unchanged(deciding)) {
            return Ok(Prepared::Ended(Applied::Unchanged));
        }
        self.known.forget(entity);
        let mut record = inspection.recall(entity)?;
        let has_intents = record.as_ref().is_some_and(|record| record.base.have_intents());
        let mut has_begun = entity.overlay.is_some();
        if !has_begun && (entity.definition.is_none() || has_intents) {
            answers.begin(index);
            has_begun = true;
        }
        if let Some(record) = &mut record {
            tracker.recover_intents(record)?;
        }
        let Some(definition) = &entity.definition else {
            return self.prepare_scrub(index, entity, record, mode, &mut answers.output(index));
        };
        let mut subject = inspection.subject(entity, record)?;
        let (decision, wanted, current) = inspection.decide(&mut subject, definition, mode.force)?;
        let leftovers = inspection.leftovers(&subject, mode.force)?;
        match decision {
            // The record of permissions depends on the record of the path.
            Decision::Nothing if definition.declares_access() && !subject.is_known() => {}
            Decision::Nothing if subject.takes_over.is_empty() && leftovers.is_empty() => {
                self.keep_secret(&mut subject.remembered, &subject.path, definition)?;
                if let Some(deciding) = deciding.filter(|_| !has_intents && subject.is_known()) {
                    self.known.found_unchanged(&deciding);
                }
                return Ok(Prepared::Ended(Applied::Unchanged));
            }
            Decision::NeedsForce if !mode.force => return Ok(Prepared::Ended(Applied::NeedsForce(ForceTo::Overwrite))),
            Decision::Nothing | Decision::Change | Decision::NeedsForce => {}
        }
        if !has_begun {
            answers.begin(index);
        }
        let desired = wanted.desired();
        if let Some(bytes) = wanted.bytes.as_deref().filter(|_| decision != Decision::Nothing) {
            validate(entity, definition, bytes, inspection.host, &mut answers.output(index))?;
        }
        let replaces = current.content().is_some() && current.content() != desired.content();
        if let Some(suffix) = definition.backup.as_deref().filter(|_| replaces) {
            back_up(&tracker.place(&subject.path), suffix)?;
        }
        let mut remembered = Remembered::new(&entity.report(), subject.remembered.base);
        if !leftovers.is_empty() {
            let paths: Vec<PathBuf> = leftovers.keys().cloned().collect();
            tracker.put_back(&mut remembered, &paths, &leftovers).map_err(of_change)?;
        }
        let takes_over = subject.takes_over;
        if decision == Decision::Nothing {
            let paths = vec![path_change(definition, &subject.path, current.clone(), Some(current))];
            let change = EntityChange::make(remembered, paths, Vec::new());
            let consequences = Consequences { index, takes_over, force: mode.force, effect: Effect::None };
            return Ok(Prepared::Change(Box::new(change), consequences));
        }
        let mut found = (!mode.force).then(|| current.clone());
        // A symlink or file cannot become a directory in one step.
        if matches!(desired, State::Directory { .. }) && matches!(current, State::File { .. } | State::Symlink { .. }) {
            let gone = path_change(definition, &subject.path, State::Absent, found);
            tracker.make(&mut remembered, &[gone]).map_err(of_change)?;
            found = Some(State::Absent);
        }
        let was_sensitive = remembered.base.get(&subject.path).is_some_and(|track| track.sensitive);
        if !definition.sensitive && !was_sensitive && !matches!(desired, State::Directory { .. }) {
            let before = || preview::live(&subject.path, &current, inspection);
            inspection.host.keep_replaced(&subject.path, before, &mut answers.output(index));
        }
        let message = format!("{} {}", declared::change(&current, &desired).1, inspection.shown(&entity.path));
        let paths = wanted.states.into_iter().map(|(path, state)| {
            let found = found.clone().filter(|_| path == subject.path);
            path_change(definition, &path, state, found)
        });
        let change = EntityChange::make(remembered, paths.collect(), wanted.bytes.into_iter().collect());
        let consequences = Consequences { index, takes_over, force: mode.force, effect: Effect::Made(message) };
        Ok(Prepared::Change(Box::new(change), consequences))
    }

    /// Determines how an orphan is restored.
    fn prepare_scrub(
        &self,
        index: usize,
        entity: &DeclaredFile,
        record: Option<Remembered<Tracks>>,
        mode: Mode<'_>,
        output: &mut Output<'_>,
    ) -> Result<Prepared, DeclaredError> {
        let Some(remembered) = record else { return Ok(Prepared::Ended(Applied::Unchanged)) };
        let Scrubbing { found, needs_force } = self.inspection.scrubbing(&remembered.base)?;
        if needs_force && !mode.force {
            return Ok(Prepared::Ended(Applied::NeedsForce(ForceTo::Overwrite)));
        }
        for (path, current) in &found {
            let track = remembered.base.get(path).filter(|track| track.base != *current && !track.sensitive);
            if track.is_some() && !matches!(current, State::Directory { .. }) {
                let before = || preview::live(path, current, &self.inspection);
                self.inspection.host.keep_replaced(path, before, output);
            }
        }
        let path = own_path(&remembered.base, &entity.path);
        let before = found.get(&path).cloned().unwrap_or(State::Absent);
        let base = remembered.base.get(&path).map_or(State::Absent, |track| track.beside(&before).base);
        let shown = self.inspection.shown(&entity.path);
        let effect = Effect::Scrubbed { shown, path, base, before, is_anything_found: !found.is_empty() };
        let found = if mode.force { Found::new() } else { found };
        let consequences = Consequences { index, takes_over: Vec::new(), force: mode.force, effect };
        Ok(Prepared::Change(Box::new(EntityChange::scrub(remembered, found)), consequences))
    }

    /// Records that a file in its desired state has become sensitive.
    fn keep_secret(
        &self,
        remembered: &mut Remembered<Tracks>,
        path: &Path,
        definition: &FileDefinition,
    ) -> Result<(), DeclaredError> {
        let is_open = remembered.base.get(path).is_some_and(|track| !track.sensitive);
        if definition.sensitive && is_open {
            remembered.base.set_sensitive(path, true);
            self.inspection.bases.keep(remembered)?;
        }
        Ok(())
    }
}

/// Runs the declared validation program on the new file.
fn validate(
    entity: &DeclaredFile,
    definition: &FileDefinition,
    bytes: &[u8],
    host: &Host,
    output: &mut Output<'_>,
) -> Result<(), DeclaredError> {
    let Some(command) = &definition.validate else { return Ok(()) };
    let validation = Validation { command, sensitive: definition.sensitive, timeout: entity.timeout };
    validation.run(&entity.path, bytes, host, output).map_err(|ValidationError(reason)| DeclaredError::Never(reason))
}

/// Copies the current file to a backup next to it.
fn back_up(place: &PathHandle, suffix: &str) -> Result<(), DeclaredError> {
    match Image::load(place)? {
        Some(image) => Ok(image.put(&place.with_suffix(suffix))?),
        None => Ok(()),
    }
}

fn path_change(definition: &FileDefinition, path: &Path, desired: State, found: Option<State>) -> PathChange {
    let new = PathChange::new(path, desired);
    let attributes_only = definition.content.is_none() && definition.source.is_none();
    PathChange { found, in_place: definition.in_place, attributes_only, sensitive: definition.sensitive, ..new }
}

pub(super) fn of_change(error: Unmanaged) -> DeclaredError {
    match error {
        Unmanaged::Meanwhile(_) => DeclaredError::Meanwhile,
        error => DeclaredError::Never(error.to_string()),
    }
}

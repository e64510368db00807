//! Applies repositories: first their files, then one refresh of the index for all that have changed.

use super::inspection::{Inspection, Plan, PlannedFile, RepositoryError};
use super::{AnyRecord, Record, RepositoryEntity};
use crate::manager::Manager;
use crate::model::PackageError;
use crate::providers::PackageProvider;
use holo_change::Tree;
use holo_change::base_store::Remembered;
use holo_change::tracked::{Found, PathChange, State};
use holo_plugin::{Applied, ForceTo, Host, Job, MAX_REPLACED, Mode, Output, SetAnswers, Shown, edited};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;

/// A repository whose files are up to date, but whose index is not.
struct Changed<'a> {
    index: usize,
    entity: &'a RepositoryEntity,
    remembered: Remembered<Record>,
    /// The messages about completed changes.
    said: Vec<String>,
}

/// The result of applying the files of a repository.
enum Files<'a> {
    Ended(Applied),
    Changed(&'static dyn PackageProvider, Changed<'a>),
}

/// Applies repositories in order.
pub(crate) fn apply<'a>(host: &Host, jobs: &[Job<'a, RepositoryEntity>], answers: &mut dyn SetAnswers) {
    let opened = Tree::open(host.state_dir()).and_then(|state| state.hold()).map_err(RepositoryError::from);
    let opened = opened.and_then(|held| Ok((held, Inspection::open(host)?)));
    let (_held, inspection) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            for index in 0..jobs.len() {
                let applied = told(error.clone(), true, &mut answers.output(index));
                answers.end(index, applied);
            }
            return;
        }
    };
    let mut changed: BTreeMap<&str, (&'static dyn PackageProvider, Vec<Changed<'a>>)> = BTreeMap::new();
    // Defined entities come first, because they may take over paths of orphans.
    let (orphans, defined): (Vec<_>, Vec<_>) =
        jobs.iter().enumerate().partition(|(_, job)| job.entity.definition.is_none());
    for (index, job) in defined.into_iter().chain(orphans) {
        match apply_files(&inspection, index, job, answers) {
            Ok(Files::Ended(applied)) => answers.end(index, applied),
            Ok(Files::Changed(provider, one)) => {
                changed.entry(provider.name()).or_insert((provider, Vec::new())).1.push(one);
            }
            Err(error) => {
                let applied = told(error, false, &mut answers.output(index));
                answers.end(index, applied);
            }
        }
    }
    for (provider, all) in changed.into_values() {
        fetch(&inspection, provider, all, answers);
    }
    let ids: BTreeSet<&str> = jobs.iter().map(|job| job.entity.id.as_str()).collect();
    if let Some(last) = jobs.len().checked_sub(1)
        && let Err(error) = inspection.tracker.tidy::<AnyRecord>(|id| ids.contains(id), &mut answers.output(last))
    {
        answers.output(last).warning(error.to_string());
    }
}

fn told(error: RepositoryError, nothing_changed: bool, output: &mut Output<'_>) -> Applied {
    match error {
        RepositoryError::Meanwhile => Applied::NeedsForce(ForceTo::Overwrite),
        RepositoryError::Failed(problem) => {
            problem.tell(output);
            if nothing_changed { Applied::FAILED_UNCHANGED } else { Applied::FAILED }
        }
    }
}

fn apply_files<'a>(
    inspection: &Inspection<'_>,
    index: usize,
    job: &Job<'a, RepositoryEntity>,
    answers: &mut dyn SetAnswers,
) -> Result<Files<'a>, RepositoryError> {
    let entity = job.entity;
    let provider = match inspection.provider(entity) {
        Ok(provider) => provider,
        Err(error) => return Ok(Files::Ended(told(error, true, &mut answers.output(index)))),
    };
    let mut record = inspection.recall(entity)?;
    if let Some(record) = &mut record {
        inspection.tracker.recover_intents(record)?;
    }
    let is_present = entity.definition.as_ref().is_some_and(|definition| !definition.is_gone());
    if is_present && let Err(error) = inspection.check_way(entity) {
        return Ok(Files::Ended(told(error, true, &mut answers.output(index))));
    }
    if entity.definition.is_none() && record.is_none() {
        return Ok(Files::Ended(Applied::Unchanged));
    }
    let plan = inspection.plan(entity, record)?;
    if plan.is_refused(job.mode) {
        return Ok(Files::Ended(Applied::NeedsForce(ForceTo::Overwrite)));
    }
    let is_due = plan.remembered.base.is_index_due && entity.definition.is_some();
    if entity.definition.is_some() && plan.changes_nothing() && plan.takes_over.is_empty() && !is_due {
        return Ok(Files::Ended(Applied::Unchanged));
    }
    let is_changed = !plan.changes_nothing() || is_due;
    if is_changed && let Some(deferred) = Manager::new(inspection.host, provider)?.deferral() {
        return Ok(Files::Ended(deferred));
    }
    answers.begin(index);
    let kept = plan.files.iter().filter(|file| file.is_edited && job.mode.keeps_edited());
    let kept: Vec<String> = kept.map(|file| edited::kept(&inspection.host.below_root(&file.path))).collect();
    let changes = plan.changes().map(|(verb, path)| format!("{} {}", verb.past(), inspection.shown(path)));
    let said: Vec<String> = kept.into_iter().chain(changes).collect();
    let remembered = carry_out(inspection, entity, plan, job.mode, &mut answers.output(index))?;
    if !is_changed {
        // Only a record was removed, or another entity has taken over the files.
        let applied = if entity.definition.is_none() { Applied::Changed(Vec::new()) } else { Applied::Unchanged };
        return Ok(Files::Ended(applied));
    }
    Ok(Files::Changed(provider, Changed { index, entity, remembered, said }))
}

/// Writes the files of a repository, or restores the original ones. The record of a pending refresh is on disk before the first step.
fn carry_out(
    inspection: &Inspection<'_>,
    entity: &RepositoryEntity,
    plan: Plan,
    mode: Mode<'_>,
    output: &mut Output<'_>,
) -> Result<Remembered<Record>, RepositoryError> {
    let is_due = plan.remembered.base.is_index_due || !plan.changes_nothing();
    let tracker = &inspection.tracker;
    let Plan { remembered, takes_over, files, leftovers, .. } = plan;
    let mut remembered = Remembered::new(&entity.full_report(), remembered.base);
    remembered.base.is_index_due = is_due;
    if entity.definition.is_none() {
        tracker.scrub(&mut remembered, &if mode.force { Found::new() } else { leftovers })?;
        return Ok(remembered);
    }
    if !leftovers.is_empty() {
        let paths: Vec<PathBuf> = leftovers.keys().cloned().collect();
        tracker.put_back(&mut remembered, &paths, &if mode.force { Found::new() } else { leftovers })?;
    }
    tracker.keep_many(files.iter().filter_map(|file| file.bytes.as_deref()))?;
    let mut changes = Vec::new();
    for file in files {
        if file.is_edited && mode.keeps_edited() {
            let place = tracker.place(&file.path);
            let sensitive = is_secret(&file, &remembered.base);
            if inspection.host.keep_edited(&entity.id, &file.path, &place, sensitive)? != file.current {
                return Err(RepositoryError::Meanwhile);
            }
        }
        if file.current != file.desired {
            keep_replaced(inspection, &file, &remembered.base, output);
        }
        let found = (!mode.force).then_some(file.current);
        let change = PathChange::new(file.path, file.desired);
        changes.push(PathChange { found, sensitive: file.sensitive, ..change });
    }
    tracker.make(&mut remembered, &changes)?;
    for other in takes_over {
        output.warning(format!("{} takes over from {other}", remembered.id));
    }
    Ok(remembered)
}

/// Returns true if the content of a file must not be displayed.
fn is_secret(file: &PlannedFile, record: &Record) -> bool {
    file.sensitive || record.tracks.get(&file.path).is_some_and(|track| track.sensitive)
}

/// Stores a replaced file in the history of the run, unless it is secret.
fn keep_replaced(inspection: &Inspection<'_>, file: &PlannedFile, record: &Record, output: &mut Output<'_>) {
    if is_secret(file, record) {
        return;
    }
    let before = || -> Result<Option<Shown>, RepositoryError> {
        let State::File { attributes, .. } = &file.current else { return Ok(None) };
        let mut content = Vec::new();
        let opened = inspection.tracker.place(&file.path).open()?;
        let read = opened.take(MAX_REPLACED + 1).read_to_end(&mut content);
        read.map_err(|error| PackageError::new(error.to_string()))?;
        Ok(Some(Shown::File { content, mode: attributes.mode }))
    };
    inspection.host.keep_replaced(&file.path, before, output);
}

/// Refreshes the index for all changed repositories of a package manager.
fn fetch(
    inspection: &Inspection<'_>,
    provider: &'static dyn PackageProvider,
    all: Vec<Changed<'_>>,
    answers: &mut dyn SetAnswers,
) {
    let Some(first) = all.iter().find(|one| one.entity.definition.is_some()).or(all.first()) else { return };
    let fetched = {
        let output = &mut answers.output(first.index);
        refresh(inspection.host, provider, &all, output)
    };
    let told_by = first.index;
    for Changed { index, entity, mut remembered, mut said } in all {
        let output = &mut answers.output(index);
        let applied = match &fetched {
            // The repository is removed even if the refresh fails because of another one.
            Err(problem) if entity.definition.is_none() => {
                output.warning(format!("the index of packages could not be fetched: {}", problem.summary));
                Applied::Changed(said)
            }
            Err(problem) => {
                let problem = if index == told_by { problem.clone() } else { problem.for_others() };
                told(problem.into(), false, output)
            }
            Ok(()) => {
                remembered.base.is_index_due = false;
                let kept = match entity.definition {
                    Some(_) => inspection.bases.keep(&remembered),
                    None => Ok(()),
                };
                match kept {
                    Ok(()) => {
                        if index == told_by {
                            said.push("fetched the index of packages".to_owned());
                        }
                        Applied::Changed(said)
                    }
                    Err(error) => told(error.into(), false, output),
                }
            }
        };
        answers.end(index, applied);
    }
}

fn refresh(
    host: &Host,
    provider: &'static dyn PackageProvider,
    changed: &[Changed<'_>],
    output: &mut Output<'_>,
) -> Result<(), PackageError> {
    let mut manager = Manager::new(host, provider)?;
    manager.system.timeout = changed.iter().filter_map(|one| one.entity.timeout).max();
    for definition in changed.iter().filter_map(|one| one.entity.definition.as_ref()) {
        if let Some(mut program) = provider.trust(&manager.system, definition) {
            manager.fetch(&mut program, output)?;
        }
    }
    manager.refresh(output)
}

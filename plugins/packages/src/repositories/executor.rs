//! Applies repositories: first their files, then one refresh of the index for all that have changed.

use super::inspection::{Inspection, Plan, PlannedFile, RepositoryError};
use super::{AnyRecord, Record, RepositoryEntity, failures};
use crate::manager::Manager;
use crate::model::PackageError;
use crate::providers::PackageProvider;
use holo_change::Tree;
use holo_change::base_store::Remembered;
use holo_change::tracked::{Found, PathChange, State};
use holo_plugin::{Applied, ForceTo, Host, Job, MAX_REPLACED, Mode, Output, SetAnswers, Shown, edited};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// A repository whose files are up to date, but whose index is not.
struct Changed<'a> {
    index: usize,
    entity: &'a RepositoryEntity,
    remembered: Remembered<Record>,
    /// The files that were changed, as they were before.
    before: Before,
    /// The messages about completed changes.
    said: Vec<String>,
}

/// What it takes to undo the changes of a repository.
#[derive(Default)]
struct Before {
    /// The files that the repository had when its index was last fetched.
    had: BTreeSet<PathBuf>,
    /// The changed ones among them, with their former states.
    files: Vec<PathChange>,
    contents: Vec<Vec<u8>>,
}

impl Before {
    /// Adds a file that is about to be changed.
    fn add(
        &mut self,
        inspection: &Inspection<'_>,
        path: &Path,
        current: &State,
        sensitive: bool,
    ) -> Result<(), RepositoryError> {
        if !self.had.contains(path) {
            return Ok(());
        }
        if current.content().is_some() {
            let mut content = Vec::new();
            let read = inspection.tracker.place(path).open()?.read_to_end(&mut content);
            read.map_err(|error| PackageError::new(error.to_string()))?;
            self.contents.push(content);
        }
        self.files.push(PathChange { sensitive, ..PathChange::new(path, current.clone()) });
        Ok(())
    }
}

impl Changed<'_> {
    /// Returns true if a refresh of the index failed because of this repository, as far as the package manager says so.
    fn is_named_by(&self, problem: &PackageError) -> bool {
        let Some(definition) = self.entity.definition.as_ref().filter(|definition| !definition.is_gone()) else {
            return false;
        };
        let addresses: Vec<String> = definition.addresses().map(|address| address.plain).collect();
        let names = ["'", "\""].map(|quote| {
            [format!("{quote}{}{quote}", definition.name), format!("{quote}{}.db{quote}", definition.name)]
        });
        // What apt says of repositories that did not make it fail.
        let is_harmless = |line: &str| ["W:", "Get:", "Hit:", "Ign:"].iter().any(|sign| line.starts_with(sign));
        problem.lines.iter().filter(|line| !is_harmless(line)).any(|line| {
            let has_suite = definition.suites.is_empty() || definition.suites.iter().any(|suite| line.contains(suite));
            has_suite && addresses.iter().any(|address| has_word(line, address.trim_end_matches('/')))
                || names.iter().flatten().any(|name| line.contains(name))
        })
    }

    /// Undoes the changes.
    fn put_back(&mut self, inspection: &Inspection<'_>) -> Result<(), RepositoryError> {
        let Before { had, files, contents } = std::mem::take(&mut self.before);
        let tracker = &inspection.tracker;
        if had.is_empty() {
            return Ok(tracker.scrub(&mut self.remembered, &Found::new())?);
        }
        let paths = self.remembered.base.tracks.iter().map(|(path, _)| path);
        let new: Vec<PathBuf> = paths.filter(|path| !had.contains(path)).collect();
        tracker.put_back(&mut self.remembered, &new, &Found::new())?;
        tracker.keep_many(contents.iter().map(Vec::as_slice))?;
        tracker.make(&mut self.remembered, &files)?;
        self.remembered.base.is_index_due = false;
        Ok(inspection.bases.keep(&self.remembered)?)
    }
}

/// Returns true if a text contains a word, and not only as the beginning of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_.+".contains(letter);
    text.match_indices(word)
        .any(|(place, word)| !text.get(place + word.len()..).is_some_and(|rest| rest.starts_with(is_part)))
}

/// The result of applying the files of a repository.
enum Files<'a> {
    Ended(Applied),
    Changed(&'static dyn PackageProvider, Box<Changed<'a>>),
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
                changed.entry(provider.name()).or_insert((provider, Vec::new())).1.push(*one);
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
    let kept = plan.files.iter().filter(|file| file.is_edited && job.mode.overwrites());
    let kept: Vec<String> = kept.map(|file| edited::kept(&inspection.host.below_root(&file.path))).collect();
    let changes = plan.changes().map(|(verb, path)| format!("{} {}", verb.past(), inspection.shown(path)));
    let said: Vec<String> = kept.into_iter().chain(changes).collect();
    let (remembered, before) = carry_out(inspection, entity, plan, job.mode, &mut answers.output(index))?;
    if !is_changed {
        // Only a record was removed, or another entity has taken over the files.
        let applied = if entity.definition.is_none() { Applied::Changed(Vec::new()) } else { Applied::Unchanged };
        return Ok(Files::Ended(applied));
    }
    let changed = Changed { index, entity, remembered, before, said };
    Ok(Files::Changed(provider, Box::new(changed)))
}

/// Writes the files of a repository, or restores the original ones. The record of a pending refresh is on disk before the first step.
fn carry_out(
    inspection: &Inspection<'_>,
    entity: &RepositoryEntity,
    plan: Plan,
    mode: Mode<'_>,
    output: &mut Output<'_>,
) -> Result<(Remembered<Record>, Before), RepositoryError> {
    let is_due = plan.remembered.base.is_index_due || !plan.changes_nothing();
    let tracker = &inspection.tracker;
    let Plan { remembered, takes_over, files, leftovers, .. } = plan;
    let mut remembered = Remembered::new(&entity.full_report(), remembered.base);
    let tracks = remembered.base.tracks.iter().filter(|_| !remembered.base.is_index_due);
    let had = tracks.map(|(path, _)| path).collect();
    let mut before = Before { had, ..Before::default() };
    remembered.base.is_index_due = is_due;
    if mode.force {
        let records = (tracker, &remembered.base.tracks);
        inspection.host.save_edited_of(&entity.id, records, &leftovers, output)?;
    }
    if entity.definition.is_none() {
        tracker.scrub(&mut remembered, &if mode.force { Found::new() } else { leftovers })?;
        return Ok((remembered, before));
    }
    for (path, current) in &leftovers {
        let sensitive = remembered.base.tracks.get(path).is_some_and(|track| track.sensitive);
        before.add(inspection, path, current, sensitive)?;
    }
    if !leftovers.is_empty() {
        let paths: Vec<PathBuf> = leftovers.keys().cloned().collect();
        tracker.put_back(&mut remembered, &paths, &if mode.force { Found::new() } else { leftovers })?;
    }
    tracker.keep_many(files.iter().filter_map(|file| file.bytes.as_deref()))?;
    let mut changes = Vec::new();
    for file in files {
        let sensitive = is_secret(&file, &remembered.base);
        if file.is_edited && mode.overwrites() {
            let place = tracker.place(&file.path);
            if inspection.host.keep_edited(&entity.id, &file.path, &place, sensitive)? != file.current {
                return Err(RepositoryError::Meanwhile);
            }
        }
        if file.current != file.desired {
            before.add(inspection, &file.path, &file.current, sensitive)?;
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
    Ok((remembered, before))
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

/// Refreshes the index for all changed repositories of a package manager. Those that make it fail are put back, as nobody could fetch the
/// index with their files in place.
fn fetch(
    inspection: &Inspection<'_>,
    provider: &'static dyn PackageProvider,
    all: Vec<Changed<'_>>,
    answers: &mut dyn SetAnswers,
) {
    let Some(first) = all.iter().find(|one| one.entity.definition.is_some()).or(all.first()) else { return };
    let first = first.index;
    let problem = match refresh(inspection.host, provider, &all, &mut answers.output(first)) {
        Ok(()) => return settle(inspection, provider, all, &Ok(()), answers),
        Err(problem) => problem,
    };
    let (at_fault, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.is_named_by(&problem));
    if at_fault.is_empty() {
        return settle(inspection, provider, others, &Err(problem), answers);
    }
    let put_back = at_fault.into_iter().map(|mut one| (one.put_back(inspection), one));
    let put_back: Vec<(Result<(), RepositoryError>, Changed<'_>)> = put_back.collect();
    let fetched = match &problem {
        problem if problem.is_general => Err(problem.for_others()),
        _ => refresh(inspection.host, provider, &others, &mut answers.output(first)),
    };
    for (number, (done, Changed { index, entity, .. })) in put_back.into_iter().enumerate() {
        let output = &mut answers.output(index);
        note_failure(inspection.host, provider, entity);
        let problem = if number == 0 { problem.clone() } else { problem.for_others() };
        let applied = match done {
            Ok(()) => {
                let summary = format!("{}; its changes were undone", problem.summary);
                told(PackageError { summary, ..problem }.into(), true, output)
            }
            Err(error) => {
                problem.tell(output);
                told(error, false, output)
            }
        };
        answers.end(index, applied);
    }
    settle(inspection, provider, others, &fetched, answers);
}

/// Answers changed repositories, after the index was fetched.
fn settle(
    inspection: &Inspection<'_>,
    provider: &dyn PackageProvider,
    all: Vec<Changed<'_>>,
    fetched: &Result<(), PackageError>,
    answers: &mut dyn SetAnswers,
) {
    let Some(first) = all.iter().find(|one| one.entity.definition.is_some()).or(all.first()) else { return };
    let told_by = first.index;
    for Changed { index, entity, mut remembered, mut said, .. } in all {
        let output = &mut answers.output(index);
        let applied = match fetched {
            // The repository is removed even if the refresh fails because of another one.
            Err(problem) if entity.definition.is_none() => {
                output.warning(format!("the index of packages could not be fetched: {}", problem.summary));
                Applied::Changed(said)
            }
            Err(problem) => {
                note_failure(inspection.host, provider, entity);
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

/// Records that a repository failed, for packages that are not found.
fn note_failure(host: &Host, provider: &dyn PackageProvider, entity: &RepositoryEntity) {
    let path = failures(host.cache_dir(), provider);
    // Without the record, messages are less helpful.
    let _ = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| writeln!(file, "{}", entity.id));
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

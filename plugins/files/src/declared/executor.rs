//! Prepares changes of declared files, and applies and scrubs many together.

mod with_access;

use super::access::{self, Accesses, ChangedAlong};
use super::entity::DeclaredFile;
use super::inspection::{Inspection, can_be_kept};
use super::wanted::DeclaredError;
use crate::declared::definition::FileDefinition;
use crate::declared::inspection::{Scrubbing, own_path};
use crate::declared::{self, preview};
use holo_change::base_store::Remembered;
use holo_change::tracked::{Decision, EntityChange, Found, PathChange, State, TrackStore, Tracker, Tracks, Unmanaged};
use holo_change::{Commits, Ended, Image, PathHandle, Tree, commit};
use holo_plugin::{Applied, Entity, ForceTo, Host, Job, Mode, Output, SetAnswers, Verdict, edited};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The maximum number of attempts with `--force` if the file keeps being changed concurrently.
const ATTEMPTS: usize = 3;

struct Executor<'a> {
    inspection: Inspection<'a>,
    store: TrackStore<Tracks>,
    /// True if there may be permission records.
    has_access: bool,
    /// The changes made before an entity is applied, by its index: its overlay was removed, or its original permissions were restored.
    changed_before: BTreeMap<usize, Result<Vec<String>, DeclaredError>>,
}

/// What to do after a change, besides its files.
struct Consequences {
    /// The index of the entity in its set.
    index: usize,
    /// The entities from which the path is taken over.
    takes_over: Vec<String>,
    /// True if concurrent changes are overwritten.
    force: bool,
    effect: Effect,
}

/// The effect of a change.
enum Effect {
    /// The entity is provisioned, with this result.
    Provisioned(Applied),
    /// The original state of the path is restored, unless other entities have taken over everything.
    Scrubbed { shown: String, path: PathBuf, base: State, before: State, is_taken: bool },
}

/// The result of preparing a change.
enum Prepared {
    /// Nothing is left to do.
    Ended(Applied),
    Change(Box<EntityChange<Tracks>>, Consequences),
}

/// Applies declared files, and commits independent changes together.
pub(crate) fn apply(host: &Host, set: &[Job<'_, DeclaredFile>], answers: &mut dyn SetAnswers) {
    // Scrubbing an overlay takes the lock of the state directory itself.
    let (mut ready, mut changed_before) = (Vec::new(), BTreeMap::new());
    for (index, job) in set.iter().enumerate() {
        let Some(overlay) = &job.entity.overlay else {
            ready.push((index, *job));
            continue;
        };
        answers.begin(index);
        let inspection = Inspection::open(host);
        let check = |inspection: &Inspection<'_>| inspection.check(job.entity, job.mode, &mut answers.output(index));
        // An overlay whose file cannot be declared then keeps what a person has changed.
        let hindered = match inspection.as_ref().map_err(Clone::clone).and_then(check) {
            Ok(Verdict::NeedsForce(to)) if !job.mode.force => Some(Applied::NeedsForce(to)),
            Err(DeclaredError::NeedsForce(_)) if job.mode.force => None,
            Err(error) => {
                let applied = error.tell(&mut answers.output(index));
                let rival = inspection.and_then(|inspection| Ok(inspection.rival(job.entity)?.is_some()));
                Some(match rival {
                    // The entity that made the file may no longer want it, but can only remove it without the overlay.
                    Ok(true) => {
                        overlay.apply(host, job.mode, &mut answers.output(index));
                        applied
                    }
                    _ => applied.with_nothing_changed(),
                })
            }
            Ok(_) => None,
        };
        if let Some(hindered) = hindered {
            answers.end(index, hindered);
            continue;
        }
        let before = job.entity.live(host);
        match overlay.apply(host, job.mode, &mut answers.output(index)) {
            Applied::Changed(_) | Applied::ChangedQuietly(_) | Applied::Unchanged => {
                if job.entity.live(host) != before {
                    let shown = host.below_root(&job.entity.path);
                    changed_before.insert(index, Ok(vec![format!("wrote {}", shown.display())]));
                }
                ready.push((index, *job));
            }
            other => answers.end(index, other),
        }
    }
    let opened = Tree::open(host.state_dir()).and_then(|state| state.hold()).map_err(DeclaredError::from);
    match opened.and_then(|held| Ok((held, Executor::open(host, changed_before, &ready, answers)?))) {
        Ok((_held, executor)) => executor.apply(&ready, answers),
        Err(error) => {
            for (index, _) in ready {
                let applied = error.clone().tell(&mut answers.output(index));
                answers.end(index, applied);
            }
        }
    }
}

impl<'a> Executor<'a> {
    fn open(
        host: &'a Host,
        mut changed_before: BTreeMap<usize, Result<Vec<String>, DeclaredError>>,
        jobs: &[(usize, Job<'_, DeclaredFile>)],
        answers: &mut dyn SetAnswers,
    ) -> Result<Executor<'a>, DeclaredError> {
        let inspection = Inspection::open(host)?;
        let store = TrackStore::open(&inspection.tracker)?.with_threads(host.jobs());
        let has_access = access::has_records(host);
        if has_access {
            let entities: Vec<_> = jobs.iter().map(|(index, job)| (*index, job.entity)).collect();
            let mut begin = |index: usize| {
                if !changed_before.contains_key(&index) {
                    answers.begin(index);
                }
            };
            for (index, restored) in ChangedAlong::read(host)?.give_up(&entities, &inspection, &mut begin)? {
                changed_before.entry(index).or_insert(restored);
            }
        }
        Ok(Executor { inspection, store, has_access, changed_before })
    }

    /// Applies files. Each comes with its index in the set.
    fn apply(&self, jobs: &[(usize, Job<'_, DeclaredFile>)], answers: &mut dyn SetAnswers) {
        let mut commits = Commits::default();
        // Declared entities come first, because they may take over paths of orphans.
        let (declared, orphans): (Vec<_>, Vec<_>) = jobs.iter().partition(|(_, job)| job.entity.definition.is_some());
        for (number, &(index, job)) in declared.iter().copied().chain(orphans).enumerate() {
            let validates = job.entity.definition.as_ref().is_some_and(|definition| definition.validate.is_some());
            // The validation program may read files that were changed before.
            if validates || number == declared.len() {
                self.tell(commits.flush(&self.store), answers);
            }
            if let Some(Err(error)) = self.changed_before.get(&index) {
                let applied = error.clone().tell(&mut answers.output(index));
                answers.end(index, applied);
                continue;
            }
            if Accesses::concern(job.entity, || self.has_access) {
                self.tell(commits.flush(&self.store), answers);
                self.apply_with_access(index, job, answers);
                continue;
            }
            self.begin(index, job, &mut commits, answers);
            // The next file is inspected only after the changes on which it may depend are committed.
            self.tell(commits.poll(&self.store, false), answers);
        }
        self.tell(commits.flush(&self.store), answers);
    }

    /// Prepares the change of a file, and adds it to the group that is committed together.
    fn begin(
        &self,
        index: usize,
        job: Job<'_, DeclaredFile>,
        commits: &mut Commits<TrackStore<Tracks>, Consequences>,
        answers: &mut dyn SetAnswers,
    ) {
        match self.prepare(index, &job, answers) {
            Ok(Prepared::Change(change, consequences)) => commits.add(*change, consequences, &self.store),
            Ok(Prepared::Ended(applied)) => answers.end(index, applied),
            Err(error) => {
                let applied = error.tell(&mut answers.output(index));
                // A scrub may have been completed partially.
                let is_untouched = job.entity.definition.is_some() && job.entity.overlay.is_none();
                answers.end(index, if is_untouched { applied.with_nothing_changed() } else { applied });
            }
        }
    }

    fn tell(&self, ended: Vec<Ended<TrackStore<Tracks>, Consequences>>, answers: &mut dyn SetAnswers) {
        for (mut change, consequences, mut result) in ended {
            let Consequences { index, takes_over, force, effect } = consequences;
            for _ in 1..ATTEMPTS {
                if !force || !matches!(result, Err(Unmanaged::Meanwhile(_))) {
                    break;
                }
                result = commit(&self.store, std::slice::from_mut(&mut change)).pop().unwrap_or(Ok(()));
            }
            let mut output = answers.output(index);
            let applied = match result {
                Ok(()) => {
                    for other in takes_over {
                        output.warning(format!("{} takes over from {other}", change.remembered.id));
                    }
                    self.applied(&change.remembered, effect, &mut output)
                }
                Err(error) => Err(of_change(error)),
            };
            let applied = applied.unwrap_or_else(|error| error.tell(&mut output));
            answers.end(index, applied);
        }
    }

    /// Returns the result of a committed change.
    fn applied(
        &self,
        remembered: &Remembered<Tracks>,
        effect: Effect,
        output: &mut Output<'_>,
    ) -> Result<Applied, DeclaredError> {
        let (shown, path, base, before, is_taken) = match effect {
            Effect::Provisioned(applied) => return Ok(applied),
            Effect::Scrubbed { shown, path, base, before, is_taken } => (shown, path, base, before, is_taken),
        };
        let waits = !remembered.base.is_empty();
        if is_taken {
            return Ok(Applied::Unchanged);
        }
        if waits {
            output.warning(format!("{shown} will be restored when its overlay is removed"));
        }
        let is_left = || Ok::<_, DeclaredError>(self.inspection.tracker.state(&path)? != State::Absent);
        if base == State::Absent && before != State::Absent && is_left()? {
            return Ok(Applied::Changed(vec![format!("kept {shown}, because it is not empty")]));
        }
        let back = super::back(&base, &before);
        if back == super::FORGET && self.inspection.tracker.is_overlaid(&path) {
            // The overlay that replaces it was applied already, by an apply that was killed then.
            return Ok(Applied::Unchanged);
        }
        let what = if back == super::FORGET { remembered.id.clone() } else { shown };
        Ok(Applied::Changed(vec![format!("{} {what}", back.1)]))
    }
}

/// Removes records that are no longer needed.
pub(crate) fn tidy(
    host: &Host,
    is_ours: impl Fn(&str) -> bool,
    output: &mut Output<'_>,
) -> holo_change::error::Result<()> {
    let _held = Tree::open(host.state_dir())?.hold()?;
    let tracker = Tracker::open(host.locations())?;
    tracker.tidy::<Tracks>(is_ours, output)?;
    access::tidy(host, tracker.bases(), output)
}

impl Executor<'_> {
    /// Determines the change of a file, and carries out the steps that precede it.
    fn prepare(
        &self,
        index: usize,
        job: &Job<'_, DeclaredFile>,
        answers: &mut dyn SetAnswers,
    ) -> Result<Prepared, DeclaredError> {
        let (entity, mode, inspection) = (job.entity, job.mode, &self.inspection);
        let tracker = &inspection.tracker;
        let mut record = inspection.recall(entity)?;
        let has_intents = record.as_ref().is_some_and(|record| record.base.have_intents());
        let mut has_begun = entity.overlay.is_some() || self.changed_before.contains_key(&index);
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
        if entity.overlay.is_some() {
            // Unless it has restored its base, it has left a new version of the package manager.
            tracker.renew(&mut subject.remembered, &subject.path)?;
        }
        let (decision, wanted, current) = inspection.decide(&mut subject, definition, mode.force)?;
        let leftovers = inspection.leftovers(&subject, mode.force)?;
        // The result if nothing is left to do.
        let as_it_is = match self.changed_before.get(&index) {
            Some(changed) => Applied::Changed(changed.clone()?),
            None => Applied::Unchanged,
        };
        match decision {
            // Its state is recorded, so that a later manual change is recognized. The record of permissions depends on that of the path.
            Decision::Nothing if !subject.is_recorded(definition, &current) => {}
            Decision::Nothing if subject.takes_over.is_empty() && leftovers.is_empty() => {
                self.keep_secret(&mut subject.remembered, &subject.path, definition)?;
                return Ok(Prepared::Ended(as_it_is));
            }
            Decision::NeedsForce if !mode.force && !can_be_kept(&wanted, mode) => {
                return Ok(Prepared::Ended(Applied::NeedsForce(ForceTo::Overwrite)));
            }
            Decision::Change if !mode.force => inspection.reject_edits(&subject)?,
            Decision::Nothing | Decision::Change | Decision::NeedsForce => {}
        }
        if !has_begun {
            answers.begin(index);
        }
        let desired = wanted.desired();
        if let Some(bytes) = wanted.bytes.as_deref().filter(|_| decision != Decision::Nothing) {
            inspection.validate(entity, definition, bytes, &mut answers.output(index))?;
        }
        let replaces = current.content().is_some() && current.content() != desired.content();
        if let Some(suffix) = definition.backup.as_deref().filter(|_| replaces) {
            back_up(&tracker.place(&subject.path), suffix)?;
        }
        let mut remembered = Remembered::new(&entity.report(), subject.remembered.base);
        if !leftovers.is_empty() {
            let paths: Vec<PathBuf> = leftovers.keys().cloned().collect();
            let records = (tracker, &remembered.base);
            let saved = inspection.host.save_edited_of(entity.id(), records, &leftovers, &mut answers.output(index));
            saved.map_err(of_change)?;
            tracker.put_back(&mut remembered, &paths, &leftovers).map_err(of_change)?;
        }
        let takes_over = subject.takes_over;
        if decision == Decision::Nothing {
            let paths = vec![path_change(definition, &subject.path, current.clone(), Some(current))];
            let change = EntityChange::make(remembered, paths, Vec::new());
            let effect = Effect::Provisioned(as_it_is);
            let consequences = Consequences { index, takes_over, force: mode.force, effect };
            return Ok(Prepared::Change(Box::new(change), consequences));
        }
        let was_sensitive = remembered.base.get(&subject.path).is_some_and(|track| track.sensitive);
        let sensitive = definition.sensitive || was_sensitive;
        let is_file = matches!(current, State::File { .. } | State::Symlink { .. });
        let has_content = is_file || !matches!(desired, State::Directory { .. });
        if has_content && !sensitive {
            let before = || preview::live(&subject.path, &current, inspection);
            inspection.host.keep_replaced(&subject.path, before, &mut answers.output(index));
        }
        let mut messages = Vec::new();
        let overwrites = decision == Decision::NeedsForce && mode.overwrites();
        for (path, _) in wanted.states.iter().filter(|_| overwrites) {
            let place = tracker.place(path);
            if mode.force && !place.is_file_or_symlink()? {
                continue;
            }
            let kept = inspection.host.keep_edited(entity.id(), path, &place, sensitive).map_err(of_change)?;
            if *path == subject.path && kept != current {
                return Err(DeclaredError::Meanwhile);
            }
            messages.push(edited::kept(&inspection.host.below_root(path)));
        }
        let mut found = (!mode.force).then(|| current.clone());
        // A symlink or file cannot become a directory in one step.
        if matches!(desired, State::Directory { .. }) && is_file {
            let gone = path_change(definition, &subject.path, State::Absent, found);
            tracker.make(&mut remembered, &[gone]).map_err(of_change)?;
            found = Some(State::Absent);
        }
        messages.push(format!("{} {}", declared::change(&current, &desired).1, inspection.shown(&entity.path)));
        let paths = wanted.states.into_iter().map(|(path, state)| {
            let found = found.clone().filter(|_| path == subject.path);
            path_change(definition, &path, state, found)
        });
        let change = EntityChange::make(remembered, paths.collect(), wanted.bytes.into_iter().collect());
        let effect = Effect::Provisioned(Applied::Changed(messages));
        let consequences = Consequences { index, takes_over, force: mode.force, effect };
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
        if mode.force {
            let records = (&self.inspection.tracker, &remembered.base);
            self.inspection.host.save_edited_of(entity.id(), records, &found, output).map_err(of_change)?;
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
        let is_taken = !remembered.base.is_empty() && found.is_empty();
        let effect = Effect::Scrubbed { shown, path, base, before, is_taken };
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

fn of_change(error: Unmanaged) -> DeclaredError {
    match error {
        Unmanaged::Meanwhile(_) => DeclaredError::Meanwhile,
        error => DeclaredError::Never(error.to_string()),
    }
}

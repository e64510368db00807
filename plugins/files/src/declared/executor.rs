//! Applies and scrubs declared files, many together.

mod preparation;
mod with_access;

use super::access::{self, Accesses};
use super::entity::DeclaredFile;
use super::inspection::Inspection;
use super::unchanged::UnchangedFiles;
use super::wanted::DeclaredError;
use holo_change::base_store::Remembered;
use holo_change::tracked::{EntityChange, State, TrackStore, Tracker, Tracks, Unmanaged};
use holo_change::{Commits, Ended, Tree, commit};
use holo_plugin::{Applied, Entity, Host, Job, Output, SetAnswers};
use std::path::PathBuf;

/// The maximum number of attempts with `--force` if the file keeps being changed concurrently.
const ATTEMPTS: usize = 3;

struct Executor<'a> {
    inspection: Inspection<'a>,
    store: TrackStore<Tracks>,
    known: UnchangedFiles,
    /// True if there may be permission records.
    has_access: bool,
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
    /// The state of the entity does not change.
    None,
    /// The entity is provisioned; contains the message.
    Made(String),
    /// The original state of the path is restored.
    Scrubbed { shown: String, path: PathBuf, base: State, before: State, is_anything_found: bool },
}

/// The result of preparing a change.
enum Prepared {
    /// Nothing is left to do.
    Ended(Applied),
    Change(Box<EntityChange<Tracks>>, Consequences),
}

/// Applies declared files, and commits independent changes together. With `records`, files that are recorded as unchanged are not read
/// again.
pub(crate) fn apply(host: &Host, set: &[Job<'_, DeclaredFile>], records: bool, answers: &mut dyn SetAnswers) {
    // Scrubbing an overlay takes the lock of the state directory itself.
    let mut ready = Vec::new();
    for (index, job) in set.iter().enumerate() {
        let Some(overlay) = &job.entity.overlay else {
            ready.push((index, *job));
            continue;
        };
        answers.begin(index);
        match overlay.apply(host, job.mode, &mut answers.output(index)) {
            Applied::Changed(_) | Applied::ChangedQuietly(_) | Applied::Unchanged => ready.push((index, *job)),
            other => answers.end(index, other),
        }
    }
    let opened = Tree::open(host.state_dir()).and_then(|state| state.hold()).map_err(DeclaredError::from);
    match opened.and_then(|held| Ok((held, Executor::open(host, if records { ready.len() } else { 0 })?))) {
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
    fn open(host: &'a Host, recorded: usize) -> Result<Executor<'a>, DeclaredError> {
        let inspection = Inspection::open(host)?;
        let store = TrackStore::open(&inspection.tracker)?.with_threads(host.jobs());
        let known = UnchangedFiles::open(host, recorded);
        let has_access = access::has_records(host);
        Ok(Executor { inspection, store, known, has_access })
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
        self.known.keep();
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
                Err(error) => Err(preparation::of_change(error)),
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
        let (shown, path, base, before, is_anything_found) = match effect {
            Effect::None => return Ok(Applied::Unchanged),
            Effect::Made(message) => return Ok(Applied::Changed(vec![message])),
            Effect::Scrubbed { shown, path, base, before, is_anything_found } => {
                (shown, path, base, before, is_anything_found)
            }
        };
        let waits = !remembered.base.is_empty();
        if waits && !is_anything_found {
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

/// Removes the directory of declared files if it is empty: a run may have been killed after its last file was removed.
pub(crate) fn remove_empty_folder(host: &Host) {
    if let Ok(tracker) = Tracker::open(host.locations()) {
        tracker.remove_empty_folders();
    }
}

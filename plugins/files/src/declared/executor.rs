//! Applying and scrubbing declared files, many together.

mod preparation;
mod with_access;

use super::access::{self, Accesses};
use super::entity::DeclaredFile;
use super::inspection::{Inspection, bases, has_folder};
use super::unchanged::Known;
use super::wanted::DeclaredError;
use super::words;
use holo_change::base_store::Remembered;
use holo_change::tracked::{EntityChange, State, TrackStore, Tracker, Tracks, Unmanaged};
use holo_change::{Commits, Ended, Tree, commit};
use holo_plugin::{Applied, Entity, Host, Job, Output, SetAnswers};
use std::path::PathBuf;

/// The maximal number of attempts to make a file by force that is changed by others each time.
const ATTEMPTS: usize = 3;

/// Makes changes of declared files.
struct Executor<'a> {
    inspection: Inspection<'a>,
    store: TrackStore<Tracks>,
    known: Known,
    /// True if there may be records of access.
    has_access: bool,
}

/// The consequences of a change, apart from its files.
struct Consequences {
    /// The index of the entity in its set.
    index: usize,
    /// The entities that the path is taken over from.
    takes_over: Vec<String>,
    /// True if a person's work meanwhile is overwritten.
    force: bool,
    effect: Effect,
}

/// The effect of a change once it is made.
enum Effect {
    /// The entity's state is the same as before.
    None,
    /// The entity is made; the message.
    Made(String),
    /// The path is what it was before us.
    Scrubbed { shown: String, path: PathBuf, base: State, before: State, is_anything_found: bool },
}

/// The result of preparing a change.
enum Prepared {
    /// There is nothing more to do.
    Ended(Applied),
    Change(Box<EntityChange<Tracks>>, Consequences),
}

/// Applies declared files, those that take the same steps together. With records, what is known from earlier applies to be unchanged is not
/// read again.
pub(crate) fn apply(host: &Host, set: &[Job<'_, DeclaredFile>], records: bool, answers: &mut dyn SetAnswers) {
    // An overlay that has to go keeps others from the state directory itself.
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
        let known = Known::open(host, &inspection, recorded);
        let has_access = access::has_records(host);
        Ok(Executor { inspection, store, known, has_access })
    }

    /// Applies files, each with its index in the set.
    fn apply(&self, jobs: &[(usize, Job<'_, DeclaredFile>)], answers: &mut dyn SetAnswers) {
        let mut commits = Commits::default();
        // An entity that has a path now takes over from the one that had it.
        let (declared, orphans): (Vec<_>, Vec<_>) = jobs.iter().partition(|(_, job)| job.entity.definition.is_some());
        for (number, &(index, job)) in declared.iter().copied().chain(orphans).enumerate() {
            let validates = job.entity.definition.as_ref().is_some_and(|definition| definition.validate.is_some());
            // The program may look at what came before.
            if validates || number == declared.len() {
                self.tell(commits.flush(&self.store), answers);
            }
            if Accesses::concern(job.entity, self.has_access) {
                self.tell(commits.flush(&self.store), answers);
                self.apply_with_access(index, job, answers);
                continue;
            }
            self.begin(index, job, &mut commits, answers);
            // The inspection of the next file depends on the changes of those before it.
            self.tell(commits.poll(&self.store, false), answers);
        }
        self.tell(commits.flush(&self.store), answers);
        self.known.keep();
    }

    /// Prepares the change of a file, and adds it to those that are made together.
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
                // Putting back may have come half way.
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

    /// Returns the result of a change that was made.
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
            output.warning(format!("{shown} comes back when nothing is laid over it any more"));
        }
        let is_left = || Ok::<_, DeclaredError>(self.inspection.tracker.state(&path)? != State::Absent);
        if base == State::Absent && before != State::Absent && is_left()? {
            return Ok(Applied::Changed(vec![format!("left {shown}, as there is something in it")]));
        }
        let back = words::back(&base, &before);
        let what = if back == words::FORGET { remembered.id.clone() } else { shown };
        Ok(Applied::Changed(vec![format!("{} {what}", back.1)]))
    }
}

/// Removes what is not needed any more.
pub(crate) fn tidy(
    host: &Host,
    is_ours: impl Fn(&str) -> bool,
    output: &mut Output<'_>,
) -> holo_change::error::Result<()> {
    let bases = bases(host)?;
    let _held = Tree::open(host.state_dir())?.hold()?;
    Tracker::open(host.locations(), &bases)?.tidy::<Tracks>(is_ours, output)?;
    if access::has_records(host) { access::tidy(host, &bases, output) } else { Ok(()) }
}

/// Removes the folder of the records if there is nothing in it: a run that was killed after the last record was removed has left it.
pub(crate) fn remove_empty_folder(host: &Host) {
    let tracker = || Tracker::open(host.locations(), &bases(host)?);
    if has_folder(host)
        && let Ok(tracker) = tracker()
    {
        tracker.remove_empty_folders();
    }
    if access::has_records(host) {
        // What cannot be removed does no harm.
        let _ = access::remove_empty_folder(host);
    }
}

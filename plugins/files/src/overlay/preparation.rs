//! Inspects entities and prepares their changes, many concurrently. A change is pending until it is committed.

use crate::overlay::entity::FileEntity;
use crate::overlay::layout::{Context, Layout};
use crate::overlay::provision::{self, Unchanged};
use crate::overlay::scrub;
use holo_change::image_store::{ImageChange, ImageStore};
use holo_change::{Ended, Meanwhile, PathHandle};
use holo_plugin::{Applied, ForceTo, Job, Output, SetAnswers, Sink, Stream};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A job with the index of its entity in the set.
pub(crate) type Indexed<'a, 'e> = (usize, &'a Job<'e, FileEntity>);

/// A change that was prepared concurrently, and its output.
pub(crate) struct Prepared {
    pub(crate) change: Change,
    said: BufferedOutput,
}

impl Prepared {
    /// Prints the output and returns the change.
    pub(crate) fn tell(self, output: &mut Output<'_>) -> Change {
        self.said.repeat(output);
        self.change
    }
}

/// Buffered output.
#[derive(Default)]
pub(crate) struct BufferedOutput {
    printed: Vec<(Stream, Vec<u8>)>,
    /// The replaced file, for the history of the run.
    replaced: Option<String>,
}

impl BufferedOutput {
    pub(crate) fn repeat(&self, output: &mut Output<'_>) {
        self.printed.iter().for_each(|(stream, bytes)| output.relay(*stream, bytes));
        self.replaced.iter().for_each(|text| output.replaced_text(text));
    }
}

impl Sink for BufferedOutput {
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        self.printed.push((stream, bytes.to_vec()));
    }

    fn replaced(&mut self, text: &str) {
        self.replaced = Some(text.to_owned());
    }
}

impl Context<'_> {
    /// Returns for each entity whether it is known to need no change.
    pub(crate) fn find_unchanged(&mut self, jobs: &[Indexed<'_, '_>]) -> Vec<bool> {
        if self.recovery.was_needed() {
            // The change that a killed apply had begun has to be recovered first.
            return vec![false; jobs.len()];
        }
        let find = |&(_, job): &Indexed<'_, '_>, layout: &Layout| provision::find_unchanged(job.entity, layout, self);
        let seen: Vec<Option<Unchanged>> = self.in_shares(jobs, find);
        for ((_, job), unchanged) in jobs.iter().zip(&seen) {
            if let Some(state) = unchanged.as_ref().and_then(|unchanged| unchanged.news) {
                self.record.insert(job.entity.path.as_os_str().as_bytes(), state);
            }
        }
        seen.iter().map(Option::is_some).collect()
    }

    /// Calls `work` for each item in several threads, and returns the results in order.
    pub(crate) fn in_shares<T: Sync, R: Send>(&self, all: &[T], work: impl Fn(&T, &Layout) -> R + Sync) -> Vec<R> {
        let reopen = || Layout::open(self.host);
        holo_change::in_shares(all, self.threads, &self.layout, reopen, work)
    }

    /// Returns true if the change of an entity can be prepared concurrently, because it depends only on its own files and programs.
    pub(crate) fn can_prepare_concurrently(&self, entity: &FileEntity) -> bool {
        let is_independent = entity.is_orphan() || entity.deciding_resources().is_some() || entity.runs_programs();
        self.works_concurrently() && is_independent
    }

    fn works_concurrently(&self) -> bool {
        self.threads > 1 && !self.recovery.was_needed()
    }

    /// Returns the number of entities with programs that are prepared together.
    pub(crate) fn programs_at_a_time(&self) -> usize {
        if self.works_concurrently() { self.threads } else { 1 }
    }

    /// Begins many entities and prepares their changes.
    pub(crate) fn prepare_many(&mut self, jobs: &[Indexed<'_, '_>], answers: &mut dyn SetAnswers) -> Vec<Prepared> {
        answers.hold_back();
        for (index, job) in jobs {
            answers.begin(*index);
            self.record.forget(job.entity.path.as_os_str().as_bytes());
        }
        answers.flush();
        let prepare = |&(index, job): &Indexed<'_, '_>, layout: &Layout| {
            let mut said = BufferedOutput::default();
            let change = self.prepare_in(index, job, layout, &mut Output::new(&mut said));
            Prepared { change, said }
        };
        if jobs.iter().any(|(_, job)| job.entity.runs_programs()) {
            return holo_change::one_by_one(jobs, self.threads, &self.layout, || Layout::open(self.host), prepare);
        }
        self.in_shares(jobs, prepare)
    }

    /// Prepares the change of one entity.
    pub(crate) fn prepare(&mut self, (index, job): Indexed<'_, '_>, output: &mut Output<'_>) -> Change {
        self.record.forget(job.entity.path.as_os_str().as_bytes());
        self.prepare_in(index, job, &self.layout, output)
    }

    fn prepare_in(&self, index: usize, job: &Job<'_, FileEntity>, layout: &Layout, output: &mut Output<'_>) -> Change {
        let entity = job.entity;
        let mut change = Change::new(index, &entity.path);
        if let Err(error) = self.recovery.recover(&entity.path, &layout.images) {
            output.error(format!("skipping target: {error}"));
            change.outcome(FAILED);
        } else if entity.is_orphan() {
            scrub::prepare(entity, (layout, &self.distribution), output, &mut change);
        } else {
            provision::prepare(entity, job.mode, (layout, &self.distribution), output, &mut change);
        }
        change
    }
}

/// A change to commit for an entity.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) files: ImageChange,
    pub(crate) consequences: Consequences,
}

/// What to do after a change, besides its files.
#[derive(Debug)]
pub(crate) struct Consequences {
    /// The index of the entity in its set.
    pub(crate) index: usize,
    /// The outcome on success.
    pub(crate) outcome: Applied,
    /// Files in the cache from which the new content is read.
    pub(crate) scratch: Vec<PathHandle>,
    /// True if a stock file may have been moved away from the target's path.
    pub(crate) may_have_moved_stock: bool,
}

/// The result of a change.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The index of the entity in its set.
    pub(crate) index: usize,
    pub(crate) applied: Applied,
    /// The error, if any.
    pub(crate) failure: Option<String>,
    /// The target whose original file has become its base.
    pub(crate) shares_base: Option<PathBuf>,
}

impl Change {
    pub(crate) fn new(index: usize, path: &Path) -> Change {
        let outcome = Applied::Unchanged;
        let consequences = Consequences { index, outcome, scratch: Vec::new(), may_have_moved_stock: false };
        Change { files: ImageChange::new(path), consequences }
    }

    /// Sets the outcome on success.
    pub(crate) fn outcome(&mut self, outcome: Applied) {
        self.consequences.outcome = outcome;
    }

    /// Returns the outcome if no change is needed.
    pub(crate) fn into_outcome(self) -> Applied {
        self.consequences.clean_up();
        self.consequences.outcome
    }
}

impl Consequences {
    fn clean_up(&self) {
        self.scratch.iter().for_each(|place| drop(place.remove()));
    }
}

/// Returns why force is required after the target was changed concurrently.
pub(crate) fn force_to(meanwhile: Meanwhile) -> ForceTo {
    match meanwhile {
        Meanwhile::Changed => ForceTo::Overwrite,
        Meanwhile::Gone => ForceTo::Restore,
    }
}

impl From<Ended<ImageStore, Consequences>> for Outcome {
    fn from((files, consequences, result): Ended<ImageStore, Consequences>) -> Outcome {
        consequences.clean_up();
        let Consequences { index, outcome, may_have_moved_stock, .. } = consequences;
        let applied = match (&result, files.refused()) {
            (Ok(()), None) => outcome,
            (Ok(()), Some(meanwhile)) => Applied::NeedsForce(force_to(meanwhile)),
            (Err(_), _) if files.is_target_replaced() || may_have_moved_stock => FAILED,
            (Err(_), _) => FAILED_UNCHANGED,
        };
        let failure = result.err().map(|error| error.to_string());
        Outcome { index, applied, failure, shares_base: files.shared_base().map(Path::to_owned) }
    }
}

/// An entity failed. Version 3 of the plugin reports that with messages, not with its exit status.
pub(crate) const FAILED: Applied = Applied::Failed { version_3_status: 0, nothing_changed: false };

/// An entity failed, and its target is unchanged.
pub(crate) const FAILED_UNCHANGED: Applied = Applied::Failed { version_3_status: 0, nothing_changed: true };

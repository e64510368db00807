//! Inspects entities and prepares their changes, many concurrently.

use crate::overlay::change::{Change, FAILED};
use crate::overlay::context::Context;
use crate::overlay::entity::FileEntity;
use crate::overlay::layout::Layout;
use crate::overlay::provision;
use crate::overlay::scrub;
use holo_plugin::{Job, Output, SetAnswers, Sink, Stream};

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
    pub(crate) fn find_unchanged(&self, jobs: &[Indexed<'_, '_>]) -> Vec<bool> {
        if self.recovery.was_needed() {
            // The change that a killed apply had begun has to be recovered first.
            return vec![false; jobs.len()];
        }
        self.in_shares(jobs, |&(_, job), layout| provision::is_unchanged(job.entity, layout, &self.distribution))
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
    pub(crate) fn prepare_many(&self, jobs: &[Indexed<'_, '_>], answers: &mut dyn SetAnswers) -> Vec<Prepared> {
        answers.hold_back();
        for (index, _) in jobs {
            answers.begin(*index);
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
    pub(crate) fn prepare(&self, (index, job): Indexed<'_, '_>, output: &mut Output<'_>) -> Change {
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

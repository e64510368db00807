//! Looking at entities, many concurrently, and preparing the changes of one: by provisioning or by scrubbing.

use crate::overlay::change::{Change, FAILED};
use crate::overlay::context::Context;
use crate::overlay::entity::FileEntity;
use crate::overlay::layout::Layout;
use crate::overlay::provision::{self, Unchanged};
use crate::overlay::scrub;
use holo_plugin::{Job, Output};
use std::thread;

/// The number of entities from which a thread is worth starting.
const WORTH_A_THREAD: usize = 64;

impl Context<'_> {
    /// Returns for each entity whether there is nothing to be done, as far as that can be seen without changing anything.
    pub(crate) fn find_unchanged(&mut self, jobs: &[Job<'_, FileEntity>]) -> Vec<bool> {
        if self.recovery.was_needed() {
            // The change that a killed apply was at has to be recovered first.
            return vec![false; jobs.len()];
        }
        let seen = self.find_in_shares(jobs);
        for (job, unchanged) in jobs.iter().zip(&seen) {
            if let Some(state) = unchanged.as_ref().and_then(|unchanged| unchanged.news) {
                self.record.insert(&job.entity.path, state);
            }
        }
        seen.iter().map(Option::is_some).collect()
    }

    /// Looks for unchanged entities among many, with as many threads as there are processors.
    fn find_in_shares(&self, jobs: &[Job<'_, FileEntity>]) -> Vec<Option<Unchanged>> {
        let find = |share: &[Job<'_, FileEntity>], layout: &Layout| -> Vec<Option<Unchanged>> {
            share.iter().map(|job| provision::find_unchanged(job.entity, layout, self)).collect()
        };
        let mut shares = jobs.chunks(jobs.len().div_ceil(self.threads).max(WORTH_A_THREAD));
        let own = shares.next().unwrap_or_default();
        thread::scope(|scope| {
            let others: Vec<_> = shares
                .map(|share| {
                    // Threads with the same open directories would wait for one another.
                    let elsewhere = move || Layout::open(self.host).map(|layout| find(share, &layout));
                    (share, thread::Builder::new().spawn_scoped(scope, elsewhere))
                })
                .collect();
            let mut seen = find(own, &self.layout);
            for (share, thread) in others {
                let found = thread.ok().and_then(|thread| thread.join().ok()?.ok());
                // The share of a thread that could not work is done by this one.
                seen.extend(found.unwrap_or_else(|| find(share, &self.layout)));
            }
            seen
        })
    }

    pub(crate) fn prepare(&mut self, index: usize, job: &Job<'_, FileEntity>, output: &mut Output<'_>) -> Change {
        let entity = job.entity;
        self.record.forget(&entity.path);
        let mut change = Change::new(index, &entity.path);
        if let Err(error) = self.recovery.recover(&entity.path, &self.layout.images) {
            output.error(format!("skipping target: {error}"));
            change.outcome(FAILED);
        } else if entity.is_orphan() {
            scrub::prepare(entity, self, output, &mut change);
        } else {
            provision::prepare(entity, job.mode, self, output, &mut change);
        }
        change
    }
}

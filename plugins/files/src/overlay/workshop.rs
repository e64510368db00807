//! The context of work on entities: opened and found out once for a whole set.

use crate::overlay::change::{self, Change, FAILED};
use crate::overlay::distribution::Distribution;
use crate::overlay::entity::FileEntity;
use crate::overlay::layout::Layout;
use crate::overlay::provision::{self, Unchanged};
use crate::overlay::record::Record;
use crate::overlay::recovery::Recovery;
use crate::overlay::scrub;
use holo_plugin::error::Result;
use holo_plugin::{Host, Job, Output};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread;

/// The number of entities from which a thread is worth starting.
const WORTH_A_THREAD: usize = 64;

/// The context that is opened and found out once for a whole set.
pub(crate) struct Workshop<'a> {
    pub(crate) host: &'a Host,
    pub(crate) layout: Layout,
    pub(crate) distribution: Distribution,
    pub(crate) record: Record,
    recovery: Recovery,
    threads: usize,
    /// There are bases that some process can write to, and that could not be copied.
    has_shared_bases: bool,
    /// The lock on the state directory.
    _held: OwnedFd,
}

impl<'a> Workshop<'a> {
    pub(crate) fn open(host: &'a Host, records: bool) -> Result<Workshop<'a>> {
        let layout = Layout::open(host)?;
        let held = layout.hold()?;
        let distribution = Distribution::of(host.system().os_release());
        let mut record = if records { Record::open(host, &layout) } else { Record::none() };
        let recovery = Recovery::begin(host, &layout)?;
        if recovery.was_needed {
            record.distrust();
        }
        Ok(Workshop {
            host,
            threads: host.jobs(),
            layout,
            distribution,
            record,
            recovery,
            has_shared_bases: false,
            _held: held,
        })
    }

    /// Returns for each entity whether there is nothing to be done, as far as that can be seen without changing anything.
    pub(crate) fn look(&mut self, jobs: &[Job<'_, FileEntity>]) -> Vec<bool> {
        if self.recovery.was_needed {
            // The changes of a killed apply have to be settled first.
            return vec![false; jobs.len()];
        }
        let seen = self.look_in_shares(jobs);
        for (job, unchanged) in jobs.iter().zip(&seen) {
            if let Some(state) = unchanged.as_ref().and_then(|unchanged| unchanged.news) {
                self.record.learn(&job.entity.path, state);
            }
        }
        seen.iter().map(Option::is_some).collect()
    }

    /// Looks at many entities with as many threads as there are processors.
    fn look_in_shares(&self, jobs: &[Job<'_, FileEntity>]) -> Vec<Option<Unchanged>> {
        let look = |share: &[Job<'_, FileEntity>], layout: &Layout| -> Vec<Option<Unchanged>> {
            share.iter().map(|job| provision::look(job.entity, layout, self)).collect()
        };
        let mut shares = jobs.chunks(jobs.len().div_ceil(self.threads).max(WORTH_A_THREAD));
        let own = shares.next().unwrap_or_default();
        thread::scope(|scope| {
            let others: Vec<_> = shares
                .map(|share| {
                    // Threads with the same open directories would wait for one another.
                    let elsewhere = move || Layout::open(self.host).map(|layout| look(share, &layout));
                    (share, thread::Builder::new().spawn_scoped(scope, elsewhere))
                })
                .collect();
            let mut seen = look(own, &self.layout);
            for (share, thread) in others {
                let looked = thread.ok().and_then(|thread| thread.join().ok()?.ok());
                // The share of a thread that could not work is done by this one.
                seen.extend(looked.unwrap_or_else(|| look(share, &self.layout)));
            }
            seen
        })
    }

    pub(crate) fn prepare(&mut self, place: usize, job: &Job<'_, FileEntity>, output: &mut Output<'_>) -> Change {
        let entity = job.entity;
        self.record.forget(&entity.path);
        let mut change = Change::new(place, &entity.path);
        if let Err(error) = self.recovery.settle(entity, &self.layout) {
            output.error(format!("skipping target: {error}"));
            change.outcome(FAILED);
        } else if entity.is_orphan() {
            scrub::prepare(entity, self, output, &mut change);
        } else {
            provision::prepare(entity, job.mode, self, output, &mut change);
        }
        change
    }

    /// Returns true if changes may be committed while others are prepared. After a killed apply, one is done after the other: the same
    /// folders may be made for one entity and removed for another.
    pub(crate) fn commits_in_background(&self) -> bool {
        self.threads > 1 && !self.recovery.was_needed
    }

    /// Replaces the bases of these targets, which were their own files, by copies if others can write to them.
    pub(crate) fn separate_bases(&mut self, targets: &mut Vec<PathBuf>) {
        self.has_shared_bases |= !change::separate_open_bases(targets, &self.layout);
        targets.clear();
    }

    pub(crate) fn close(&self) {
        self.record.keep(&self.layout);
        // While the folder is there, the next apply looks what is to be put in order.
        if !self.has_shared_bases {
            self.layout.remove_staging_folder();
        }
    }
}

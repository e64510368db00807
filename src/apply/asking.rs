//! Sends sets of entities to their plugin.

use super::Walk;
use super::holds::Hold;
use super::outbox::Outbox;
use crate::entity::Entity;
use crate::error::FatalError;
use crate::in_order::{Ended, InOrder, Work};
use crate::index::EntityIndex;
use crate::plugin::{Job, Task};
use crate::preview::Preview;
use crate::report::Reporter;
use bstr::{BStr, BString};
use holo_protocol::FilePair;
use std::iter;

/// A request to work on a set.
pub(super) struct Request<'a> {
    pub(super) task: Task,
    /// For each entity, one that precedes it and is pending.
    pub(super) pending: Vec<Option<&'a BStr>>,
    pub(super) previews: Vec<Option<Preview>>,
    /// The reason for which the entities are only checked, if any.
    pub(super) hold: Option<Hold>,
}

impl Walk<'_> {
    /// Requests previews of these entities from their plugin.
    pub(super) fn previews(&mut self, set: &[EntityIndex]) -> Result<Vec<Option<Preview>>, FatalError> {
        let Some(&first) = set.first().filter(|_| self.shows_differences) else { return Ok(Vec::new()) };
        let renewed = self.renew(set)?;
        let jobs =
            set.iter().zip(renewed).map(|(&entity, renewed)| Job { renewed, ..Job::new(self.entities[entity].id()) });
        let jobs: Vec<Job<'_>> = jobs.collect();
        let pairs = self.plugins[self.entities[first].plugin].preview(&jobs, self.interrupt)?;
        let load = |(pair, job): (Option<FilePair>, &Job<'_>)| Preview::load(&pair?, job.id, self.view).ok();
        Ok(pairs.into_iter().zip(&jobs).map(load).collect())
    }

    pub(super) fn work(
        &mut self,
        set: &[EntityIndex],
        task: Task,
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<Ended>, FatalError> {
        self.work_with(set, Request { task, pending: Vec::new(), previews: Vec::new(), hold: None }, reporter)
    }

    /// Has a plugin work on its entities, some of which come after pending ones. Returns their outcomes.
    pub(super) fn work_with(
        &mut self,
        set: &[EntityIndex],
        request: Request<'_>,
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<Ended>, FatalError> {
        let Request { task, pending, previews, hold } = request;
        let entities: Vec<&Entity> = set.iter().map(|&entity| &self.entities[entity]).collect();
        let Some(first) = entities.first() else { return Ok(Vec::new()) };
        let renewed = self.renew(set)?;
        let received: Vec<Vec<BString>> = set.iter().map(|&entity| self.received(entity)).collect();
        // A set may contain hundreds of thousands of entities.
        let (mut jobs, mut works) = (Vec::with_capacity(set.len()), Vec::with_capacity(set.len()));
        let mut pending = pending.into_iter().chain(iter::repeat(None));
        // Other plugins need not declare what a change provides, such as the files of a package.
        let may_be_brought = self.pending.iter().any(|&plugin| plugin != first.plugin);
        for ((&entity, renewed), received) in set.iter().zip(renewed).zip(&received) {
            let (id, wanted) = (self.entities[entity].id(), self.plan.wanted(entity));
            let before = pending.next().flatten();
            let (refresh, pending) = (self.refreshes.is_due(id), may_be_brought || before.is_some());
            jobs.push(Job { id, refresh, pending, received, wanted, renewed });
            works.push(Work::new(&self.entities[entity], self.refreshes.due_because_of(id), before));
        }
        // An entity on hold could not be forced either.
        let forces = self.forces || hold.is_some();
        let explained = hold.filter(|_| self.task != Task::Check).map(Hold::reason);
        let mut in_order = InOrder::new(works, task, self.view, reporter)
            .with_force(forces)
            .with_previews(previews)
            .held_back(explained);
        let mut outbox = Outbox::new(set, task == Task::Check && self.task != Task::Check);
        let (refreshes, sent) = (&mut self.refreshes, &mut self.sent);
        let mut written = Ok(());
        self.plugins[first.plugin].work(task, &jobs, self.interrupt, &mut |index, progress| {
            if let Some(values) = outbox.take(index, &progress)
                && let Some(&entity) = entities.get(index)
                && written.is_ok()
            {
                sent.take(entity.id(), entity.plugin_id(), &values.sent);
                if self.task != Task::Check {
                    if values.may_have_changed {
                        refreshes.send(entity.id(), &values.sent);
                    }
                    // Written now, so that a kill before the other entities are finished does not lose it.
                    written = sent.record().and_then(|()| refreshes.record());
                }
            }
            in_order.take(index, progress);
        })?;
        written?;
        Ok(in_order.ends())
    }
}

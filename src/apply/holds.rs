//! Entities that an apply only checks: by definition, outside of their schedules, if they were repaired too often, and
//! orphans whose definitions may come back. Entities that their plugins have deferred count as such for the entities that require them.

use super::Walk;
use super::outcome::Outcome;
use crate::entities::node::EntityIndex;
use crate::error::FatalError;
use crate::plan::Reception;
use crate::plugin::Task;
use crate::report::{End, Silence};
use bstr::{BString, ByteSlice};
use holo_protocol::{Receipt, Semaphore};
use holo_schedule as schedule;
use std::collections::HashMap;

/// The reason for which an entity is not changed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// Its definition says so.
    Noop,
    /// Its schedule is closed now.
    Schedule,
    /// It requires an entity that is on hold.
    Requirement,
    /// It is an orphan, and the inputs have changed since the scan.
    Inputs,
    /// Its plugin has deferred it.
    Deferred,
    /// It was repaired too often.
    LeftAlone,
    /// It acts at every apply, and need not do so now. It is not even checked.
    Acted,
}

impl Walk<'_> {
    /// Returns the reason for which an entity is not changed now, if there is one.
    pub(super) fn hold(&self, entity: EntityIndex) -> Option<Hold> {
        match self.waiting.get(&entity) {
            // A refresh is not a repair: the repairs of the entity that has changed are limited themselves.
            Some(Hold::LeftAlone) if self.refreshes.is_new(self.entities[entity].id()) => {}
            Some(&hold) => return Some(hold),
            None => {}
        }
        if self.inputs_have_changed && self.entities[entity].is_orphan() {
            return Some(Hold::Inputs);
        }
        if self.acted.contains(&entity) && !self.refreshes.is_due(self.entities[entity].id()) {
            return Some(Hold::Acted);
        }
        let controls = self.entities[entity].controls();
        if controls.noop {
            return Some(Hold::Noop);
        }
        let is_closed = controls.schedule.is_some_and(|schedule| !schedule::is_open(&schedule, &self.begin));
        is_closed.then_some(Hold::Schedule)
    }

    /// Splits a set, in order, into parts that are worked on one after the other. Each part contains either only
    /// entities that are changed or only entities on hold, and no more entities of a semaphore than may be worked on
    /// concurrently.
    pub(super) fn parts(&self, set: &[EntityIndex]) -> Vec<(Option<Hold>, Vec<EntityIndex>)> {
        let mut parts: Vec<(Option<Hold>, Vec<EntityIndex>)> = Vec::new();
        let mut semaphores = Semaphores::default();
        for &entity in set {
            let hold = self.hold(entity);
            let semaphore = self.entities[entity].controls().semaphore;
            let is_free = semaphore.as_ref().is_none_or(|semaphore| semaphores.is_free(semaphore));
            match parts.last_mut().filter(|(held, _)| *held == hold && is_free) {
                Some((_, part)) => part.push(entity),
                None => {
                    parts.push((hold, vec![entity]));
                    semaphores = Semaphores::default();
                }
            }
            semaphore.into_iter().for_each(|semaphore| semaphores.take(semaphore));
        }
        parts
    }
}

/// The semaphores of a part's entities: for each name, the number of entities and the limit.
#[derive(Default)]
struct Semaphores(HashMap<String, (u32, u32)>);

impl Semaphores {
    /// If the entities of a semaphore have different limits, the smallest applies.
    fn is_free(&self, semaphore: &Semaphore) -> bool {
        self.0.get(&semaphore.name).is_none_or(|&(taken, most)| taken < most.min(semaphore.count))
    }

    fn take(&mut self, Semaphore { name, count }: Semaphore) {
        let (taken, most) = self.0.entry(name).or_insert((0, count));
        (*taken, *most) = (*taken + 1, count.min(*most));
    }
}

impl Hold {
    /// Returns the remark about an entity that would have been changed.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Hold::Noop => "only checked, because its definition has noop",
            Hold::Schedule => "not changed now: outside of its schedule",
            Hold::Requirement => "not changed now, because a requirement was not met",
            Hold::Inputs => "not scrubbed now, as the inputs have changed since they were read; the next apply does it",
            Hold::Deferred => "not changed now; the next apply does it",
            Hold::LeftAlone => "not changed now, because it was repaired too often",
            Hold::Acted => "has acted already",
        }
    }

    /// Returns the description of an unmet requirement that is on hold.
    pub(super) fn of_requirement(self) -> &'static str {
        match self {
            Hold::Noop => "which is only checked",
            Hold::Schedule => "which is outside of its schedule",
            Hold::Requirement => "which is on hold itself",
            Hold::Inputs => "which is not scrubbed now",
            Hold::Deferred => "which is deferred",
            Hold::LeftAlone => "which is left alone, because it was repaired too often",
            Hold::Acted => "which has acted already",
        }
    }
}

impl Walk<'_> {
    /// Updates the values that plugins can read. Returns for each entity whether its received values have changed since
    /// its plugin last read them.
    pub(super) fn renew(&mut self, set: &[EntityIndex]) -> Result<Vec<bool>, FatalError> {
        let mut renewed = Vec::new();
        for &entity in set {
            let receptions = self.plan.receptions(entity);
            let change = |Reception { receipt, .. }: &Reception| {
                self.sent.change(receipt.sender.as_bstr(), receipt.name.as_bstr())
            };
            let last = receptions.iter().map(change).max().unwrap_or_default();
            let known = self.renewed.insert(entity, last).unwrap_or_default();
            renewed.push(known < last);
        }
        if renewed.contains(&true) {
            self.sent.publish()?;
        }
        Ok(renewed)
    }

    /// Returns the values that an entity receives, with its refresh or by its definition.
    pub(super) fn received(&self, entity: EntityIndex) -> Vec<BString> {
        let mut received = self.refreshes.received(self.entities[entity].id());
        for Reception { receipt: Receipt { key, sender, name }, .. } in self.plan.receptions(entity) {
            if let Some(sent) = self.sent.get(sender.as_bstr(), name.as_bstr()) {
                received.push([&key[..], b"=", &sent.value.0].concat().into());
            }
        }
        received
    }

    /// Records which refreshes become due if the entities change. Entities that are known to be unchanged are skipped.
    pub(super) fn expect_refreshes(&mut self, set: &[EntityIndex]) -> Result<(), FatalError> {
        if !self.task.is_apply() {
            return Ok(());
        }
        let sources: Vec<EntityIndex> =
            set.iter().copied().filter(|&entity| !self.plan.refreshes(entity).is_empty()).collect();
        let mut is_anything_new = false;
        let verdicts = self.work(&sources, Task::Check, &mut Silence)?;
        for (&source, verdict) in sources.iter().zip(verdicts) {
            let can_tell = self.plugins[self.entities[source].plugin].can_check();
            if matches!(verdict.end(), End::Unchanged | End::ConditionNotMet) && can_tell {
                continue;
            }
            self.expect_of(source);
            is_anything_new = true;
        }
        if is_anything_new { self.refreshes.secure() } else { Ok(()) }
    }

    pub(super) fn expect_of(&mut self, source: EntityIndex) {
        for &target in self.plan.refreshes(source) {
            let target = &self.entities[target];
            self.refreshes.expect(self.entities[source].id(), target.id(), target.plugin_id());
        }
    }

    /// Records the outcome of an entity, as source and target of refreshes. In a check, a pending entity counts as
    /// changed.
    pub(super) fn note_refreshes(&mut self, entity: EntityIndex, outcome: &Outcome<'_>) {
        let (id, end) = (self.entities[entity].id(), outcome.end());
        match end {
            // It is deferred: it was not changed, and keeps its own refresh.
            End::Pending if self.task != Task::Check => self.refreshes.unchanged(id),
            End::Changed | End::Pending => {
                self.expect_of(entity);
                self.refreshes.changed(id);
                self.refreshes.send(id, &outcome.sent);
            }
            End::Unchanged | End::ConditionNotMet | End::Refused => self.refreshes.unchanged(id),
            End::Failed if outcome.is_untouched() => self.refreshes.unchanged(id),
            // It may have changed before it failed: the next run assumes that it did.
            End::DependencyFailed | End::Failed => {}
        }
        // An entity that is skipped now keeps its refresh until its condition is met.
        if matches!(end, End::Unchanged | End::Changed) {
            self.refreshes.done(id);
        }
    }
}

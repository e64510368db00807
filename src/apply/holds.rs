//! Entities that an apply only checks: by definition, outside of their schedules, and orphans whose definitions may
//! come back.

use super::Walk;
use crate::index::EntityIndex;
use holo_protocol::Semaphore;
use holo_schedule as schedule;
use std::collections::HashMap;

/// The reason for which an entity is checked instead of applied.
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
}

impl Walk<'_> {
    /// Returns the reason for which an entity is not changed now, if there is one.
    pub(super) fn hold(&self, entity: EntityIndex) -> Option<Hold> {
        if self.waiting.contains(&entity) {
            return Some(Hold::Requirement);
        }
        if self.inputs_have_changed && self.entities[entity].is_orphan() {
            return Some(Hold::Inputs);
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
        }
    }

    /// Returns the description of an unmet requirement that is on hold.
    pub(super) fn of_requirement(self) -> &'static str {
        match self {
            Hold::Noop => "which is only checked",
            Hold::Schedule => "which is outside of its schedule",
            Hold::Requirement => "which is on hold itself",
            Hold::Inputs => "which is not scrubbed now",
        }
    }
}

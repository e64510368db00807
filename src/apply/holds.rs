//! The entities that an apply only checks: by their definitions, outside of their schedules, and orphans whose definitions may come back.

use super::Walk;
use crate::index::EntityIndex;
use holo_protocol::Semaphore;
use holo_schedule as schedule;
use std::collections::HashMap;

/// A reason for which an entity is checked instead of being applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// It is only ever checked.
    Noop,
    /// Its schedule is for other times.
    Schedule,
    /// It requires an entity that is held.
    Requirement,
    /// It is an orphan, and the inputs have changed since it was found to be one.
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

    /// Divides a set, in its order, into parts that are worked on one after the other: each has only what is changed or only what is not, and no
    /// more entities of a semaphore than may be worked on at a time.
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

/// The semaphores of the entities of a part: for each name how many have it, and how many may.
#[derive(Default)]
struct Semaphores(HashMap<String, (u32, u32)>);

impl Semaphores {
    /// Where the entities of a name disagree on its number, the smallest counts.
    fn is_free(&self, semaphore: &Semaphore) -> bool {
        self.0.get(&semaphore.name).is_none_or(|&(taken, most)| taken < most.min(semaphore.count))
    }

    fn take(&mut self, Semaphore { name, count }: Semaphore) {
        let (taken, most) = self.0.entry(name).or_insert((0, count));
        (*taken, *most) = (*taken + 1, count.min(*most));
    }
}

impl Hold {
    /// Returns what an apply says of an entity that it would have changed.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Hold::Noop => "only checked, as its definition says noop",
            Hold::Schedule => "not changed now, as its schedule is for other times",
            Hold::Requirement => "not changed now, as something that it requires is not",
            Hold::Inputs => "not scrubbed now, as the inputs have changed since they were read; the next apply does it",
        }
    }

    /// Returns how a requirement that is held and not as desired is called.
    pub(super) fn of_requirement(self) -> &'static str {
        match self {
            Hold::Noop => "which is only checked",
            Hold::Schedule => "whose schedule is for other times",
            Hold::Requirement => "which waits itself",
            Hold::Inputs => "which is not scrubbed now",
        }
    }
}

//! When entities are checked without an event, and when something that broke down is tried again.

use crate::entities::node::EntityIndex;
use holo_protocol::Schedule;
use holo_schedule as schedule;
use jiff::Zoned;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The maximum time between two checks of a schedule, because the clock may be set, or the machine suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(60 * 60);

/// The next check of each entity that has one.
#[derive(Debug, Default)]
pub(super) struct Timers {
    polls: BTreeMap<EntityIndex, Poll>,
    openings: BTreeMap<EntityIndex, Opening>,
    retries: BTreeMap<EntityIndex, Retry>,
}

/// When something that broke down is tried again.
#[derive(Debug, Default)]
pub(super) struct Retry {
    /// `None` while it is being tried.
    at: Option<Instant>,
    pause: Duration,
}

impl Retry {
    /// Schedules the next try, after twice the last pause.
    pub(super) fn again(&mut self, now: Instant) {
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.at = Some(now + self.pause);
    }

    /// Returns true once when it is time.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        self.at.take_if(|at| *at <= now).is_some()
    }

    /// Returns the time of the next try.
    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// Returns true if it has not broken down before.
    pub(super) fn is_new(&self) -> bool {
        self.pause.is_zero()
    }
}

/// The pauses before the first try and the later ones.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

#[derive(Debug)]
struct Poll {
    at: Instant,
    interval: Duration,
}

#[derive(Debug)]
struct Opening {
    at: Instant,
    schedule: Schedule,
}

impl Timers {
    /// Polls an entity at an interval, from now on.
    pub(super) fn poll(&mut self, entity: EntityIndex, interval: Duration, now: Instant) {
        self.polls.insert(entity, Poll { at: now + interval, interval });
    }

    /// Checks an entity when its schedule opens.
    pub(super) fn await_opening(&mut self, entity: EntityIndex, schedule: &Schedule, time: &Zoned, now: Instant) {
        let at = now + until_opening(schedule, time);
        self.openings.insert(entity, Opening { at, schedule: schedule.clone() });
    }

    /// Checks an entity again after a pause if its plugin broke down. The pause doubles each time until the plugin
    /// works.
    pub(super) fn retry(&mut self, entity: EntityIndex, is_broken: bool, now: Instant) {
        if !is_broken {
            self.retries.remove(&entity);
            return;
        }
        self.retries.entry(entity).or_default().again(now);
    }

    /// Returns the time of the next check.
    pub(super) fn next(&self) -> Option<Instant> {
        let polls = self.polls.values().map(|poll| poll.at);
        let retries = self.retries.values().filter_map(Retry::at);
        polls.chain(self.openings.values().map(|opening| opening.at)).chain(retries).min()
    }

    /// Returns the entities to check now, which is this wall-clock time.
    pub(super) fn due(&mut self, time: &Zoned, now: Instant) -> Vec<EntityIndex> {
        let mut due = Vec::new();
        for (&entity, poll) in self.polls.iter_mut().filter(|(_, poll)| poll.at <= now) {
            poll.at = now + poll.interval;
            due.push(entity);
        }
        self.openings.retain(|&entity, opening| {
            let is_open = opening.at <= now && schedule::is_open(&opening.schedule, time);
            if is_open {
                due.push(entity);
            } else if opening.at <= now {
                opening.at = now + until_opening(&opening.schedule, time);
            }
            !is_open
        });
        due.extend(self.retries.iter_mut().filter_map(|(&entity, retry)| retry.is_due(now).then_some(entity)));
        due
    }
}

fn until_opening(schedule: &Schedule, time: &Zoned) -> Duration {
    let next = schedule::next_opening(schedule, time);
    let until = next.map(|next| next.duration_since(time).unsigned_abs());
    until.map_or(LONGEST_SLEEP, |until| until.min(LONGEST_SLEEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polled_entity_is_due_repeatedly() {
        let (time, begin) = (Zoned::now(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut timers = Timers::default();
        timers.poll(EntityIndex::from(7), Duration::from_secs(60), begin);
        assert_eq!((timers.due(&time, at(59)), timers.next()), (vec![], Some(at(60))));
        assert_eq!((timers.due(&time, at(61)), timers.next()), (vec![EntityIndex::from(7)], Some(at(121))));
    }

    #[test]
    fn entity_of_a_broken_plugin_is_checked_again_with_growing_pauses() {
        let (time, begin) = (Zoned::now(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let entity = EntityIndex::from(7);
        let mut timers = Timers::default();
        for (now, next) in [(0, 1), (1, 3), (3, 7), (1000, 1008)] {
            timers.retry(entity, true, at(now));
            assert_eq!((timers.due(&time, at(next - 1)), timers.next()), (vec![], Some(at(next))));
            assert_eq!((timers.due(&time, at(next)), timers.next()), (vec![entity], None));
        }
        for _ in 0..9 {
            timers.retry(entity, true, begin);
        }
        assert_eq!(timers.next(), Some(at(300)));
        timers.retry(entity, false, begin);
        timers.retry(entity, true, begin);
        assert_eq!(timers.next(), Some(at(1)));
    }

    #[test]
    fn schedule_is_checked_hourly_despite_clock_changes() {
        let begin = Instant::now();
        let at = |minutes: u64| begin + Duration::from_secs(minutes * 60);
        let time = |text: &str| -> Zoned { format!("2026-11-20T{text}+00:00[UTC]").parse().unwrap() };
        let entity = EntityIndex::from(3);
        let mut timers = Timers::default();
        timers.await_opening(entity, &"hours=12-13".parse().unwrap(), &time("10:30:00"), begin);
        assert_eq!(timers.next(), Some(at(60)));
        assert_eq!((timers.due(&time("11:30:00"), at(60)), timers.next()), (vec![], Some(at(90))));
        // The clock was set back, and later forward.
        assert_eq!((timers.due(&time("11:15:00"), at(90)), timers.next()), (vec![], Some(at(135))));
        assert_eq!((timers.due(&time("12:00:01"), at(135)), timers.next()), (vec![entity], None));
    }
}

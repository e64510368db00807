//! Waits for events, gathers those that follow shortly after, and determines when entities are checked without one.

use super::paths::{Heard, WatchedPaths};
use super::sources::Sources;
use super::writers::Writers;
use crate::entities::node::EntityIndex;
use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use crate::report::Reporter;
use holo_events::Writer;
use holo_protocol::Schedule;
use holo_schedule as schedule;
use jiff::Zoned;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Bounds the wait for a quiet period, as a multiple of that period.
const AT_MOST: u32 = 10;
/// The interval between two reads while many unrelated events arrive.
const BREATH: Duration = Duration::from_millis(50);

/// The events that have not been handled yet.
#[derive(Debug)]
pub(super) struct Queue {
    paths: WatchedPaths,
    sources: Sources,
    pub(super) writers: Writers,
    settle: Duration,
    /// Events to handle later, and when.
    postponed: Option<(Instant, Heard)>,
}

/// The reason for which a wait ended.
#[derive(Debug)]
pub(super) enum Woken {
    /// These events occurred.
    Heard(Heard),
    /// It is time for the caller's next scheduled check.
    Due,
    /// It has been quiet for long enough.
    Quiet,
}

/// The end of a single wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    Events,
    Time,
}

impl Queue {
    pub(super) fn new(paths: WatchedPaths, settle: Duration) -> Queue {
        Queue { paths, sources: Sources::default(), writers: Writers::default(), settle, postponed: None }
    }

    /// Watches these paths and plugins from now on. Events of others are dropped.
    pub(super) fn watch(&mut self, paths: WatchedPaths, sources: Sources) {
        self.paths = paths;
        self.sources = sources;
        self.postponed = None;
    }

    /// Postpones events, and merges them with those already waiting. [`watch`](Queue::watch) drops them, because it may
    /// renumber the entities.
    pub(super) fn postpone(&mut self, heard: Heard, by: Duration) {
        let (_, waiting) = self.postponed.get_or_insert_with(|| (Instant::now() + by, Heard::default()));
        waiting.add(heard);
    }

    /// Returns true if failed checks are waiting for a retry.
    pub(super) fn has_postponed(&self) -> bool {
        self.postponed.is_some()
    }

    /// Watches for processes that write the files of an entity, which was just repaired, until this time or longer.
    pub(super) fn listen_to_writers(&mut self, entity: EntityIndex, until: Instant) {
        self.writers.listen(&self.paths, entity, until);
    }

    /// Returns the last process that wrote a file at a path of an entity, if known.
    pub(super) fn writer_of(&mut self, entity: EntityIndex) -> Option<Writer<'static>> {
        self.writers.take();
        self.writers.of(&self.paths, entity)
    }

    /// Waits until events have occurred and a quiet period has passed, or until one of two times.
    pub(super) fn wait(
        &mut self,
        interrupt: &Interrupt,
        reporter: &mut dyn Reporter,
        due: Option<Instant>,
        quiet: Option<Instant>,
    ) -> Result<Woken, FatalError> {
        let mut heard = Heard::default();
        loop {
            let postponed = self.postponed.as_ref().map(|(at, _)| *at);
            let until = [due, quiet, postponed].into_iter().flatten().min();
            if self.ready(interrupt, until)? == Ready::Events {
                self.take(&mut heard, reporter)?;
                if heard.is_anything() {
                    self.settle(interrupt, &mut heard, reporter)?;
                    return Ok(Woken::Heard(heard));
                }
                interrupt.pause(BREATH.min(self.settle))?;
                continue;
            }
            let is_over = |at: Option<Instant>| at.is_some_and(|at| at <= Instant::now());
            if is_over(postponed)
                && let Some((_, heard)) = self.postponed.take()
            {
                return Ok(Woken::Heard(heard));
            }
            if is_over(due) {
                return Ok(Woken::Due);
            }
            if is_over(quiet) {
                return Ok(Woken::Quiet);
            }
        }
    }

    /// Gathers events until a quiet period has passed.
    fn settle(
        &mut self,
        interrupt: &Interrupt,
        heard: &mut Heard,
        reporter: &mut dyn Reporter,
    ) -> Result<(), FatalError> {
        let mut taken = Instant::now();
        let last = taken + self.settle * AT_MOST;
        while taken < last {
            let until = (taken + self.settle).min(last);
            if self.ready(interrupt, Some(until))? == Ready::Time {
                break;
            }
            self.take(heard, reporter)?;
            taken = Instant::now();
            interrupt.pause(BREATH.min(self.settle / 4))?;
        }
        Ok(())
    }

    fn take(&mut self, heard: &mut Heard, reporter: &mut dyn Reporter) -> Result<(), FatalError> {
        self.writers.take();
        self.paths.take(heard).map_err(FatalError::could_not_run)?;
        self.sources.take(heard, reporter).map_err(FatalError::could_not_run)?;
        Ok(())
    }

    /// Waits for an event, until a time.
    fn ready(&mut self, interrupt: &Interrupt, until: Option<Instant>) -> Result<Ready, FatalError> {
        loop {
            interrupt.check()?;
            let mut others = vec![self.paths.as_fd(), interrupt.as_fd()];
            others.extend(self.writers.descriptor());
            let ready = self.sources.wait(&others, until).map_err(FatalError::could_not_run)?;
            if ready.get(2) == Some(&true) {
                self.writers.take();
            }
            if ready.first() == Some(&true) {
                return Ok(Ready::Events);
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return Ok(Ready::Time);
            }
            if !ready.contains(&true) {
                // A plugin has written output, or has ended.
                return Ok(Ready::Events);
            }
        }
    }
}

/// The maximum time between two checks of a schedule, because the clock may be set, or the machine suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(60 * 60);

/// The next check of each entity that has one.
#[derive(Debug, Default)]
pub(super) struct Timers {
    polls: BTreeMap<EntityIndex, Poll>,
    openings: BTreeMap<EntityIndex, Opening>,
    retries: BTreeMap<EntityIndex, Retry>,
}

/// The next check of an entity whose plugin broke down.
#[derive(Debug)]
struct Retry {
    /// `None` while it is being checked.
    at: Option<Instant>,
    pause: Duration,
}

/// The pauses before the first and the later checks of an entity whose plugin broke down.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

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
        let before = self.retries.get(&entity);
        let pause = before.map_or(FIRST_PAUSE, |before| (before.pause * 2).min(LONGEST_PAUSE));
        self.retries.insert(entity, Retry { at: Some(now + pause), pause });
    }

    /// Returns the time of the next check.
    pub(super) fn next(&self) -> Option<Instant> {
        let polls = self.polls.values().map(|poll| poll.at);
        let retries = self.retries.values().filter_map(|retry| retry.at);
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
        let is_due = |retry: &mut Retry| retry.at.take_if(|at| *at <= now).is_some();
        due.extend(self.retries.iter_mut().filter_map(|(&entity, retry)| is_due(retry).then_some(entity)));
        due
    }
}

fn until_opening(schedule: &Schedule, time: &Zoned) -> Duration {
    let next = schedule::next_opening(schedule, time);
    let until = next.map(|next| next.duration_since(time).unsigned_abs());
    until.map_or(LONGEST_SLEEP, |until| until.min(LONGEST_SLEEP))
}

#[cfg(test)]
mod timers_tests {
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

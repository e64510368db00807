//! Waits for events and requests, and gathers the events that follow shortly after one.

use super::paths::{Heard, WatchedPaths};
use super::requests::Requests;
use super::sources::Sources;
use super::writers::Writers;
use crate::entities::node::EntityIndex;
use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use crate::report::Reporter;
use holo_events::Writer;
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
    requests: Option<Requests>,
    settle: Duration,
    /// Events to handle later, and when.
    postponed: Option<(Instant, Heard)>,
}

/// The reason for which a wait ended.
#[derive(Debug)]
pub(super) enum Woken {
    /// These events occurred.
    Heard(Heard),
    /// A run with these words was asked for.
    Asked(Vec<String>),
    /// It is time for the caller's next scheduled check.
    Due,
    /// It has been quiet for long enough.
    Quiet,
}

/// The end of a single wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    Requests,
    Events,
    Time,
}

impl Queue {
    pub(super) fn new(paths: WatchedPaths, settle: Duration, requests: Option<Requests>) -> Queue {
        Queue { paths, sources: Sources::default(), writers: Writers::default(), requests, settle, postponed: None }
    }

    /// Watches these paths and plugins from now on. Events of others are dropped.
    pub(super) fn watch(&mut self, paths: WatchedPaths, sources: Sources) {
        self.paths = paths;
        self.sources = sources;
        self.postponed = None;
    }

    /// Returns the watched paths.
    pub(super) fn paths(&mut self) -> &mut WatchedPaths {
        &mut self.paths
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
            if let Some(words) = self.requests.as_mut().and_then(Requests::next_run) {
                return Ok(Woken::Asked(words));
            }
            let postponed = self.postponed.as_ref().map(|(at, _)| *at);
            let until = [due, quiet, postponed, self.sources.next()].into_iter().flatten().min();
            match self.ready(interrupt, until, true)? {
                Ready::Requests => {
                    self.requests.iter_mut().for_each(|requests| requests.take(reporter));
                    continue;
                }
                Ready::Events => {
                    self.take(&mut heard, reporter)?;
                    if heard.is_anything() {
                        self.settle(interrupt, &mut heard, reporter)?;
                        return Ok(Woken::Heard(heard));
                    }
                    interrupt.pause(BREATH.min(self.settle))?;
                    continue;
                }
                Ready::Time => self.sources.start_again(&mut heard, reporter),
            }
            if heard.is_anything() {
                return Ok(Woken::Heard(heard));
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
            if self.ready(interrupt, Some(until), false)? == Ready::Time {
                break;
            }
            self.take(heard, reporter)?;
            taken = Instant::now();
            interrupt.pause(BREATH.min(self.settle / 4))?;
        }
        Ok(())
    }

    /// Takes the events until now.
    pub(super) fn take(&mut self, heard: &mut Heard, reporter: &mut dyn Reporter) -> Result<(), FatalError> {
        self.writers.take();
        self.paths.take(heard).map_err(FatalError::could_not_run)?;
        self.sources.take(heard, reporter).map_err(FatalError::could_not_run)?;
        Ok(())
    }

    /// Waits for an event or a request, until a time.
    fn ready(
        &mut self,
        interrupt: &Interrupt,
        until: Option<Instant>,
        heeds_requests: bool,
    ) -> Result<Ready, FatalError> {
        loop {
            interrupt.check()?;
            let mut others = vec![self.paths.as_fd(), interrupt.as_fd()];
            others.extend(self.writers.descriptor());
            let requests = self.requests.as_ref().filter(|_| heeds_requests).and_then(Requests::descriptor);
            others.extend(requests);
            let ready = self.sources.wait(&others, until).map_err(FatalError::could_not_run)?;
            if ready.get(2) == Some(&true) {
                self.writers.take();
            }
            if requests.is_some() && ready.last() == Some(&true) {
                return Ok(Ready::Requests);
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

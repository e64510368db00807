//! Waits until there is something to look at, and gathers what happens within a short time.

use super::paths::{Heard, WatchedPaths};
use super::sources::Sources;
use super::writers::Writers;
use crate::error::FatalError;
use crate::index::EntityIndex;
use crate::interrupt::Interrupt;
use crate::report::Reporter;
use holo_events::Writer;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// What is never quiet is looked at all the same, after so many times the time that it should be quiet for.
const AT_MOST: u32 = 10;
/// The time between two looks at directories in which much happens that is about nobody.
const BREATH: Duration = Duration::from_millis(50);

/// What has happened and has not been looked at.
#[derive(Debug)]
pub(super) struct Queue {
    paths: WatchedPaths,
    sources: Sources,
    pub(super) writers: Writers,
    settle: Duration,
    /// What is to be looked at later, and when.
    postponed: Option<(Instant, Heard)>,
}

/// The reason for which the waiting is over.
#[derive(Debug)]
pub(super) enum Woken {
    /// This has happened.
    Heard(Heard),
    /// The time has come at which the caller has something to do.
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

    /// Watches these paths, and listens to these plugins, from now on. What has been heard of others does not count any more.
    pub(super) fn watch(&mut self, paths: WatchedPaths, sources: Sources) {
        self.paths = paths;
        self.sources = sources;
        self.postponed = None;
    }

    /// Has this be looked at later. What is waiting already comes with it, unless entities have other indexes by then.
    pub(super) fn postpone(&mut self, heard: Heard, by: Duration) {
        let (_, waiting) = self.postponed.get_or_insert_with(|| (Instant::now() + by, Heard::default()));
        waiting.add(heard);
    }

    /// Returns true if something is to be looked at later, as it could not be done.
    pub(super) fn has_postponed(&self) -> bool {
        self.postponed.is_some()
    }

    /// Listens to who writes the files of an entity, which was just repaired, until then or longer.
    pub(super) fn listen_to_writers(&mut self, entity: EntityIndex, until: Instant) {
        self.writers.listen(&self.paths, entity, until);
    }

    /// Returns the process that was the last to write what is at a path of an entity, as far as it is known.
    pub(super) fn writer_of(&mut self, entity: EntityIndex) -> Option<Writer<'static>> {
        self.writers.take();
        self.writers.of(&self.paths, entity)
    }

    /// Waits until something has happened and it has been quiet since, or until one of two times.
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

    /// Gathers what happens until it is quiet.
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
                // A plugin has said something, or has ended.
                return Ok(Ready::Events);
            }
        }
    }
}

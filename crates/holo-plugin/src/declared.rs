//! Entities with the common keys of all definitions: conditions, retries and health checks.

use crate::definitions::{self, Common, HealthCheck, Hindrance};
use crate::health;
use crate::index::{Table, define_index};
use crate::{
    Applied, Entity, EntityReport, FilePair, ForgetError, Host, Job, Mode, Output, SetAnswers, Span, Verdict, Witness,
};
use bstr::BString;
use std::path::Path;
use std::thread;

/// An entity with the common keys of its definition.
#[derive(Debug)]
pub struct Declared<E> {
    /// The entity.
    pub entity: E,
    /// The keys that every definition can have.
    pub common: Common,
}

impl<E> Declared<E> {
    /// Creates an entity with the common keys of its definition.
    pub fn new(entity: E, common: Common) -> Declared<E> {
        Declared { entity, common }
    }

    /// Creates an entity without a definition.
    pub fn orphan(entity: E) -> Declared<E> {
        Declared { entity, common: Common::default() }
    }
}

impl<E: Entity> Entity for Declared<E> {
    fn report(&self) -> EntityReport {
        let mut report = self.entity.report();
        definitions::complete(&self.common, &mut report);
        report
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        if let Some(reason) = self.left_out() {
            return Applied::Skipped(reason);
        }
        let mode = self.mode(mode);
        let mut applied = self.entity.apply(host, mode, output);
        for attempt in 1..=self.common.keys.retries {
            if !applied.has_failed() {
                break;
            }
            self.wait(attempt, output);
            let again = self.entity.apply(host, mode, output);
            applied = if applied.may_have_changed() { again.after_a_change() } else { again };
        }
        self.healthy(host, applied, output)
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        match &self.common.skipped {
            Some(reason) => Verdict::Skipped(reason.clone()),
            None => self.entity.check(host, self.mode(mode), output),
        }
    }

    fn needs_running_system(&self) -> bool {
        self.entity.needs_running_system()
    }

    fn send(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        self.entity.send(host, names, output);
    }

    fn foresee(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        self.entity.foresee(host, names, output);
    }

    fn hindrance(&self) -> Option<&Hindrance> {
        self.common.hindrances.first().filter(|_| self.common.skipped.is_none())
    }

    fn health_checks(&self) -> &[HealthCheck] {
        let is_left_out = self.common.skipped.is_some() || !self.common.hindrances.is_empty();
        if is_left_out { &[] } else { &self.common.keys.health_check }
    }

    fn witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        let Common { keys, skipped, hindrances, .. } = &self.common;
        // Health checks concern an unchanged entity too, and facts are not files.
        let is_fixed = skipped.is_none() && hindrances.is_empty() && keys.health_check.is_empty() && !keys.noop;
        if is_fixed && !host.knowledge().is_used() { self.entity.witnesses(host) } else { None }
    }

    fn parts(&self, host: &Host) -> Vec<BString> {
        let is_left_out = self.common.skipped.is_some() || !self.common.hindrances.is_empty();
        if is_left_out { Vec::new() } else { self.entity.parts(host) }
    }

    fn forget(&self, host: &Host, output: &mut Output<'_>) -> Result<(), ForgetError> {
        self.entity.forget(host, output)
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        if self.common.skipped.is_some() { None } else { self.entity.diff(host) }
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        if self.common.skipped.is_some() { None } else { self.entity.preview(host) }
    }

    fn blame(&self, host: &Host, path: Option<&Path>) -> Option<Vec<Span>> {
        self.entity.blame(host, path)
    }
}

impl<E> Declared<E> {
    /// Completes the apply of an entity that is already in its desired state: its health checks must pass too.
    pub fn apply_in_desired_state(&self, host: &Host, output: &mut Output<'_>) -> Applied {
        match self.left_out() {
            Some(reason) => Applied::Skipped(reason),
            None => self.healthy(host, Applied::Unchanged, output),
        }
    }

    /// Returns the mode with the policy of the definition.
    #[must_use]
    pub fn mode<'m>(&self, mode: Mode<'m>) -> Mode<'m> {
        Mode { on_edit: self.common.keys.on_edit.unwrap_or(mode.on_edit), ..mode }
    }

    /// Returns the entity itself as a job.
    #[must_use]
    pub fn job<'m>(&'m self, mode: Mode<'m>) -> Job<'m, E> {
        Job { entity: &self.entity, mode: self.mode(mode) }
    }

    /// Returns the reason why apply skips the entity, if any. A dispatcher that supports `noop` does not apply such
    /// entities in the first place.
    fn left_out(&self) -> Option<String> {
        let noop = || self.common.keys.noop.then(|| "it is only checked (noop)".to_owned());
        self.common.skipped.clone().or_else(noop)
    }

    fn wait(&self, attempt: u32, output: &mut Output<'_>) {
        let (delay, retries) = (self.common.keys.delay(attempt), self.common.keys.retries);
        output.warning(format!("trying again in {delay:?} ({attempt} of {retries})"));
        thread::sleep(delay);
    }

    /// Returns the result of the apply if the health checks pass, and a failure otherwise.
    fn healthy(&self, host: &Host, applied: Applied, output: &mut Output<'_>) -> Applied {
        let ended_well = matches!(applied, Applied::Unchanged | Applied::Changed(_) | Applied::ChangedQuietly(_));
        if ended_well && !health::is_well(&self.common.keys.health_check, host, output) {
            let nothing_changed = applied == Applied::Unchanged;
            return if nothing_changed { Applied::FAILED_UNCHANGED } else { Applied::FAILED };
        }
        applied
    }
}

/// Applies a set with the function `apply`, which receives the entities that are not skipped, and then, for each retry,
/// those that failed and have attempts left.
///
/// Plugins that apply entities one by one need not call this.
pub fn apply_together<'e, E>(
    host: &Host,
    set: &[Job<'e, Declared<E>>],
    answers: &mut dyn SetAnswers,
    mut apply: impl FnMut(&[Job<'e, E>], &mut dyn SetAnswers),
) {
    let mut attempted = Vec::new();
    for (index, job) in set.iter().enumerate() {
        match job.entity.left_out() {
            Some(reason) => {
                answers.begin(index);
                answers.end(index, Applied::Skipped(reason));
            }
            None => attempted.push(Attempted { index, job: *job, begun: false, changed: false }),
        }
    }
    let mut attempt = 0;
    while !attempted.is_empty() {
        let jobs: Vec<Job<'e, E>> = attempted.iter().map(|Attempted { job, .. }| job.entity.job(job.mode)).collect();
        let mut together = Together { host, attempted: Table::from(attempted), answers, attempt, again: Vec::new() };
        apply(&jobs, &mut together);
        let Together { attempted: before, again, .. } = together;
        attempted = again.into_iter().map(|index| before[index].clone()).collect();
        attempt += 1;
        // They share the longest of their delays.
        let keys = |attempted: &Attempted<'e, E>| &attempted.job.entity.common.keys;
        if let Some(delay) = attempted.iter().map(|attempted| keys(attempted).delay(attempt)).max() {
            for again in &attempted {
                let retries = keys(again).retries;
                answers.output(again.index).warning(format!("trying again in {delay:?} ({attempt} of {retries})"));
            }
            thread::sleep(delay);
        }
    }
}

define_index! {
    /// The index of an entity in an attempt.
    AttemptIndex
}

/// An entity in an attempt.
struct Attempted<'e, E> {
    /// Its index in the set.
    index: usize,
    job: Job<'e, Declared<E>>,
    begun: bool,
    /// True if an attempt may have changed the entity.
    changed: bool,
}

impl<E> Clone for Attempted<'_, E> {
    fn clone(&self) -> Self {
        Attempted { ..*self }
    }
}

/// Passes on the answers of the last attempt of each entity.
struct Together<'a, 'e, E> {
    host: &'a Host,
    attempted: Table<AttemptIndex, Attempted<'e, E>>,
    answers: &'a mut dyn SetAnswers,
    attempt: u32,
    again: Vec<AttemptIndex>,
}

impl<E> SetAnswers for Together<'_, '_, E> {
    fn begin(&mut self, place: usize) {
        let attempted = &mut self.attempted[AttemptIndex::from(place)];
        if !std::mem::replace(&mut attempted.begun, true) {
            self.answers.begin(attempted.index);
        }
    }

    fn output(&mut self, place: usize) -> Output<'_> {
        self.answers.output(self.attempted[AttemptIndex::from(place)].index)
    }

    fn hold_back(&mut self) {
        self.answers.hold_back();
    }

    fn flush(&mut self) {
        self.answers.flush();
    }

    fn end(&mut self, place: usize, applied: Applied) {
        let place = AttemptIndex::from(place);
        let Attempted { index, job, changed, .. } = &mut self.attempted[place];
        *changed |= applied.may_have_changed();
        let applied = if *changed { applied.after_a_change() } else { applied };
        if applied.has_failed() && self.attempt < job.entity.common.keys.retries {
            self.again.push(place);
            return;
        }
        let applied = job.entity.healthy(self.host, applied, &mut self.answers.output(*index));
        self.answers.end(*index, applied);
    }
}

#[cfg(test)]
mod tests;

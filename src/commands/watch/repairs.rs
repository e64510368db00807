//! Repairs drifted entities, as far as that is allowed.

use super::definitions::Definitions;
use super::fights::Verdict;
use super::known::State;
use super::paths::Heard;
use super::{LOCK_PATIENCE, Watcher};
use crate::cli::{Apply, Output};
use crate::commands::apply;
use crate::commands::findings::{Finding, Findings};
use crate::error::FatalError;
use crate::index::EntityIndex;
use crate::report::{End, Event, Noticed};
use crate::run_id::RunId;
use crate::settings::Settings;
use bstr::ByteSlice;
use holo_schedule as schedule;
use jiff::Zoned;
use std::time::Instant;

impl Watcher<'_> {
    /// Applies entities that have drifted, and those that this may affect, if `--apply` is given.
    pub(super) fn repair(&mut self, drifted: Vec<EntityIndex>) -> Result<(), FatalError> {
        if !self.arguments.apply {
            return Ok(());
        }
        let able: Vec<EntityIndex> = drifted.into_iter().filter(|&entity| self.may_repair(entity)).collect();
        if able.is_empty() {
            return Ok(());
        }
        let mut applied = self.known.with_dependents(&able);
        applied.retain(|&entity| !self.fights.is_left_alone(self.known.entities[entity].id.as_bstr(), Instant::now()));
        let arguments = Apply {
            force: self.arguments.force,
            dry_run: false,
            diff: false,
            verify: false,
            jobs: None,
            timeout: None,
            fail_fast: false,
            exit_zero: false,
            output: Output { json: false },
            selection: self.known.selection(applied),
        };
        let mut findings = Findings::new(self.reporter, &mut self.told);
        // Each repair is a run of its own.
        let settings = Settings { run: RunId::now(), ..self.settings.clone() };
        self.queue.writers.take();
        let done = apply::apply(&arguments, &settings, self.interrupt, &mut findings, LOCK_PATIENCE);
        let found = findings.into_found();
        self.queue.writers.skip();
        self.learn_repairs(found);
        match done {
            Ok(_) => Ok(()),
            Err(fatal) => {
                let entities = able.into_iter().map(|entity| (entity, None)).collect();
                self.postpone(fatal, Heard { entities, ..Heard::default() })
            }
        }
    }

    fn may_repair(&mut self, entity: EntityIndex) -> bool {
        if self.known.entities[entity].controls().noop || self.awaits_opening(entity) {
            return false;
        }
        let limit = self.known.limit(entity);
        let id = self.known.entities[entity].id.as_bstr();
        match self.fights.judge(id, limit, Instant::now()) {
            Verdict::Repair => true,
            Verdict::LeftAlone => false,
            Verdict::Stop(until) => {
                let writer = self.fights.writer(id);
                self.reporter.event(Event::Noticed(Noticed::LeftAlone { id, limit, until, writer }));
                false
            }
        }
    }

    /// Returns true if the schedule of an entity is closed now. Then the entity is checked when it opens.
    fn awaits_opening(&mut self, entity: EntityIndex) -> bool {
        let Some(schedule) = &self.known.entities[entity].controls().schedule else { return false };
        let now = Zoned::now();
        let is_closed = !schedule::is_open(schedule, &now);
        if is_closed {
            self.timers.await_opening(entity, schedule, &now, Instant::now());
        }
        is_closed
    }

    /// Records and reports the outcomes of applied entities.
    fn learn_repairs(&mut self, found: Vec<Finding>) {
        let mut definitions = Definitions::new(&self.known.beginnings, &self.settings.root);
        let fingerprints: Vec<_> = found.iter().map(|finding| definitions.fingerprint(&finding.sources)).collect();
        for (finding, definition) in found.into_iter().zip(fingerprints) {
            let Some(entity) = self.known.find(finding.id.as_bstr()) else { continue };
            let before = self.known.entities[entity].state;
            let (state, noticed) = match finding.end {
                End::Changed => {
                    let now = Instant::now();
                    self.fights.repaired(finding.id.as_bstr(), definition, now);
                    self.queue.listen_to_writers(entity, now + self.known.limit(entity).within);
                    let changes = &finding.changes;
                    (State::Desired, Some(Noticed::Repaired { id: finding.id.as_bstr(), changes }))
                }
                End::Unchanged | End::ConditionNotMet => {
                    let returned = Noticed::Returned(finding.id.as_bstr());
                    (State::Desired, Some(returned).filter(|_| before != Some(State::Desired)))
                }
                // It is due for a refresh, but must not be changed now.
                End::Pending if before != Some(State::Drifted) => {
                    self.awaits_opening(entity);
                    let reason = finding.reason();
                    let id = finding.id.as_bstr();
                    (State::Drifted, Some(Noticed::Drifted { id, reason, writer: None, needs_force: false }))
                }
                // That it needs force has been reported.
                End::Refused | End::Pending => (State::Drifted, None),
                End::Failed | End::DependencyFailed => {
                    (State::Failed, Some(finding.failure()).filter(|_| before != Some(State::Failed)))
                }
            };
            if let Some(noticed) = noticed {
                self.reporter.event(Event::Noticed(noticed));
                self.last_change = Instant::now();
            }
            self.known.entities[entity].state = Some(state);
        }
    }
}

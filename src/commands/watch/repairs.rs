//! Repairs drifted entities, as far as that is allowed.

use super::known::State;
use super::paths::Heard;
use super::{LOCK_PATIENCE, Watcher};
use crate::cli::Apply;
use crate::commands::apply;
use crate::commands::check::{Finding, Findings};
use crate::commands::repairs::definitions::Definitions;
use crate::commands::repairs::{Repairs, Verdict};
use crate::entities::node::EntityIndex;
use crate::error::FatalError;
use crate::host::settings::{RunId, Settings};
use crate::report::{End, Event, Noticed};
use bstr::ByteSlice;
use holo_schedule as schedule;
use holo_state::Database;
use jiff::{Timestamp, Zoned};
use std::time::Instant;

impl Watcher<'_> {
    /// Applies entities that have drifted, and those that this may affect, if `--apply` is given.
    pub(super) fn repair(&mut self, drifted: Vec<EntityIndex>) -> Result<(), FatalError> {
        if !self.arguments.apply {
            return Ok(());
        }
        let mut repairs = match self.repairs() {
            Ok(repairs) => repairs,
            Err(fatal) => return self.postpone_repair(drifted, fatal),
        };
        let able: Vec<EntityIndex> =
            drifted.into_iter().filter(|&entity| self.may_repair(entity, &mut repairs)).collect();
        if let Err(fatal) = self.keep(&mut repairs) {
            return self.postpone_repair(able, fatal);
        }
        if able.is_empty() {
            return Ok(());
        }
        let applied = self.known.with_dependents(&able);
        let arguments = Apply {
            force: self.arguments.force,
            wait: Some(LOCK_PATIENCE),
            is_of_watch: true,
            selection: self.known.selection(applied),
            ..Apply::default()
        };
        let mut findings = Findings::new(self.reporter, &mut self.told);
        // Each repair is a run of its own.
        let settings = Settings { run: RunId::now(), ..self.settings.clone() };
        self.queue.writers.take();
        let done = apply::apply(&arguments, &settings, self.interrupt, &mut findings, None);
        let found = findings.into_found();
        self.queue.writers.skip();
        match self.learn_outcomes(found, true).and(done) {
            Ok(_) => Ok(()),
            Err(fatal) => self.postpone_repair(able, fatal),
        }
    }

    fn postpone_repair(&mut self, entities: Vec<EntityIndex>, fatal: FatalError) -> Result<(), FatalError> {
        let entities = entities.into_iter().map(|entity| (entity, None)).collect();
        self.postpone(fatal, Heard { entities, ..Heard::default() })
    }

    /// Returns the repairs until now, by whomever.
    pub(super) fn repairs(&self) -> Result<Repairs, FatalError> {
        Repairs::load(&Database::read_only(self.settings.root.state_database())).map_err(FatalError::could_not_run)
    }

    /// Keeps the repairs on disk.
    pub(super) fn keep(&mut self, repairs: &mut Repairs) -> Result<(), FatalError> {
        if !self.arguments.apply {
            return Ok(());
        }
        self.release = repairs.next();
        repairs.save(&Database::new(self.settings.root.state_database())).map_err(FatalError::could_not_run)
    }

    fn may_repair(&mut self, entity: EntityIndex, repairs: &mut Repairs) -> bool {
        if self.known.entities[entity].controls().noop || self.awaits_opening(entity) {
            return false;
        }
        let limit = self.known.limit(entity);
        let id = self.known.entities[entity].id.as_bstr();
        match repairs.judge(id, limit, Timestamp::now()) {
            Verdict::Repair => true,
            Verdict::LeftAlone(_) => false,
            Verdict::Stop(until) => {
                self.reporter.event(Event::Noticed(repairs.notice(id, limit, until)));
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

    /// Records the outcomes of entities. Those of repairs are counted and reported here, those of a run that was asked for
    /// by that run.
    pub(super) fn learn_outcomes(&mut self, found: Vec<Finding>, are_repairs: bool) -> Result<(), FatalError> {
        let unseen = self.watch_parts(&found)?;
        self.unseen.extend(unseen);
        let mut repairs = self.repairs()?;
        let mut definitions = Definitions::new(&self.known.beginnings, &self.settings.root);
        let fingerprints: Vec<_> = found.iter().map(|finding| definitions.fingerprint(&finding.sources)).collect();
        for (finding, definition) in found.into_iter().zip(fingerprints) {
            let Some(entity) = self.known.find(finding.id.as_bstr()) else { continue };
            let before = self.known.entities[entity].state;
            let (state, noticed) = match finding.end {
                _ if finding.is_unknown => continue,
                End::Pending if self.known.entities[entity].always_acts => (State::Desired, None),
                End::Changed => {
                    let (id, definition, now) = (finding.id.as_bstr(), Some(definition), Timestamp::now());
                    match finding.is_refreshed {
                        _ if !are_repairs => {}
                        true => repairs.refreshed(id, definition, now),
                        false => repairs.repaired(id, definition, now),
                    }
                    self.queue.listen_to_writers(entity, Instant::now() + self.known.limit(entity).within);
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
                    (
                        State::Drifted,
                        Some(Noticed::Drifted { id, reason, writer: None, needs_force: false, is_edited: false }),
                    )
                }
                // That it needs force has been reported.
                End::Refused | End::Pending => (State::Drifted, None),
                End::Failed | End::DependencyFailed => {
                    (State::Failed, Some(finding.failure()).filter(|_| before != Some(State::Failed)))
                }
            };
            if let Some(noticed) = noticed.filter(|_| are_repairs) {
                self.reporter.event(Event::Noticed(noticed));
                self.last_change = Instant::now();
            }
            self.known.entities[entity].state = Some(state);
            self.timers.retry(entity, finding.is_broken, Instant::now());
        }
        self.keep(&mut repairs)
    }
}

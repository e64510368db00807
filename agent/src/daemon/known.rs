//! Entities with problems, and events about changes to them.

use super::health::Found;
use crate::event::{DefinitionError, What};
use crate::report::{Health, Trouble, TroubleKind};
use holo_events::{FileStamp, HealthState, Line, Writer};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Entities with problems.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) drifted: BTreeMap<String, Trouble>,
    pub(super) failed: BTreeMap<String, Trouble>,
    /// The health of the entities with health checks.
    pub(super) health: BTreeMap<String, Health>,
    /// The entities with problems that a new watch has not reported yet.
    unconfirmed: BTreeSet<String>,
    /// The errors in definitions that were reported, with the states of their files then.
    definition_errors: BTreeMap<DefinitionError, Option<FileStamp>>,
}

/// The reason of a failure that was reported without one.
const NO_REASON: &str = "its plugin has given no reason";

/// The problems found by a run, each with its reason.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    pub(super) drifted: BTreeMap<String, (TroubleKind, Option<String>)>,
    pub(super) failed: BTreeMap<String, Option<String>>,
    pub(super) definition_errors: Vec<DefinitionError>,
    /// The checked entities; `None` if all were checked.
    pub(super) seen: Option<BTreeSet<String>>,
    /// The last error about an entity.
    pub(super) error: Option<(String, String)>,
}

impl Troubles {
    /// Returns the last error if it concerns this entity.
    pub(super) fn last_error(&self, entity: &str) -> Option<String> {
        self.error.as_ref().filter(|(id, _)| id == entity).map(|(_, text)| text.clone())
    }
}

impl Known {
    /// Prepares for a new watch, which reports every entity with a problem.
    pub(super) fn begin_watch(&mut self) {
        self.unconfirmed = self.drifted.keys().chain(self.failed.keys()).cloned().collect();
    }

    /// Processes a line of a watch, and returns the events.
    pub(super) fn hear_watch(&mut self, line: &Line<'_>, now: Timestamp) -> Vec<What> {
        match line {
            Line::Drifted { id, reason, writer, needs_force, edited } => {
                let kind = match (needs_force, edited) {
                    (_, true) => TroubleKind::Edited,
                    (true, false) => TroubleKind::Refused,
                    (false, false) => TroubleKind::Drifted,
                };
                let writer = writer.clone().map(Writer::into_owned);
                self.drifts(&id.to_string(), kind, reason.as_ref().map(ToString::to_string), writer, now)
            }
            Line::Failed { id, reason } => self.fails(&id.to_string(), Some(reason.to_string()), now),
            Line::Error { id: Some(id), text } => self.fails(&id.to_string(), Some(text.to_string()), now),
            Line::Error { id: None, text } => {
                DefinitionError::parse(&text.to_string()).and_then(|error| self.misdefined(error)).into_iter().collect()
            }
            Line::Returned { id } => self.returns(&id.to_string()),
            Line::Repaired { id, changed } => {
                let entity = id.to_string();
                self.forget(&entity);
                vec![What::Repaired { entity, changed: changed.iter().map(ToString::to_string).collect() }]
            }
            // All entities have been checked.
            Line::Watching { .. } => {
                let gone = std::mem::take(&mut self.unconfirmed);
                gone.iter().flat_map(|entity| self.returns(entity)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Processes the problems found by a run, and returns the events.
    pub(super) fn learn(&mut self, troubles: Troubles, now: Timestamp) -> Vec<What> {
        let is_well = |id: &String| {
            let is_seen = troubles.seen.as_ref().is_none_or(|seen| seen.contains(id));
            is_seen && !troubles.drifted.contains_key(id) && !troubles.failed.contains_key(id)
        };
        let well: BTreeSet<String> =
            self.drifted.keys().chain(self.failed.keys()).filter(|id| is_well(id)).cloned().collect();
        let mut news: Vec<What> = well.iter().flat_map(|entity| self.returns(entity)).collect();
        if troubles.seen.is_none() {
            // The cause need not have been in the file: data may have been missing.
            self.definition_errors.retain(|error, _| troubles.definition_errors.contains(error));
        }
        news.extend(troubles.definition_errors.into_iter().filter_map(|error| self.misdefined(error)));
        for (entity, (kind, reason)) in troubles.drifted {
            news.extend(self.drifts(&entity, kind, reason, None, now));
        }
        for (entity, reason) in troubles.failed {
            news.extend(self.fails(&entity, reason, now));
        }
        news
    }

    pub(super) fn is_any_critical(&self) -> bool {
        self.health.values().any(|health| health.state == HealthState::Critical)
    }

    /// Processes the results of a round of health checks, and returns the events. Unless the round was complete, other
    /// entities keep their state.
    pub(super) fn learn_health(&mut self, found: Vec<Found>, is_whole: bool, now: Timestamp) -> Vec<What> {
        let mut news = Vec::new();
        let mut before = if is_whole { std::mem::take(&mut self.health) } else { BTreeMap::new() };
        for Found { entity, state, text, .. } in found {
            let known = before.remove(&entity).or_else(|| self.health.remove(&entity));
            let since = known.as_ref().filter(|known| known.state == state).map(|known| known.since);
            // An entity that is healthy from the start is not reported.
            if since.is_none() && (known.is_some() || state != HealthState::Ok) {
                news.push(What::Health { entity: entity.clone(), state, text: text.clone() });
            }
            self.health.insert(entity, Health { state, since: since.unwrap_or(now), text });
        }
        news
    }

    /// Returns the event for an invalid definition, unless the file is unchanged since the last one.
    fn misdefined(&mut self, error: DefinitionError) -> Option<What> {
        let stamp = fs::metadata(&error.file).ok().as_ref().map(FileStamp::of);
        self.definition_errors.retain(|other, before| other.file != error.file || *before == stamp);
        let is_new = self.definition_errors.insert(error.clone(), stamp).is_none();
        is_new.then_some(What::DefinitionError(error))
    }

    fn drifts(
        &mut self,
        entity: &str,
        kind: TroubleKind,
        reason: Option<String>,
        writer: Option<Writer<'static>>,
        now: Timestamp,
    ) -> Vec<What> {
        self.unconfirmed.remove(entity);
        self.failed.remove(entity);
        let reason = reason.filter(|reason| !reason.is_empty());
        let before = self.drifted.get(entity);
        // A person may change what has drifted, or force may become necessary.
        if before.is_some_and(|before| before.kind == kind) {
            return Vec::new();
        }
        let trouble = Trouble { since: now, kind, reason: reason.clone(), writer: writer.clone() };
        self.drifted.insert(entity.to_owned(), trouble);
        let entity = entity.to_owned();
        let told = reason.clone().unwrap_or_else(|| NO_REASON.to_owned());
        vec![match kind {
            TroubleKind::Edited => What::Edited { entity, reason: told, writer },
            TroubleKind::Refused => What::Refused { entity, reason: told },
            TroubleKind::Drifted | TroubleKind::Failed => What::Drifted { entity, reason, writer },
        }]
    }

    fn fails(&mut self, entity: &str, reason: Option<String>, now: Timestamp) -> Vec<What> {
        self.unconfirmed.remove(entity);
        self.drifted.remove(entity);
        if self.failed.contains_key(entity) {
            return Vec::new();
        }
        let reason = reason.filter(|reason| !reason.is_empty()).unwrap_or_else(|| NO_REASON.to_owned());
        let trouble = Trouble { since: now, kind: TroubleKind::Failed, reason: Some(reason.clone()), writer: None };
        self.failed.insert(entity.to_owned(), trouble);
        vec![What::Failed { entity: entity.to_owned(), reason }]
    }

    fn returns(&mut self, entity: &str) -> Vec<What> {
        if self.forget(entity) { vec![What::Returned { entity: entity.to_owned() }] } else { Vec::new() }
    }

    /// Returns true if the entity had a problem.
    fn forget(&mut self, entity: &str) -> bool {
        self.unconfirmed.remove(entity);
        let has_drifted = self.drifted.remove(entity).is_some();
        self.failed.remove(entity).is_some() || has_drifted
    }
}

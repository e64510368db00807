//! Limits what is done to an entity without anybody asking for it: by a watch, and by the runs of the agent.
//!
//! The repairs of all of them count together, in the state database, and an entity that was repaired too often is left
//! alone, whoever would repair it. A run that a person asks for has no limits, and ends that.

pub(super) mod definitions;

use crate::cli::Apply;
use crate::discovery::inventory::Inventory;
use crate::entities::Entity;
use crate::entities::node::EntityIndex;
use crate::error::FatalError;
use crate::host::root::Root;
use crate::plan::refresh::Refreshes;
use crate::plan::select::Selected;
use crate::report::{End, Event, Noticed, Reporter};
use bstr::{BStr, BString, ByteSlice};
use definitions::{Beginnings, Definitions, Fingerprint};
use holo_events::Writer;
use holo_protocol::Limit;
use holo_state::{Database, StateError};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// The time after which an abandoned entity is repaired again.
const LEFT_ALONE: Duration = Duration::from_secs(60 * 60);

/// The entities that were changed without anybody asking for it.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    of: BTreeMap<BString, Repaired>,
    /// Those that differ from the database.
    changed: BTreeSet<BString>,
}

/// The repairs of an entity.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Repaired {
    /// The times of the repairs that may count against the limit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repairs: Vec<Timestamp>,
    /// The time since and until which it is not repaired.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_alone: Option<(Timestamp, Timestamp)>,
    /// The last time at which it was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    acted: Option<Timestamp>,
    /// The last process known to have written a file of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    writer: Option<Writer<'static>>,
    /// Its definition when it was changed, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<Fingerprint>,
}

/// Whether an entity may be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may be repaired.
    Repair,
    /// It was repaired too often. From now on it is not repaired until this time.
    Stop(Timestamp),
    /// It is not repaired until this time.
    LeftAlone(Timestamp),
}

impl Repairs {
    /// Loads what the database knows.
    pub(super) fn load(database: &Database) -> Result<Repairs, StateError> {
        // A record that cannot be read is like none.
        let known = |(id, record): (BString, String)| Some((id, serde_json::from_str(&record).ok()?));
        let of = database.repairs()?.into_iter().filter_map(known).collect();
        Ok(Repairs { of, changed: BTreeSet::new() })
    }

    /// Writes what has changed.
    pub(super) fn save(&mut self, database: &Database) -> Result<(), StateError> {
        if self.changed.is_empty() {
            return Ok(());
        }
        let (mut put, mut removed) = (Vec::new(), Vec::new());
        for id in std::mem::take(&mut self.changed) {
            // These records can always be serialized.
            match self.of.get(&id).and_then(|repaired| serde_json::to_string(repaired).ok()) {
                Some(record) => put.push((id, record)),
                None => removed.push(id),
            }
        }
        database.write_repairs(&put, &removed)
    }

    /// Decides whether an entity may be repaired now.
    pub(super) fn judge(&mut self, id: &BStr, limit: Limit, now: Timestamp) -> Verdict {
        let Some(repaired) = self.of.get_mut(id) else { return Verdict::Repair };
        if let Some(until) = repaired.left_alone_until(now) {
            return Verdict::LeftAlone(until);
        }
        // Times in the future are those of a clock that was set back.
        let age = |at: Timestamp| Duration::try_from(now.duration_since(at));
        let counts = |at: &Timestamp| age(*at).is_ok_and(|age| age < limit.within);
        let recent: Vec<Timestamp> = repaired.repairs.iter().copied().filter(counts).collect();
        let times = usize::try_from(limit.times).unwrap_or(usize::MAX);
        let first = recent.len().checked_sub(times).and_then(|index| recent.get(index)).copied();
        let until = first.map(|first| later(now, LEFT_ALONE).max(later(first, limit.within)));
        let left_alone = until.map(|until| (now, until));
        if recent != repaired.repairs || left_alone != repaired.left_alone {
            (repaired.repairs, repaired.left_alone) = (recent, left_alone);
            self.changed.insert(id.to_owned());
        }
        until.map_or(Verdict::Repair, Verdict::Stop)
    }

    /// Returns the time until which an entity is not repaired, if it was repaired too often.
    pub(super) fn left_alone_until(&self, id: &BStr, now: Timestamp) -> Option<Timestamp> {
        self.of.get(id)?.left_alone_until(now)
    }

    /// Records that an entity was refreshed because another one was changed. It does not count as a repair, and the entity is no longer left alone.
    pub(super) fn refreshed(&mut self, id: &BStr, definition: Option<Fingerprint>, now: Timestamp) {
        let repaired = self.acted(id, definition, now);
        if repaired.left_alone.take().is_some() {
            repaired.repairs.clear();
        }
    }

    /// Records a repair of an entity.
    pub(super) fn repaired(&mut self, id: &BStr, definition: Option<Fingerprint>, now: Timestamp) {
        self.acted(id, definition, now).repairs.push(now);
    }

    /// Records that an entity was changed. If its definition is another one than before, earlier repairs do not count.
    fn acted(&mut self, id: &BStr, definition: Option<Fingerprint>, now: Timestamp) -> &mut Repaired {
        self.changed.insert(id.to_owned());
        let repaired = self.of.entry(id.to_owned()).or_default();
        if repaired.is_of_other(definition) {
            *repaired = Repaired::default();
        }
        repaired.definition = definition.or(repaired.definition);
        repaired.acted = Some(now);
        repaired
    }

    /// Forgets the entities whose definitions have changed. Without a definition, an entity is not known.
    pub(super) fn forget_changed(&mut self, definitions: &HashMap<BString, Fingerprint>) {
        for (id, &definition) in definitions {
            if self.of.get(id).is_some_and(|repaired| repaired.is_of_other(Some(definition))) {
                self.of.remove(id);
                self.changed.insert(id.clone());
            }
        }
    }

    /// Forgets the entities that are due for a refresh since they were last changed.
    fn forget_outdated(&mut self, refreshes: &Refreshes) {
        let outdated: BTreeSet<BString> =
            self.of.keys().filter(|id| self.has_new_refresh(id.as_bstr(), refreshes)).cloned().collect();
        self.retain(|id| !outdated.contains(id));
    }

    fn has_new_refresh(&self, id: &BStr, refreshes: &Refreshes) -> bool {
        let acted = self.of.get(id).and_then(|repaired| repaired.acted);
        acted.is_some_and(|acted| refreshes.is_due_since(id, acted))
    }

    /// Forgets the entities that are not as this says.
    fn retain(&mut self, is_kept: impl Fn(&BStr) -> bool) {
        let gone: Vec<BString> = self.of.keys().filter(|id| !is_kept(id.as_bstr())).cloned().collect();
        gone.iter().for_each(|id| drop(self.of.remove(id)));
        self.changed.extend(gone);
    }

    /// Returns true if there are repairs of an entity, or it is left alone.
    pub(super) fn has(&self, id: &BStr) -> bool {
        self.of.get(id).is_some_and(|repaired| !repaired.repairs.is_empty() || repaired.left_alone.is_some())
    }

    /// Records the process that has written a file of an entity, if the entity was repaired.
    pub(super) fn written(&mut self, id: &BStr, writer: &Writer<'static>) {
        if let Some(repaired) = self.of.get_mut(id) {
            repaired.writer = Some(writer.clone());
            self.changed.insert(id.to_owned());
        }
    }

    /// Returns the notice about an entity that is left alone.
    pub(super) fn notice<'a>(&'a self, id: &'a BStr, limit: Limit, until: Timestamp) -> Noticed<'a> {
        let writer = self.of.get(id).and_then(|repaired| repaired.writer.as_ref());
        Noticed::LeftAlone { id, limit, until: instant(until), writer }
    }

    /// Returns the earliest time at which an entity may be repaired again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.of.values().filter_map(|repaired| repaired.left_alone).map(|(_, until)| until).min().map(instant)
    }

    /// Returns the entities that may be repaired again.
    pub(super) fn release(&mut self, now: Timestamp) -> Vec<BString> {
        let is_over = |repaired: &Repaired| repaired.left_alone.is_some() && repaired.left_alone_until(now).is_none();
        let mut released = Vec::new();
        for (id, repaired) in self.of.iter_mut().filter(|(_, repaired)| is_over(repaired)) {
            repaired.left_alone = None;
            released.push(id.clone());
        }
        self.changed.extend(released.iter().cloned());
        released
    }
}

impl Repaired {
    fn left_alone_until(&self, now: Timestamp) -> Option<Timestamp> {
        // It is over if the clock was set back to a time before it.
        self.left_alone.filter(|(since, until)| *since <= now && now < *until).map(|(_, until)| until)
    }

    /// Returns true if the definition is known to differ from this one.
    fn is_of_other(&self, definition: Option<Fingerprint>) -> bool {
        self.definition.zip(definition).is_some_and(|(before, now)| before != now)
    }
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// The maximum time until the clock is read again, because it may be set, or the machine suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(60 * 60);

fn instant(time: Timestamp) -> Instant {
    let wait = Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default();
    let now = Instant::now();
    now.checked_add(wait).unwrap_or(now + LONGEST_SLEEP)
}

/// The limits on an apply.
#[derive(Debug, Default)]
pub(super) struct Limits {
    repairs: Repairs,
    /// The entities whose health is critical, so that this apply is a repair of them.
    critical: HashSet<BString>,
    /// The entities that were repaired too often.
    pub(super) left_alone: HashSet<EntityIndex>,
    /// The entities that act at every apply, and need not do so now.
    pub(super) acted: HashSet<EntityIndex>,
    /// Whether the apply is counted here. Repairs of a watch are counted by the watch.
    counts: bool,
    /// Whether the definitions of all entities are known.
    is_whole: bool,
}

impl Limits {
    /// Returns the limits on an apply of these entities, and reports those that are left alone. An apply that a person
    /// asks for has none, and ends that entities are left alone.
    pub(super) fn load(
        arguments: &Apply,
        (inventory, selected): (&Inventory, &Selected),
        refreshes: &Refreshes,
        root: &Root,
        database: &Database,
        reporter: &mut dyn Reporter,
    ) -> Result<Limits, FatalError> {
        let is_whole = arguments.selection.selectors.is_empty();
        let always = || inventory.entities.entries().filter(|(_, entity)| entity.edges().always);
        let selected = || inventory.selected_of(selected);
        if arguments.is_of_watch {
            let acted = always().map(|(entity, _)| entity).collect();
            let repairs = Repairs::load(database).map_err(FatalError::could_not_run)?;
            let now = Timestamp::now();
            let is_left_alone = |entity: &Entity| {
                !repairs.has_new_refresh(entity.id(), refreshes) && repairs.left_alone_until(entity.id(), now).is_some()
            };
            let left_alone = selected().filter(|(_, entity)| is_left_alone(entity)).map(|(index, _)| index).collect();
            return Ok(Limits { acted, left_alone, ..Limits::default() });
        }
        let Some(interval) = arguments.unattended else {
            let asked: HashSet<&BStr> = selected().map(|(_, entity)| entity.id()).collect();
            lift(database, |id| is_whole || asked.contains(id))?;
            return Ok(Limits::default());
        };
        let critical: HashSet<BString> = arguments.critical.iter().map(|id| id.as_bytes().into()).collect();
        let repairs = Repairs::load(database).map_err(FatalError::could_not_run)?;
        let mut limits = Limits { repairs, critical, counts: true, is_whole, ..Limits::default() };
        let known = selected().filter(|(_, entity)| limits.repairs.of.contains_key(entity.id()));
        let known: Vec<(EntityIndex, &Entity)> = known.collect();
        let repairs = &limits.repairs;
        let matters = |entity: &Entity| repairs.has(entity.id()) || entity.edges().always;
        let judged = known.iter().map(|(_, entity)| *entity).filter(|entity| matters(entity));
        let definitions = limits.definitions(inventory, root, judged);
        limits.repairs.forget_changed(&definitions);
        limits.repairs.forget_outdated(refreshes);
        let now = Timestamp::now();
        for (index, entity) in known {
            let (id, limit) = (entity.id(), entity.controls().limit.unwrap_or(Limit::DEFAULT));
            if let Verdict::Stop(until) | Verdict::LeftAlone(until) = limits.repairs.judge(id, limit, now) {
                reporter.event(Event::Noticed(limits.repairs.notice(id, limit, until)));
                limits.left_alone.insert(index);
            }
        }
        let has_acted = |id: &BStr| {
            let age = now.duration_since(limits.repairs.of.get(id)?.acted?);
            Duration::try_from(age).ok().filter(|age| *age < interval)
        };
        limits.acted =
            always().filter(|(_, entity)| has_acted(entity.id()).is_some()).map(|(entity, _)| entity).collect();
        Ok(limits)
    }

    /// Returns the definitions of these entities. In a run of only some entities, where definitions end is not known.
    fn definitions<'a>(
        &self,
        inventory: &Inventory,
        root: &Root,
        entities: impl Iterator<Item = &'a Entity>,
    ) -> HashMap<BString, Fingerprint> {
        let mut entities = entities.filter(|_| self.is_whole).peekable();
        if entities.peek().is_none() {
            return HashMap::new();
        }
        let beginnings = Beginnings::new(inventory);
        let mut definitions = Definitions::new(&beginnings, root);
        entities.map(|entity| (entity.id().to_owned(), definitions.fingerprint(&entity.report_sources()))).collect()
    }

    /// Returns a reporter that sees what becomes of the entities.
    pub(super) fn observe<'a>(&self, reporter: &'a mut dyn Reporter) -> Observer<'a> {
        Observer { reporter, seen: Seen::default(), is_on: self.counts }
    }

    /// Counts what an apply has done.
    pub(super) fn count(
        mut self,
        Seen { ended, refreshed }: &Seen,
        inventory: &Inventory,
        root: &Root,
        database: &Database,
    ) -> Result<(), StateError> {
        if !self.counts {
            return Ok(());
        }
        let now = Timestamp::now();
        let of_entities = || inventory.entities.entries();
        let has_acted = |entity: &Entity| match ended.get(entity.id()) {
            Some(End::Changed) => true,
            Some(End::Failed) => entity.edges().always,
            _ => false,
        };
        let acted = of_entities().map(|(_, entity)| entity).filter(|entity| has_acted(entity));
        let definitions = self.definitions(inventory, root, acted);
        for (index, entity) in of_entities().filter(|(_, entity)| ended.contains_key(entity.id())) {
            let (id, definition) = (entity.id(), definitions.get(entity.id()).copied());
            // What is made for the first time, or by another definition, is no repair.
            let was_made = self.repairs.of.get(id).is_some_and(|before| !before.is_of_other(definition));
            let is_critical = self.critical.contains(id) && !self.left_alone.contains(&index);
            if !is_critical && has_acted(entity) && refreshed.contains(id) {
                self.repairs.refreshed(id, definition, now);
            } else if is_critical || (has_acted(entity) && was_made && !entity.edges().always) {
                self.repairs.repaired(id, definition, now);
            } else if has_acted(entity) {
                self.repairs.acted(id, definition, now);
            }
        }
        if self.is_whole && !inventory.flaws.iter().any(|is_flawed| *is_flawed) {
            let ids: HashSet<&BStr> = inventory.entities.iter().map(Entity::id).collect();
            self.repairs.retain(|id| ids.contains(id));
        }
        self.repairs.save(database)
    }
}

/// Forgets the repairs of entities, as a person has asked for an apply of them.
pub(super) fn lift(database: &Database, is_asked: impl Fn(&BStr) -> bool) -> Result<(), FatalError> {
    let lift = || {
        let mut repairs = Repairs::load(database)?;
        repairs.retain(|id| !is_asked(id));
        repairs.save(database)
    };
    lift().map_err(FatalError::could_not_run)
}

/// What has become of entities.
#[derive(Debug, Default)]
pub(super) struct Seen {
    ended: HashMap<BString, End>,
    refreshed: HashSet<BString>,
}

/// Sees what becomes of entities.
pub(super) struct Observer<'a> {
    reporter: &'a mut dyn Reporter,
    pub(super) seen: Seen,
    is_on: bool,
}

impl Reporter for Observer<'_> {
    fn event(&mut self, event: Event<'_>) {
        match &event {
            _ if !self.is_on => {}
            Event::End(entity, end, _) => drop(self.seen.ended.insert(entity.id().to_owned(), *end)),
            Event::Refresh(entity, _) => drop(self.seen.refreshed.insert(entity.id().to_owned())),
            _ => {}
        }
        self.reporter.event(event);
    }

    fn is_read(&self) -> bool {
        self.reporter.is_read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { times: 3, within: Duration::from_secs(600) };
    const DEFINITION: Fingerprint = Fingerprint::for_test(1);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn often_repaired_entity_is_left_alone_for_an_hour() {
        let id = BStr::new("file:/x");
        let mut repairs = Repairs::default();
        for second in [0, 10, 20] {
            assert_eq!(repairs.judge(id, LIMIT, at(second)), Verdict::Repair);
            repairs.repaired(id, Some(DEFINITION), at(second));
        }
        assert_eq!(repairs.next(), None);
        assert_eq!(repairs.judge(id, LIMIT, at(30)), Verdict::Stop(at(3630)));
        assert_eq!(repairs.judge(id, LIMIT, at(3000)), Verdict::LeftAlone(at(3630)));
        assert_eq!(repairs.judge("file:/y".into(), LIMIT, at(30)), Verdict::Repair);
        assert!(repairs.next().is_some() && repairs.release(at(3629)).is_empty());
        assert_eq!(repairs.release(at(3630)), [id]);
        assert_eq!(repairs.next(), None);
        assert_eq!(repairs.judge(id, LIMIT, at(3630)), Verdict::Repair);
    }

    #[test]
    fn counts_and_pauses_are_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::new(folder.path().join("state.db"));
        let (id, other) = (BStr::new("file:/x"), BStr::new("file:/y"));
        for second in [0, 10, 20] {
            let mut repairs = Repairs::load(&database).unwrap();
            assert_eq!(repairs.judge(id, LIMIT, at(second)), Verdict::Repair);
            repairs.repaired(id, Some(DEFINITION), at(second));
            repairs.repaired(other, None, at(second));
            repairs.save(&database).unwrap();
        }
        let mut repairs = Repairs::load(&database).unwrap();
        assert_eq!(repairs.judge(id, LIMIT, at(30)), Verdict::Stop(at(3630)));
        repairs.save(&database).unwrap();
        let mut repairs = Repairs::load(&database).unwrap();
        assert_eq!(repairs.left_alone_until(id, at(40)), Some(at(3630)));
        // The clock was set back.
        assert_eq!(repairs.left_alone_until(id, at(-40)), None);
        repairs.retain(|kept| kept == other);
        repairs.save(&database).unwrap();
        let repairs = Repairs::load(&database).unwrap();
        assert!(!repairs.has(id) && repairs.has(other));
    }

    #[test]
    fn changed_definition_resets_repairs() {
        let (changed, same, gone) = (BStr::new("file:/x"), BStr::new("file:/y"), BStr::new("file:/z"));
        let mut repairs = Repairs::default();
        for id in [changed, same, gone] {
            (0..3).for_each(|second| repairs.repaired(id, Some(DEFINITION), at(second)));
            assert!(matches!(repairs.judge(id, LIMIT, at(3)), Verdict::Stop(_)), "{id}");
        }
        let definitions = [(changed.to_owned(), Fingerprint::for_test(2)), (same.to_owned(), DEFINITION)];
        repairs.forget_changed(&definitions.into());
        let left_alone = [changed, same, gone].map(|id| repairs.left_alone_until(id, at(4)).is_some());
        assert_eq!(left_alone, [false, true, true]);
        assert_eq!(repairs.judge(changed, LIMIT, at(4)), Verdict::Repair);
    }

    #[test]
    fn old_repairs_do_not_count() {
        let id = BStr::new("file:/x");
        let mut repairs = Repairs::default();
        for minute in (0..100).step_by(6) {
            assert_eq!(repairs.judge(id, LIMIT, at(minute * 60)), Verdict::Repair, "after {minute} min");
            repairs.repaired(id, Some(DEFINITION), at(minute * 60));
        }
    }

    #[test]
    fn limit_longer_than_an_hour_extends_the_pause() {
        let id = BStr::new("file:/x");
        let hours = |hours: i64| at(hours * 3600);
        let limit = Limit { times: 2, within: Duration::from_secs(24 * 3600) };
        let mut repairs = Repairs::default();
        for hour in [0, 2, 5] {
            repairs.repaired(id, Some(DEFINITION), hours(hour));
        }
        // The last two of the three count.
        assert_eq!(repairs.judge(id, limit, hours(6)), Verdict::Stop(hours(26)));
        assert_eq!(repairs.release(hours(25)), [""; 0]);
        assert_eq!(repairs.judge(id, limit, hours(26)), Verdict::Repair);
    }
}

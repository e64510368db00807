//! Brings resources into their desired states: those of one provider are read, changed and read again together.

use crate::attribute::{Access, ValueType, Values};
use crate::catalog::ChoiceError;
use crate::compare::{Difference, ENSURE, differences, is_gone, same, wants_latest, wants_nothing};
use crate::convention::json::change_of;
use crate::entity::{Past, ResourceEntity};
use crate::exchange::{CallError, Change, Outcome, Reading, Request};
use crate::metadata::Metadata;
use crate::notes::Notes;
use crate::provider::{Provider, SET_LIMIT};
use crate::record::Record;
use holo_bridge::HIDDEN;
use holo_bridge::shown::compact;
use holo_change::base_store::{BaseStore, Remembered};
use holo_plugin::definitions::did_you_mean;
use holo_plugin::{Applied, ForceTo, Host, Job, Output, SetAnswers, Verdict};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Applies a set. Resources of one provider are worked on in the order of their definitions, different providers at the same time.
pub(crate) fn apply(host: &Host, set: &[Job<'_, ResourceEntity>], answers: &mut dyn SetAnswers) {
    let mut groups: BTreeMap<String, Group<'_>> = BTreeMap::new();
    for (place, job) in set.iter().enumerate() {
        answers.begin(place);
        let entity = job.entity;
        if entity.is_mocked(host) {
            let applied = entity.mock(host, &mut answers.output(place));
            finish_mock(host, entity, applied, place, answers);
            continue;
        }
        match entity.choose(host) {
            Ok(provider) => {
                let name = provider.metadata.qualified_name();
                let group = groups.entry(name).or_insert_with(|| Group { provider, items: Vec::new() });
                group.items.push(Item::new(place, entity, job.mode.force));
            }
            Err(error) => {
                say_choice(&error, &mut answers.output(place));
                answers.end(place, Applied::FAILED_UNCHANGED);
            }
        }
    }
    let groups: Vec<Group<'_>> = groups.into_values().collect();
    for group in worked_on(host, groups) {
        for item in group.items {
            item.notes.say(&item.entity.sensitive, &mut answers.output(item.place));
            answers.end(item.place, item.applied.unwrap_or(Applied::FAILED));
        }
    }
}

/// Forgets an orphan that was only ever pretended to be there.
fn finish_mock(host: &Host, entity: &ResourceEntity, applied: Applied, place: usize, answers: &mut dyn SetAnswers) {
    let forgotten = match (&entity.past, &applied) {
        (Past::Orphan(_), Applied::Unchanged) => {
            BaseStore::open(host.locations()).and_then(|store| store.forget(&entity.id))
        }
        _ => Ok(()),
    };
    if let Err(error) = forgotten {
        answers.output(place).error(error.to_string());
        return answers.end(place, Applied::FAILED);
    }
    answers.end(place, applied);
}

fn say_choice(error: &ChoiceError, output: &mut Output<'_>) {
    output.error(error.message.as_bytes());
    error.reasons.iter().for_each(|reason| output.warning(reason));
}

/// Works on the groups, as many at a time as there are jobs.
fn worked_on<'e>(host: &Host, groups: Vec<Group<'e>>) -> Vec<Group<'e>> {
    let jobs = host.jobs().clamp(1, groups.len().max(1));
    let (pending, done) = (Mutex::new(groups.into_iter()), Mutex::new(Vec::new()));
    let next = || pending.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(mut group) = next() {
                    group.work(host);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push(group);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl ResourceEntity {
    fn choose(&self, host: &Host) -> Result<Arc<Provider>, ChoiceError> {
        self.context.catalog(host).choose(&self.kind, self.provider.as_deref())
    }
}

/// The resources of one provider.
struct Group<'e> {
    provider: Arc<Provider>,
    items: Vec<Item<'e>>,
}

/// A resource that is worked on.
pub(crate) struct Item<'e> {
    place: usize,
    entity: &'e ResourceEntity,
    force: bool,
    notes: Notes,
    applied: Option<Applied>,
    /// The attributes that it shall have, as values of their types.
    desired: Values,
    /// Those that it has.
    is: Values,
    differences: Vec<Difference>,
}

impl Group<'_> {
    fn work(&mut self, host: &Host) {
        self.items.sort_by(|one, other| one.entity.location.cmp(&other.entity.location));
        let Group { provider, items } = self;
        for item in &mut *items {
            item.read_definition(&provider.metadata);
        }
        read_all(host, provider, items);
        let store = match BaseStore::open(host.locations()) {
            Ok(store) => store,
            Err(error) => return items.iter_mut().for_each(|item| item.fail(error.to_string(), true)),
        };
        for item in items.iter_mut().filter(|item| item.is_open()) {
            item.decide(provider, &store);
        }
        let mut pending: Vec<&mut Item<'_>> = items.iter_mut().filter(|item| item.is_open()).collect();
        if !pending.is_empty() {
            update(host, provider, &mut pending);
            read_again(host, provider, &mut pending);
            pending.iter_mut().for_each(|item| item.remember(provider, &store));
        }
    }
}

fn open_names<'e>(items: &[Item<'e>]) -> Vec<&'e str> {
    items.iter().filter(|item| item.is_open()).map(|item| item.entity.name.as_str()).collect()
}

/// Reads the state of all that are not done with.
fn read_all(host: &Host, provider: &Provider, items: &mut [Item<'_>]) {
    let names = open_names(items);
    if names.is_empty() {
        return;
    }
    let mut notes = Notes::default();
    let readings = provider.get(host, &names, &mut notes);
    if let Some(first) = items.iter_mut().find(|item| item.is_open()) {
        first.notes.append(notes);
    }
    for item in items.iter_mut().filter(|item| item.is_open()) {
        match &readings {
            Ok(readings) => item.take_reading(provider, readings.get(&item.entity.name)),
            Err(error) => item.fail(format!("{} {error}", provider.label()), true),
        }
    }
}

/// Has the provider change what is not as desired. If it fails at all of them together they are tried one by one, so that only the culprit
/// fails.
fn update(host: &Host, provider: &Provider, pending: &mut [&mut Item<'_>]) {
    if let Err(error) = update_together(host, provider, pending) {
        if pending.len() == 1 {
            pending.iter_mut().for_each(|item| item.fail(format!("{} {error}", provider.label()), false));
            return;
        }
        for item in pending {
            if let Err(error) = update_together(host, provider, std::slice::from_mut(item)) {
                item.fail(format!("{} {error}", provider.label()), false);
            }
        }
    }
}

fn update_together(host: &Host, provider: &Provider, pending: &mut [&mut Item<'_>]) -> Result<(), CallError> {
    let limit = pending.iter().map(|item| item.entity.timeout.unwrap_or(SET_LIMIT)).max().unwrap_or(SET_LIMIT);
    let mut notes = Notes::default();
    let requests: Vec<Request<'_>> = pending.iter().map(|item| item.request()).collect();
    let updated = provider.set(host, &requests, limit, &mut notes);
    if let Some(first) = pending.first_mut() {
        first.notes.append(notes);
    }
    let mut update = updated?;
    for other in update.others.drain(..) {
        if let Some(first) = pending.first_mut() {
            first.notes.warning(other);
        }
    }
    for item in pending {
        match update.outcomes.remove(&item.entity.name) {
            Some(Outcome::Failed(reason)) => item.fail(format!("{} {reason}", provider.label()), false),
            Some(Outcome::Changed(changes)) => item.applied = Some(item.changed(&changes)),
            None => item.applied = Some(Applied::Unchanged),
        }
    }
    Ok(())
}

/// Reads again what was changed: only that tells what is so from what is said.
fn read_again(host: &Host, provider: &Provider, pending: &mut [&mut Item<'_>]) {
    let names: Vec<&str> =
        pending.iter().filter(|item| !item.has_failed()).map(|item| item.entity.name.as_str()).collect();
    if names.is_empty() {
        return;
    }
    let mut notes = Notes::default();
    let readings = provider.get(host, &names, &mut notes);
    if let Some(first) = pending.first_mut() {
        first.notes.append(notes);
    }
    for item in pending.iter_mut().filter(|item| !item.has_failed()) {
        match &readings {
            Ok(readings) => item.take_second_reading(provider, readings.get(&item.entity.name)),
            Err(error) => item.fail(format!("{} {error}", provider.label()), false),
        }
    }
}

impl<'e> Item<'e> {
    pub(crate) fn new(place: usize, entity: &'e ResourceEntity, force: bool) -> Item<'e> {
        Item {
            place,
            entity,
            force,
            notes: Notes::default(),
            applied: None,
            desired: Values::new(),
            is: Values::new(),
            differences: Vec::new(),
        }
    }

    /// Finds out what applying the resource would do.
    pub(crate) fn check(mut self, host: &Host, output: &mut Output<'_>) -> Verdict {
        let provider = match self.entity.choose(host) {
            Ok(provider) => provider,
            Err(error) => {
                say_choice(&error, output);
                return Verdict::Failed;
            }
        };
        self.read_definition(&provider.metadata);
        read_all(host, &provider, std::slice::from_mut(&mut self));
        let verdict = match self.applied.take() {
            Some(Applied::Unchanged) => Verdict::InDesiredState,
            Some(_) => Verdict::Failed,
            None if self.is_of_a_person(&provider.metadata) => Verdict::NeedsForce(ForceTo::Overwrite),
            None if !self.differences.is_empty() => {
                let changes = self.differences.iter().map(change_of);
                Verdict::WouldChange(changes.map(|change| self.shown_change(&change)).collect())
            }
            None => Verdict::Unknown,
        };
        self.notes.say(&self.entity.sensitive, output);
        verdict
    }

    /// Reads the state, and returns it with the desired one; nothing if the provider cannot tell.
    pub(crate) fn states(mut self, host: &Host) -> Option<(Values, Option<Values>)> {
        let provider = self.entity.choose(host).ok()?;
        self.read_definition(&provider.metadata);
        if !self.is_open() {
            return None;
        }
        let readings = provider.get(host, &[&self.entity.name], &mut self.notes).ok()?;
        let actual = match readings.get(&self.entity.name) {
            Some(Reading::Known(values)) if !values.get(ENSURE).is_some_and(is_gone) => Some(values.clone()),
            Some(Reading::Failed(_)) => return None,
            _ => None,
        };
        Some((self.desired, actual))
    }

    fn is_open(&self) -> bool {
        self.applied.is_none()
    }

    fn has_failed(&self) -> bool {
        self.applied.as_ref().is_some_and(Applied::has_failed)
    }

    fn fail(&mut self, problem: String, nothing_changed: bool) {
        self.notes.error(problem);
        self.applied = Some(if nothing_changed { Applied::FAILED_UNCHANGED } else { Applied::FAILED });
    }

    fn request(&self) -> Request<'_> {
        Request { name: &self.entity.name, is: &self.is, should: &self.desired, differences: &self.differences }
    }

    /// Makes the attributes of the definition values of their types.
    fn read_definition(&mut self, metadata: &Metadata) {
        let mut problems = Vec::new();
        for (name, value) in self.entity.written() {
            match typed(metadata, &name, &value) {
                Ok(value) => {
                    self.desired.insert(name, value);
                }
                // What was reported once cannot be wrong.
                Err(_) if self.entity.is_orphan() => {}
                Err(problem) => problems.push(format!("attributes.{name}: {problem}")),
            }
        }
        for problem in &problems {
            self.notes.error(format!("{}: {}: {problem}", self.entity.location, self.entity.id));
        }
        if !problems.is_empty() {
            self.applied = Some(Applied::FAILED_UNCHANGED);
        }
    }

    fn take_reading(&mut self, provider: &Provider, reading: Option<&Reading>) {
        match reading {
            Some(Reading::Known(values)) => {
                self.is = values.clone();
                self.differences = differences(&provider.metadata, &self.desired, &self.is);
                let is_done = self.differences.is_empty() && !wants_latest(&provider.metadata, &self.desired, &self.is);
                if is_done && !self.entity.is_orphan() {
                    self.applied = Some(Applied::Unchanged);
                }
            }
            Some(Reading::Failed(reason)) => self.fail(format!("{} {reason}", provider.label()), true),
            Some(Reading::Unknown) | None if wants_nothing(&self.desired) => self.applied = Some(Applied::Unchanged),
            Some(Reading::Unknown) | None => self.fail(self.unknown(provider), true),
        }
    }

    fn take_second_reading(&mut self, provider: &Provider, reading: Option<&Reading>) {
        match reading {
            Some(Reading::Known(values)) => self.is = values.clone(),
            Some(Reading::Failed(reason)) => return self.fail(format!("{} {reason}", provider.label()), false),
            Some(Reading::Unknown) | None if wants_nothing(&self.desired) => return,
            Some(Reading::Unknown) | None => return self.fail(self.unknown(provider), false),
        }
        for difference in differences(&provider.metadata, &self.desired, &self.is) {
            let quoted = |value: &Value| format!("\"{}\"", self.shown(&difference.name, &compact(value)));
            let is = difference.is.as_ref().map_or_else(|| "not reported".to_owned(), quoted);
            let (label, name, should) = (provider.label(), &difference.name, quoted(&difference.should));
            self.fail(format!("{label} {}: {name} is {is}, not {should}, after the update", self.entity.name), false);
        }
    }

    fn unknown(&self, provider: &Provider) -> String {
        format!("{}: provider {} knows nothing of it", self.entity.name, provider.metadata.qualified_name())
    }

    /// Decides whether something may be changed, and remembers what is there before that.
    fn decide(&mut self, provider: &Provider, store: &BaseStore) {
        if self.entity.is_orphan() {
            return self.warn_of_what_stays(provider);
        }
        if self.is_of_a_person(&provider.metadata) && !self.force {
            self.applied = Some(Applied::NeedsForce(ForceTo::Overwrite));
            return;
        }
        if self.entity.record().is_none() {
            let record = self.record(provider, &self.is);
            if let Err(error) = store.keep(&Remembered::new(&self.entity.own_report(), record)) {
                self.fail(error.to_string(), true);
            }
        }
    }

    fn warn_of_what_stays(&mut self, provider: &Provider) {
        let Some(record) = self.entity.record() else { return };
        if record.was_missing() {
            return;
        }
        for name in record.left.keys().filter(|name| !record.base.contains_key(*name)) {
            if provider.metadata.attributes.get(name).is_some_and(|known| known.access == Access::ReadWrite) {
                self.notes
                    .warning(format!("{} {name} was not reported before it was set, and stays", provider.label()));
            }
        }
    }

    /// Returns true if somebody has written a text that we wrote last.
    fn is_of_a_person(&self, metadata: &Metadata) -> bool {
        let (Some(record), false) = (self.entity.record(), self.entity.is_orphan()) else { return false };
        // What is gone is made again.
        if self.is.get(ENSURE).is_some_and(is_gone) {
            return false;
        }
        self.differences.iter().filter(|difference| difference.name != ENSURE).any(|Difference { name, is, .. }| {
            let attribute = metadata.attributes.get(name);
            let is_text =
                attribute.is_some_and(|known| matches!(known.value_type, ValueType::String | ValueType::Strings));
            let (left, Some(is)) = (record.left.get(name), is) else { return false };
            is_text && left.is_some_and(|left| !same(left, is))
        })
    }

    fn changed(&self, changes: &[Change]) -> Applied {
        if changes.is_empty() {
            return Applied::Unchanged;
        }
        Applied::Changed(changes.iter().map(|change| self.shown_change(change)).collect())
    }

    fn shown_change(&self, Change { name, was, is }: &Change) -> String {
        format!("{name}: {} -> {}", self.shown(name, was), self.shown(name, is))
    }

    /// Returns a value without what is sensitive.
    fn shown(&self, name: &str, value: &str) -> String {
        let sensitive = &self.entity.sensitive;
        if sensitive.hides(name) { HIDDEN.to_owned() } else { sensitive.hide(value).into_owned() }
    }

    fn record(&self, provider: &Provider, base: &Values) -> Record {
        Record {
            kind: self.entity.kind.clone(),
            provider: provider.metadata.name.clone(),
            name: self.entity.name.clone(),
            base: base.clone(),
            left: Values::new(),
            sensitive: self.entity.sensitive_names.clone(),
        }
    }

    /// Remembers how the resource was left, or forgets what was put back.
    fn remember(&mut self, provider: &Provider, store: &BaseStore) {
        let done = match &self.entity.past {
            Past::Orphan(_) if self.has_failed() => return,
            Past::Orphan(_) => store.forget(&self.entity.id),
            Past::Living(remembered) => {
                let base = remembered.as_deref().map_or(&self.is, |remembered| &remembered.base.base);
                let mut record = self.record(provider, base);
                if let Some(known) = remembered.as_deref() {
                    record.left.clone_from(&known.base.left);
                } else if let Ok(Some(known)) = store.recall::<Record>(&self.entity.id) {
                    record.base = known.base.base;
                }
                for name in self.desired.keys() {
                    if let Some(value) = self.is.get(name) {
                        record.left.insert(name.clone(), value.clone());
                    }
                }
                store.keep(&Remembered::new(&self.entity.own_report(), record))
            }
        };
        if let Err(error) = done {
            self.fail(error.to_string(), false);
        }
    }
}

/// Makes a value of the definition one of the attribute's type.
fn typed(metadata: &Metadata, name: &str, value: &Value) -> Result<Value, String> {
    let Some(attribute) = metadata.attributes.get(name) else {
        let hint = did_you_mean(name, metadata.attributes.keys().map(String::as_str));
        let hint = hint.map_or_else(String::new, |hint| format!(", {hint}"));
        return Err(format!("the provider {} has no such attribute{hint}", metadata.qualified_name()));
    };
    if attribute.access == Access::Read {
        return Err("can only be read".to_owned());
    }
    attribute.value_type.value(value)
}

/// Returns the desired attributes that the provider reports, as lines of TOML.
pub(crate) fn as_toml(values: &Values, names: &Values, hide: impl Fn(&str) -> bool) -> String {
    let lines = names.keys().filter_map(|name| {
        let value = values.get(name)?;
        let shown = if hide(name) { Value::from(HIDDEN) } else { value.clone() };
        Some(format!("{name} = {}\n", toml_value(&shown)))
    });
    lines.collect()
}

/// Returns a value as TOML. What JSON has and TOML has not is text.
pub(crate) fn toml_value(value: &Value) -> String {
    toml::Value::try_from(value)
        .map_or_else(|_| toml::Value::String(value.to_string()).to_string(), |value| value.to_string())
}

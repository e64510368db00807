//! Brings resources into their desired states: those of the same provider are read, changed and read again together.

use crate::catalog::ChoiceError;
use crate::convention::{CallError, Outcome, Request};
use crate::entity::{EntityRecords, ResourceEntity};
use crate::item::{Item, read_all, say_choice};
use crate::provider::{Note, Provider};
use holo_bridge::{Sensitive, limits};
use holo_change::base_store::BaseStore;
use holo_plugin::{Applied, Host, Job, SetAnswers, in_threads};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Applies a set. Resources of the same provider are processed in the order of their definitions, different providers
/// concurrently.
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
                let group = groups.entry(provider.metadata.qualified_name()).or_insert_with(|| Group::new(provider));
                group.add(Item::new(place, entity, job.mode.force));
            }
            Err(error) => {
                say_choice(&error, &mut answers.output(place));
                answers.end(place, Applied::FAILED_UNCHANGED);
            }
        }
    }
    in_threads(groups.into_values().collect(), host.jobs(), answers, &|mut group, answers| {
        group.work(host, answers);
        for mut item in group.items {
            item.say(&mut answers.output(item.place));
            answers.end(item.place, item.applied.unwrap_or(Applied::FAILED));
        }
    });
}

/// Removes the record of an orphan that only existed in test mode.
fn finish_mock(host: &Host, entity: &ResourceEntity, applied: Applied, place: usize, answers: &mut dyn SetAnswers) {
    let forgotten = match (&entity.records, &applied) {
        (EntityRecords::Orphan(_), Applied::Unchanged) => BaseStore::open(host.locations()).forget(&entity.id),
        _ => Ok(()),
    };
    if let Err(error) = forgotten {
        answers.output(place).error(error.to_string());
        return answers.end(place, Applied::FAILED);
    }
    answers.end(place, applied);
}

impl ResourceEntity {
    /// Chooses the provider.
    pub(crate) fn choose(&self, host: &Host) -> Result<Arc<Provider>, ChoiceError> {
        self.context.catalog(host).choose(&self.kind, self.provider.as_deref())
    }
}

/// The resources of a provider.
struct Group<'e> {
    provider: Arc<Provider>,
    items: Vec<Item<'e>>,
    /// All sensitive values that the provider receives, of any resource.
    secrets: Sensitive,
}

impl<'e> Group<'e> {
    fn new(provider: Arc<Provider>) -> Group<'e> {
        Group { provider, items: Vec::new(), secrets: Sensitive::default() }
    }

    fn add(&mut self, item: Item<'e>) {
        self.secrets.unite(&item.entity.sensitive);
        self.items.push(item);
    }

    fn work(&mut self, host: &Host, answers: &mut dyn SetAnswers) {
        self.items.sort_by(|one, other| one.entity.location.cmp(&other.entity.location));
        let Group { provider, items, secrets } = self;
        for item in &mut *items {
            item.read_definition(&provider.metadata);
        }
        let mut listener = Listener { answers, secrets };
        if let Some(first) = items.iter().find(|item| item.is_open()).map(|item| item.place) {
            read_all(host, provider, items, &mut |note| listener.hear(first, &note));
        }
        let store = BaseStore::open(host.locations());
        for item in items.iter_mut() {
            match item.is_open() {
                true => item.decide(provider, &store),
                false => item.remember_unchanged(provider, &store),
            }
        }
        let mut pending: Vec<&mut Item<'_>> = items.iter_mut().filter(|item| item.is_open()).collect();
        update(host, provider, &mut pending, &mut listener);
        // Resources refused by the provider are assumed to be unchanged.
        pending.retain(|item| !item.has_failed());
        read_again(host, provider, &mut pending, &mut listener);
        pending.iter_mut().for_each(|item| item.remember(provider, &store));
    }
}

/// Shows messages of a provider immediately, as output of one of the resources.
struct Listener<'a> {
    answers: &'a mut dyn SetAnswers,
    secrets: &'a Sensitive,
}

impl Listener<'_> {
    fn hear(&mut self, place: usize, note: &Note) {
        note.say(self.secrets, &mut self.answers.output(place));
    }
}

/// Lets the provider change resources that are not in their desired state. If changing all of them together fails, they
/// are changed one by one, so that only the faulty one fails.
fn update(host: &Host, provider: &Provider, pending: &mut [&mut Item<'_>], listener: &mut Listener<'_>) {
    if let Err(error) = update_together(host, provider, pending, listener) {
        if let [item] = pending {
            item.fail(format!("{} {error}", provider.label()), false);
            return;
        }
        for item in pending {
            if let Err(error) = update_together(host, provider, std::slice::from_mut(item), listener) {
                item.fail(format!("{} {error}", provider.label()), false);
            }
        }
    }
}

fn update_together(
    host: &Host,
    provider: &Provider,
    pending: &mut [&mut Item<'_>],
    listener: &mut Listener<'_>,
) -> Result<(), CallError> {
    let Some(first) = pending.first().map(|item| item.place) else { return Ok(()) };
    let limit = pending.iter().map(|item| limits::work(item.entity.timeout)).max().unwrap_or_default();
    let requests: Vec<Request<'_>> = pending.iter().map(|item| item.request()).collect();
    let mut update = provider.set(host, &requests, limit, &mut |note| listener.hear(first, &note))?;
    for other in update.others.drain(..) {
        listener.hear(first, &Note::warning(other));
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

/// Reads the changed resources again, as a provider's own report may be wrong.
fn read_again(host: &Host, provider: &Provider, pending: &mut [&mut Item<'_>], listener: &mut Listener<'_>) {
    let Some(first) = pending.first().map(|item| item.place) else { return };
    let names: Vec<&str> = pending.iter().map(|item| item.entity.name.as_str()).collect();
    let readings = provider.get(host, &names, &mut |note| listener.hear(first, &note));
    for item in pending {
        match &readings {
            Ok(readings) => item.take_second_reading(provider, readings.get(&item.entity.name)),
            Err(error) => item.fail(format!("{} {error}", provider.label()), false),
        }
    }
}

//! A resource in progress.

use crate::attribute::{Access, ValueType, Values};
use crate::catalog::ChoiceError;
use crate::compare::{Difference, ENSURE, differences, is_gone, same, wants_latest, wants_nothing};
use crate::convention::json::change_of;
use crate::convention::{Change, Reading, Request};
use crate::entity::{EntityRecords, Record, ResourceEntity};
use crate::metadata::Metadata;
use crate::provider::{Note, NoteHandler, Provider};
use holo_bridge::HIDDEN;
use holo_bridge::shown::compact;
use holo_change::base_store::{BaseStore, Remembered};
use holo_plugin::definitions::did_you_mean;
use holo_plugin::{Applied, ForceTo, Host, Output, Verdict};
use serde_json::Value;

/// A resource in progress.
pub(crate) struct Item<'e> {
    pub(crate) place: usize,
    pub(crate) entity: &'e ResourceEntity,
    force: bool,
    /// The messages to show when it is finished.
    notes: Vec<Note>,
    pub(crate) applied: Option<Applied>,
    /// The desired attributes, converted to their types.
    desired: Values,
    /// The actual attributes.
    is: Values,
    differences: Vec<Difference>,
    /// The record on disk.
    record: Option<Record>,
}

impl<'e> Item<'e> {
    pub(crate) fn new(place: usize, entity: &'e ResourceEntity, force: bool) -> Item<'e> {
        Item {
            place,
            entity,
            force,
            notes: Vec::new(),
            applied: None,
            desired: Values::new(),
            is: Values::new(),
            differences: Vec::new(),
            record: entity.record().cloned(),
        }
    }

    /// Determines what applying the resource would change.
    pub(crate) fn check(mut self, host: &Host, output: &mut Output<'_>) -> Verdict {
        let provider = match self.entity.choose(host) {
            Ok(provider) => provider,
            Err(error) => {
                say_choice(&error, output);
                return Verdict::Failed;
            }
        };
        self.read_definition(&provider.metadata);
        let sensitive = &self.entity.sensitive;
        read_all(host, &provider, std::slice::from_mut(&mut self), &mut |note| note.say(sensitive, output));
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
        self.say(output);
        verdict
    }

    /// Reads the state, and returns it with the desired one; `None` if the provider cannot report it.
    pub(crate) fn states(mut self, host: &Host) -> Option<(Values, Option<Values>)> {
        let provider = self.entity.choose(host).ok()?;
        self.read_definition(&provider.metadata);
        if !self.is_open() {
            return None;
        }
        // Output is discarded here, as a check shows it.
        let readings = provider.get(host, &[&self.entity.name], &mut |_| {}).ok()?;
        let actual = match readings.get(&self.entity.name) {
            Some(Reading::Known(values)) if !values.get(ENSURE).is_some_and(is_gone) => Some(values.clone()),
            Some(Reading::Failed(_)) => return None,
            _ => None,
        };
        Some((self.desired, actual))
    }

    /// Shows all messages.
    pub(crate) fn say(&mut self, output: &mut Output<'_>) {
        for note in std::mem::take(&mut self.notes) {
            note.say(&self.entity.sensitive, output);
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.applied.is_none()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.applied.as_ref().is_some_and(Applied::has_failed)
    }

    pub(crate) fn fail(&mut self, problem: String, nothing_changed: bool) {
        self.notes.push(Note::error(problem));
        self.applied = Some(if nothing_changed { Applied::FAILED_UNCHANGED } else { Applied::FAILED });
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request { name: &self.entity.name, is: &self.is, should: &self.desired, differences: &self.differences }
    }

    /// Converts the attributes of the definition to their types.
    pub(crate) fn read_definition(&mut self, metadata: &Metadata) {
        let mut problems = Vec::new();
        for (name, value) in self.entity.written() {
            match typed(metadata, &name, &value) {
                Ok(value) => {
                    self.desired.insert(name, value);
                }
                // Reported values are assumed to be valid.
                Err(_) if self.entity.is_orphan() => {}
                Err(problem) => problems.push(format!("attributes.{name}: {problem}")),
            }
        }
        for problem in &problems {
            let text = match &self.entity.location {
                Some(location) => format!("{location}: {}: {problem}", self.entity.id),
                None => format!("{}: {problem}", self.entity.id),
            };
            self.notes.push(Note::error(text));
        }
        if !problems.is_empty() {
            self.applied = Some(Applied::FAILED_UNCHANGED);
        }
    }

    pub(crate) fn take_reading(&mut self, provider: &Provider, reading: Option<&Reading>) {
        match reading {
            Some(Reading::Known(values)) => {
                self.is = values.clone();
                self.differences = differences(&provider.metadata, &self.desired, &self.is);
                let is_done = self.differences.is_empty() && !wants_latest(&provider.metadata, &self.desired, &self.is);
                if is_done {
                    self.applied = Some(Applied::Unchanged);
                }
            }
            Some(Reading::Failed(reason)) => self.fail(format!("{} {reason}", provider.label()), true),
            Some(Reading::Unknown) | None if wants_nothing(&self.desired) => self.applied = Some(Applied::Unchanged),
            Some(Reading::Unknown) | None => self.fail(self.unknown(provider), true),
        }
    }

    pub(crate) fn take_second_reading(&mut self, provider: &Provider, reading: Option<&Reading>) {
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
        format!("{}: provider {} has no information about it", self.entity.name, provider.metadata.qualified_name())
    }

    /// Decides whether changes are permitted, and saves the previous state before any.
    pub(crate) fn decide(&mut self, provider: &Provider, store: &BaseStore) {
        if self.entity.is_orphan() {
            return self.warn_of_what_stays(provider);
        }
        if self.is_of_a_person(&provider.metadata) && !self.force {
            self.applied = Some(Applied::NeedsForce(ForceTo::Overwrite));
            return;
        }
        // Before any change, the previous state and the names of managed attributes must be on disk.
        let mut record = self.known_record(provider);
        for name in self.desired.keys() {
            record.left.entry(name.clone()).or_insert_with(|| self.is.get(name).cloned().unwrap_or_default());
        }
        if let Err(error) = self.keep(record, store) {
            self.fail(error, true);
        }
    }

    fn warn_of_what_stays(&mut self, provider: &Provider) {
        let Some(record) = self.entity.record() else { return };
        if record.was_missing() {
            return;
        }
        for name in record.left.keys().filter(|name| !record.base.contains_key(*name)) {
            if provider.metadata.attributes.get(name).is_some_and(|known| known.access == Access::ReadWrite) {
                let text = format!("{} {name} was not reported before it was set, and stays", provider.label());
                self.notes.push(Note::warning(text));
            }
        }
    }

    /// Returns true if a text that this plugin has written last was changed manually.
    fn is_of_a_person(&self, metadata: &Metadata) -> bool {
        let (Some(record), false) = (self.entity.record(), self.entity.is_orphan()) else { return false };
        // A deleted resource is created again.
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

    pub(crate) fn changed(&self, changes: &[Change]) -> Applied {
        if changes.is_empty() {
            return Applied::Unchanged;
        }
        Applied::Changed(changes.iter().map(|change| self.shown_change(change)).collect())
    }

    pub(crate) fn shown_change(&self, Change { name, was, is }: &Change) -> String {
        format!("{name}: {} -> {}", self.shown(name, was), self.shown(name, is))
    }

    /// Returns a value without sensitive text.
    fn shown(&self, name: &str, value: &str) -> String {
        let sensitive = &self.entity.sensitive;
        if sensitive.hides(name) { HIDDEN.to_owned() } else { sensitive.hide(value).into_owned() }
    }

    /// Returns the existing record, or a new one.
    fn known_record(&self, provider: &Provider) -> Record {
        let known = self.record.clone();
        let mut record = known.unwrap_or_else(|| Record::new(&self.is));
        record.kind.clone_from(&self.entity.kind);
        record.provider.clone_from(&provider.metadata.name);
        record.name.clone_from(&self.entity.name);
        record.sensitive.clone_from(&self.entity.sensitive_names);
        record
    }

    /// Saves the resulting state, or removes the record of a restored resource.
    pub(crate) fn remember(&mut self, provider: &Provider, store: &BaseStore) {
        let done = match &self.entity.records {
            EntityRecords::Orphan(_) if self.has_failed() => return,
            EntityRecords::Orphan(_) => store.forget(&self.entity.id).map_err(|error| error.to_string()),
            EntityRecords::Living(_) => {
                let mut record = self.known_record(provider);
                for name in self.desired.keys() {
                    record.left.insert(name.clone(), self.is.get(name).cloned().unwrap_or_default());
                }
                self.keep(record, store)
            }
        };
        if let Err(error) = done {
            self.fail(error, false);
        }
    }

    /// Like `remember`, for an unchanged resource: if it was changed before, the plugin may have been killed before it
    /// saved the record.
    pub(crate) fn remember_unchanged(&mut self, provider: &Provider, store: &BaseStore) {
        if self.applied == Some(Applied::Unchanged) && self.record.is_some() {
            self.remember(provider, store);
        }
    }

    /// Writes the record unless it is unchanged.
    fn keep(&mut self, record: Record, store: &BaseStore) -> Result<(), String> {
        if self.record.as_ref() != Some(&record) {
            let remembered = Remembered::new(&self.entity.own_report(), record.clone());
            store.keep(&remembered).map_err(|error| error.to_string())?;
            self.record = Some(record);
        }
        Ok(())
    }
}

/// Converts a value of the definition to the attribute's type.
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

/// Reports why there is no provider.
pub(crate) fn say_choice(error: &ChoiceError, output: &mut Output<'_>) {
    output.error(error.message.as_bytes());
    error.reasons.iter().for_each(|reason| output.warning(reason));
}

/// Reads the states of all unfinished items.
pub(crate) fn read_all(host: &Host, provider: &Provider, items: &mut [Item<'_>], heard: &mut NoteHandler<'_>) {
    let names: Vec<&str> = items.iter().filter(|item| item.is_open()).map(|item| item.entity.name.as_str()).collect();
    if names.is_empty() {
        return;
    }
    let readings = provider.get(host, &names, heard);
    for item in items.iter_mut().filter(|item| item.is_open()) {
        match &readings {
            Ok(readings) => item.take_reading(provider, readings.get(&item.entity.name)),
            Err(error) => item.fail(format!("{} {error}", provider.label()), true),
        }
    }
}

//! The refreshes that are due, kept on disk from before the change that asks for one until it is done.
//!
//! A refresh that is lost is a daemon that never learns of its new configuration. So what a change may make due is written down before
//! the change, and struck out after the refresh: neither a failure nor a kill in between can lose it.
//!
//! Expectations are synced before anything is changed. Their outcome need not be: without it, a later run refreshes once too often, and
//! never too seldom.

#[cfg(test)]
mod tests;

use crate::error::{FatalError, IoError};
use crate::ledger::{Entry, Ledger};
use crate::root::Root;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::{Sent, Text};
use jiff::{Timestamp, Unit};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;

/// The refreshes that are due, or may become so.
#[derive(Debug)]
pub struct Refreshes {
    ledger: Ledger<Record>,
    /// By source and target.
    refreshes: BTreeMap<BString, BTreeMap<BString, State>>,
    /// The sources by their targets.
    sources: BTreeMap<BString, BTreeSet<BString>>,
    /// The refreshes that differ from the ledger, with their states there: a refresh may come and go within a run without being written.
    in_ledger: BTreeMap<(BString, BString), Option<State>>,
    /// True if an earlier run has left something behind that is of no use.
    is_untidy: bool,
}

/// A line of the ledger: what has become of a refresh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    source: Text,
    target: Text,
    /// The ID of the target's plugin.
    plugin: String,
    state: Stage,
    /// The values that the source has sent to the target, each `KEY=VALUE`, no key twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sent: Vec<Text>,
    /// The time since when it is due, or expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
}

impl Record {
    /// Returns that a refresh is over.
    fn done(source: Text, target: Text) -> Record {
        Record { source, target, plugin: String::new(), state: Stage::Done, sent: Vec::new(), since: None }
    }
}

/// The stage of a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Stage {
    /// It will be due if the source changes. A later run that finds this takes it that it did.
    Expected,
    /// The source has changed.
    Due,
    /// It is over.
    Done,
}

impl Entry for Record {
    const VERSION: u32 = 2;
    const WHAT: &'static str = "the refreshes that are due";
}

/// A refresh that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    due: bool,
    /// The ID of the target's plugin.
    plugin: String,
    sent: Vec<BString>,
    /// The time since when it is due; before that, the time at which it was first expected. Ledgers of old do not have it.
    since: Option<Timestamp>,
}

/// The name of the file in the dispatcher's directory.
pub const FILE: &str = "refreshes.json";

impl Refreshes {
    /// Loads what earlier runs have left. Where they did not come to say if a source changed, it is taken to have changed.
    ///
    /// # Errors
    /// If it cannot be read: then going on might lose a refresh.
    pub fn load(root: &Root) -> Result<Refreshes, FatalError> {
        let (ledger, records) = Ledger::open(root.engine_state().join(FILE))?;
        let mut refreshes = Refreshes {
            ledger,
            refreshes: BTreeMap::new(),
            sources: BTreeMap::new(),
            in_ledger: BTreeMap::new(),
            is_untidy: false,
        };
        for Record { source: Text(source), target: Text(target), plugin, state, sent, since } in records {
            let sent = sent.into_iter().map(|Text(text)| text).collect();
            let state = (state != Stage::Done).then_some(State { due: state == Stage::Due, plugin, sent, since });
            refreshes.set(source.as_bstr(), target.as_bstr(), state);
        }
        let is_empty = root.engine_state().exists() && !root.runs().exists();
        refreshes.is_untidy = refreshes.refreshes.is_empty() && (is_empty || refreshes.ledger.has_files());
        let sources: Vec<BString> = refreshes.refreshes.keys().cloned().collect();
        // They were expected when the run that did not come to say so was at work on their sources.
        sources.iter().for_each(|source| refreshes.make_due(source.as_bstr(), |since| since));
        Ok(refreshes)
    }

    /// Loads the same to look at: whoever may not read it does without, and gets the reason.
    ///
    /// # Errors
    /// If it can be read, and not be understood.
    pub fn look(root: &Root) -> Result<(Refreshes, Option<IoError>), FatalError> {
        let path = root.engine_state().join(FILE);
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let nothing = Refreshes {
                    ledger: Ledger::new(path.clone()),
                    refreshes: BTreeMap::new(),
                    sources: BTreeMap::new(),
                    in_ledger: BTreeMap::new(),
                    is_untidy: false,
                };
                Ok((nothing, Some(IoError::new("open", &path, error))))
            }
            _ => Ok((Refreshes::load(root)?, None)),
        }
    }

    /// Returns the targets whose refresh is due, each with those because of which it is.
    pub fn due(&self) -> impl Iterator<Item = (&BStr, Vec<&BStr>)> {
        self.sources.iter().filter_map(|(target, sources)| {
            let is_due =
                |source: &&BString| self.get(source.as_bstr(), target.as_bstr()).is_some_and(|state| state.due);
            let sources: Vec<&BStr> = sources.iter().filter(is_due).map(|source| source.as_bstr()).collect();
            (!sources.is_empty()).then_some((target.as_bstr(), sources))
        })
    }

    /// Returns the number of targets whose refresh is due if this run does not go on: what it has expected and not seen may have changed.
    #[must_use]
    pub fn due_if_ended_now(&self) -> usize {
        self.sources.len()
    }

    /// Returns the time since when the refresh of a target is due, if it is, and that is known.
    #[must_use]
    pub fn due_since(&self, target: &BStr) -> Option<Timestamp> {
        self.due_states(target).filter_map(|state| state.since).min()
    }

    /// Forgets the refreshes of targets that are gone, by the target's ID and that of its plugin.
    pub fn forget(&mut self, is_gone: impl Fn(&BStr, &str) -> bool) {
        let targets: Vec<BString> = self.sources.keys().cloned().collect();
        for target in targets {
            for source in self.sources_of(target.as_bstr()) {
                let state = self.get(source.as_bstr(), target.as_bstr());
                if state.is_some_and(|state| is_gone(target.as_bstr(), &state.plugin)) {
                    self.put(source.as_bstr(), target.as_bstr(), None);
                }
            }
        }
    }

    /// Has the refreshes of a target done by those that take over from it, each given with the ID of its plugin.
    pub fn hand_over(&mut self, target: &BStr, successors: &[(&BStr, &str)]) {
        for source in self.sources_of(target) {
            let Some(handed) = self.get(source.as_bstr(), target).cloned() else { continue };
            for &(successor, plugin) in successors.iter().filter(|(successor, _)| *successor != source) {
                let mut state = State { plugin: plugin.to_owned(), ..handed.clone() };
                if let Some(own) = self.get(source.as_bstr(), successor) {
                    // Values that were sent to the successor itself were sent later.
                    state.sent.retain(|sent| own.sent.iter().all(|other| key(other) != key(sent)));
                    state.sent.extend(own.sent.iter().cloned());
                    state.since =
                        [own, &handed].iter().filter(|of| of.due || !state.due).filter_map(|of| of.since).min();
                    state.due |= own.due;
                }
                self.put(source.as_bstr(), successor, Some(state));
            }
            self.put(source.as_bstr(), target, None);
        }
    }

    /// Notes that the target, which belongs to this plugin, is to be refreshed if the source changes. To be [`secure`](Refreshes::secure)d
    /// before the source is applied.
    pub fn expect(&mut self, source: &BStr, target: &BStr, plugin: &str) {
        if self.get(source, target).is_none() {
            let state = State { due: false, plugin: plugin.to_owned(), sent: Vec::new(), since: now() };
            self.put(source, target, Some(state));
        }
    }

    /// Notes that the source has changed: the refreshes that were expected of it are due.
    pub fn changed(&mut self, source: &BStr) {
        self.make_due(source, |_| now());
    }

    /// Has the refreshes that were expected of a source be due, since a time that may be that since when they were expected.
    fn make_due(&mut self, source: &BStr, since: impl Fn(Option<Timestamp>) -> Option<Timestamp>) {
        for (target, state) in self.targets_of(source).into_iter().filter(|(_, state)| !state.due) {
            let since = since(state.since);
            self.put(source, target.as_bstr(), Some(State { due: true, since, ..state }));
        }
    }

    /// Sends values from the source to all targets whose refresh is due because of it, or may become so. Each replaces the one of the same
    /// name before. What is sensitive is for those alone that receive it by their definition.
    pub fn send(&mut self, source: &BStr, values: &[Sent]) {
        let values: Vec<BString> = values.iter().filter(|sent| !sent.sensitive).map(Sent::to_pair).collect();
        for (target, mut state) in self.targets_of(source) {
            for value in &values {
                state.sent.retain(|sent| key(sent) != key(value));
                state.sent.push(value.clone());
            }
            self.put(source, target.as_bstr(), Some(state));
        }
    }

    /// Notes that the source has not changed: only what was due before still is.
    pub fn unchanged(&mut self, source: &BStr) {
        for (target, _) in self.targets_of(source).into_iter().filter(|(_, state)| !state.due) {
            self.put(source, target.as_bstr(), None);
        }
    }

    /// Returns true if the target is to be refreshed.
    #[must_use]
    pub fn is_due(&self, target: &BStr) -> bool {
        self.due_states(target).next().is_some()
    }

    /// Returns the IDs of the sources because of which the target is to be refreshed, in their order.
    #[must_use]
    pub fn due_because_of(&self, target: &BStr) -> Vec<BString> {
        let is_due = |source: &&BString| self.get(source.as_bstr(), target).is_some_and(|state| state.due);
        self.sources.get(target).into_iter().flatten().filter(is_due).cloned().collect()
    }

    /// Returns the values that were sent to the target, as it is to be refreshed: one source after the other, in the order of their IDs.
    #[must_use]
    pub fn received(&self, target: &BStr) -> Vec<BString> {
        self.due_states(target).flat_map(|state| &state.sent).cloned().collect()
    }

    /// Notes that the target has been refreshed.
    pub fn done(&mut self, target: &BStr) {
        for source in self.sources_of(target) {
            if self.get(source.as_bstr(), target).is_some_and(|state| state.due) {
                self.put(source.as_bstr(), target, None);
            }
        }
    }

    fn get(&self, source: &BStr, target: &BStr) -> Option<&State> {
        self.refreshes.get(source)?.get(target)
    }

    fn targets_of(&self, source: &BStr) -> Vec<(BString, State)> {
        let targets = self.refreshes.get(source).into_iter().flatten();
        targets.map(|(target, state)| (target.clone(), state.clone())).collect()
    }

    fn sources_of(&self, target: &BStr) -> Vec<BString> {
        self.sources.get(target).into_iter().flatten().cloned().collect()
    }

    fn due_states<'a>(&'a self, target: &'a BStr) -> impl Iterator<Item = &'a State> {
        let sources = self.sources.get(target).into_iter().flatten();
        sources.filter_map(move |source| self.get(source.as_bstr(), target)).filter(|state| state.due)
    }

    /// Gives a refresh another state, or none, and remembers how it is in the ledger.
    fn put(&mut self, source: &BStr, target: &BStr, state: Option<State>) {
        let before = self.set(source, target, state);
        let refresh = (source.to_owned(), target.to_owned());
        let in_ledger = self.in_ledger.entry(refresh.clone()).or_insert(before).as_ref();
        if in_ledger == self.refreshes.get(source).and_then(|targets| targets.get(target)) {
            self.in_ledger.remove(&refresh);
        }
    }

    /// Gives a refresh another state, or none. Returns the one before.
    fn set(&mut self, source: &BStr, target: &BStr, state: Option<State>) -> Option<State> {
        if let Some(state) = state {
            self.sources.entry(target.to_owned()).or_default().insert(source.to_owned());
            return self.refreshes.entry(source.to_owned()).or_default().insert(target.to_owned(), state);
        }
        if let Some(sources) = self.sources.get_mut(target) {
            sources.remove(source);
            if sources.is_empty() {
                self.sources.remove(target);
            }
        }
        let targets = self.refreshes.get_mut(source)?;
        let before = targets.remove(target);
        if targets.is_empty() {
            self.refreshes.remove(source);
        }
        before
    }

    /// Writes down what has changed, and returns when it is safely on disk. Nothing is written if nothing has changed.
    ///
    /// # Errors
    /// If it cannot be written, or not be synced.
    pub fn secure(&mut self) -> Result<(), FatalError> {
        self.record()?;
        self.ledger.sync()
    }

    /// Writes down what has changed, so that nothing but a crash of the whole machine can lose it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record(&mut self) -> Result<(), FatalError> {
        if self.in_ledger.is_empty() {
            return Ok(());
        }
        if self.ledger.is_begun() {
            let records = self.in_ledger.keys().map(|(source, target)| self.record_of(source, target)).collect();
            self.ledger.append(records)?;
        } else {
            self.begin_ledger()?;
        }
        self.in_ledger.clear();
        Ok(())
    }

    /// Writes down what has changed when the run ends: nothing is left on disk if nothing is due.
    ///
    /// # Errors
    /// If it cannot be written, or not be synced.
    pub fn finish(&mut self) -> Result<(), FatalError> {
        if self.refreshes.is_empty() {
            if self.ledger.is_begun() || !self.in_ledger.is_empty() || self.is_untidy {
                self.ledger.remove()?;
                (self.in_ledger, self.is_untidy) = (BTreeMap::new(), false);
            }
            return Ok(());
        }
        let count: usize = self.refreshes.values().map(BTreeMap::len).sum();
        if self.ledger.lines() > 2 * count {
            self.begin_ledger()?;
            self.in_ledger.clear();
        }
        self.secure()
    }

    /// Begins a ledger that has nothing but what is not over.
    fn begin_ledger(&mut self) -> Result<(), FatalError> {
        let all =
            self.refreshes.iter().flat_map(|(source, targets)| targets.keys().map(move |target| (source, target)));
        let records = all.map(|(source, target)| self.record_of(source, target)).collect();
        self.ledger.begin(records)
    }

    fn record_of(&self, source: &BString, target: &BString) -> Record {
        let (source_id, target_id) = (Text(source.clone()), Text(target.clone()));
        let Some(State { due, plugin, sent, since }) = self.get(source.as_bstr(), target.as_bstr()).cloned() else {
            return Record::done(source_id, target_id);
        };
        let sent = sent.into_iter().map(Text).collect();
        let state = if due { Stage::Due } else { Stage::Expected };
        Record { source: source_id, target: target_id, plugin, state, sent, since }
    }
}

/// Returns the time, to the second.
fn now() -> Option<Timestamp> {
    Timestamp::now().round(Unit::Second).ok()
}

/// Returns the key of `KEY=VALUE`.
fn key(value: &BString) -> &[u8] {
    value.split_once_str("=").map_or(&value[..], |(key, _)| key)
}

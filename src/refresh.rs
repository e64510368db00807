//! The refreshes that are due, kept on disk from before the change that asks for one until it is done.
//!
//! A refresh that is lost is a daemon that never learns of its new configuration. So what a change may make due is written down before
//! the change, and struck out after the refresh: neither a failure nor a kill in between can lose it.
//!
//! Expectations are synced before anything is changed. Their outcome need not be: without it, a later run refreshes once too often, and
//! never too seldom.

#[cfg(test)]
mod tests;

use crate::error::FatalError;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::Sent;
use holo_state::{Database, Durability, Refresh, StateError};
use jiff::{Timestamp, Unit};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The refreshes that are due, or may become so.
#[derive(Debug)]
pub struct Refreshes {
    state: Rc<Database>,
    /// By source and target.
    refreshes: BTreeMap<BString, BTreeMap<BString, Pending>>,
    /// The sources by their targets.
    sources: BTreeMap<BString, BTreeSet<BString>>,
    /// The refreshes that differ from the database, with their value there: a refresh may come and go within a run without being written.
    unwritten: BTreeMap<(BString, BString), Option<Pending>>,
}

/// A refresh that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pending {
    due: bool,
    /// The ID of the target's plugin.
    plugin: String,
    sent: Vec<BString>,
    /// The time since when it is due; before that, the time at which it was first expected.
    since: Option<Timestamp>,
}

impl Refreshes {
    /// Loads what earlier runs have left. A source of which the last run did not live to tell whether it changed is taken to have changed.
    ///
    /// # Errors
    /// If the database cannot be read: going on might lose a refresh.
    pub fn load(state: &Rc<Database>) -> Result<Refreshes, StateError> {
        let mut refreshes = Refreshes::none(state);
        for Refresh { source, target, plugin, is_due, since, sent } in state.refreshes()? {
            let since = since.and_then(|seconds| Timestamp::from_second(seconds).ok());
            let pending = Pending { due: is_due, plugin, sent, since };
            refreshes.set(source.as_bstr(), target.as_bstr(), Some(pending));
        }
        let sources: Vec<BString> = refreshes.refreshes.keys().cloned().collect();
        // They were expected when the run that did not come to say so was at work on their sources.
        sources.iter().for_each(|source| refreshes.make_due(source.as_bstr(), |since| since));
        Ok(refreshes)
    }

    fn none(state: &Rc<Database>) -> Refreshes {
        Refreshes {
            state: Rc::clone(state),
            refreshes: BTreeMap::new(),
            sources: BTreeMap::new(),
            unwritten: BTreeMap::new(),
        }
    }

    /// Like [`load`](Refreshes::load), but a user who may not read the database gets no refreshes, and the reason.
    ///
    /// # Errors
    /// If the database cannot be read for another reason.
    pub fn look(state: &Rc<Database>) -> Result<(Refreshes, Option<StateError>), StateError> {
        match Refreshes::load(state) {
            Err(error) if error.is_denied() => Ok((Refreshes::none(state), Some(error))),
            loaded => Ok((loaded?, None)),
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
                let mut state = Pending { plugin: plugin.to_owned(), ..handed.clone() };
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
            let state = Pending { due: false, plugin: plugin.to_owned(), sent: Vec::new(), since: now() };
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
            self.put(source, target.as_bstr(), Some(Pending { due: true, since, ..state }));
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

    fn get(&self, source: &BStr, target: &BStr) -> Option<&Pending> {
        self.refreshes.get(source)?.get(target)
    }

    fn targets_of(&self, source: &BStr) -> Vec<(BString, Pending)> {
        let targets = self.refreshes.get(source).into_iter().flatten();
        targets.map(|(target, state)| (target.clone(), state.clone())).collect()
    }

    fn sources_of(&self, target: &BStr) -> Vec<BString> {
        self.sources.get(target).into_iter().flatten().cloned().collect()
    }

    fn due_states<'a>(&'a self, target: &'a BStr) -> impl Iterator<Item = &'a Pending> {
        let sources = self.sources.get(target).into_iter().flatten();
        sources.filter_map(move |source| self.get(source.as_bstr(), target)).filter(|state| state.due)
    }

    /// Gives a refresh another state, or none, and remembers how it is in the database.
    fn put(&mut self, source: &BStr, target: &BStr, state: Option<Pending>) {
        let before = self.set(source, target, state);
        let refresh = (source.to_owned(), target.to_owned());
        let written = self.unwritten.entry(refresh.clone()).or_insert(before).as_ref();
        if written == self.refreshes.get(source).and_then(|targets| targets.get(target)) {
            self.unwritten.remove(&refresh);
        }
    }

    /// Gives a refresh another state, or none. Returns the one before.
    fn set(&mut self, source: &BStr, target: &BStr, state: Option<Pending>) -> Option<Pending> {
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

    /// Writes what has changed, and waits until it is on disk. Nothing is written if nothing has changed.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn secure(&mut self) -> Result<(), FatalError> {
        self.write(Durability::Disk)
    }

    /// Writes what has changed without waiting for the disk. A loss of power may undo it, so that a refresh is done twice.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn record(&mut self) -> Result<(), FatalError> {
        self.write(Durability::Process)
    }

    fn write(&mut self, durability: Durability) -> Result<(), FatalError> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let (mut put, mut removed) = (Vec::new(), Vec::new());
        for (source, target) in self.unwritten.keys() {
            match self.get(source.as_bstr(), target.as_bstr()).cloned() {
                Some(Pending { due, plugin, sent, since }) => put.push(Refresh {
                    source: source.clone(),
                    target: target.clone(),
                    plugin,
                    is_due: due,
                    since: since.map(Timestamp::as_second),
                    sent,
                }),
                None => removed.push((source.as_bstr(), target.as_bstr())),
            }
        }
        self.state.write_refreshes(&put, removed, durability).map_err(FatalError::could_not_run)?;
        self.unwritten.clear();
        Ok(())
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

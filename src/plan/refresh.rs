//! Pending refreshes, kept on disk from before the change that causes one until it is done.
//!
//! A lost refresh means a daemon that keeps running with its old configuration. Therefore expected refreshes are
//! written before the change, and deleted after the refresh: neither a failure nor a kill in between can lose one.
//!
//! Expectations are synced before the change. Their outcome need not be synced: losing it makes a later run refresh
//! once too often, never too seldom.

use crate::error::FatalError;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::Sent;
use holo_state::{Database, Durability, Refresh, StateError};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The refreshes that are due, or may become due.
#[derive(Debug)]
pub struct Refreshes {
    state: Rc<Database>,
    /// By source and target.
    refreshes: BTreeMap<BString, BTreeMap<BString, Pending>>,
    /// The sources of each target.
    sources: BTreeMap<BString, BTreeSet<BString>>,
    /// The refreshes that differ from the database, with their value there. A refresh may come and go within a run
    /// without being written.
    unwritten: BTreeMap<(BString, BString), Option<Pending>>,
}

/// A refresh that is not done yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pending {
    due: bool,
    /// The ID of the target's plugin.
    plugin: String,
    sent: Vec<BString>,
    change: Change,
}

/// The last change of a source. Of a refresh that is due, the source may change again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// It may be changed now, or a run that may have changed it was killed or failed; with the time of the change before.
    Uncertain(Option<Timestamp>),
    /// An earlier run has changed it.
    Earlier(Timestamp),
    /// This run has changed it.
    Now(Timestamp),
}

impl Change {
    fn time(self) -> Option<Timestamp> {
        match self {
            Change::Uncertain(_) => None,
            Change::Earlier(time) | Change::Now(time) => Some(time),
        }
    }

    /// Returns the change of a source that may be changed again.
    fn made_uncertain(self) -> Change {
        match self {
            Change::Uncertain(before) => Change::Uncertain(before),
            Change::Earlier(time) | Change::Now(time) => Change::Uncertain(Some(time)),
        }
    }

    /// Returns the later one, if both times are known.
    fn or_later(self, other: Change) -> Change {
        match (self, other) {
            (Change::Uncertain(_), _) | (_, Change::Uncertain(_)) => Change::Uncertain(None),
            _ if other.time() > self.time() => other,
            _ => self,
        }
    }
}

impl Refreshes {
    /// Loads the refreshes that earlier runs left. If the last run was killed before it recorded whether a source
    /// changed, the source counts as changed.
    ///
    /// # Errors
    /// If the database cannot be read: continuing might lose a refresh.
    pub fn load(state: &Rc<Database>) -> Result<Refreshes, StateError> {
        let mut refreshes = Refreshes::none(state);
        for Refresh { source, target, plugin, is_due, since, sent } in state.refreshes()? {
            let since = since.and_then(|seconds| Timestamp::from_second(seconds).ok());
            let change = since.map_or(Change::Uncertain(None), Change::Earlier);
            let pending = Pending { due: is_due, plugin, sent, change };
            refreshes.set(source.as_bstr(), target.as_bstr(), Some(pending));
        }
        let sources: Vec<BString> = refreshes.refreshes.keys().cloned().collect();
        for source in sources {
            for (target, state) in refreshes.targets_of(source.as_bstr()).into_iter().filter(|(_, state)| !state.due) {
                refreshes.put(source.as_bstr(), target.as_bstr(), Some(Pending { due: true, ..state }));
            }
        }
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

    /// Returns the targets whose refresh is due, each with the sources that caused it.
    pub fn due(&self) -> impl Iterator<Item = (&BStr, Vec<&BStr>)> {
        self.sources.iter().filter_map(|(target, sources)| {
            let is_due =
                |source: &&BString| self.get(source.as_bstr(), target.as_bstr()).is_some_and(|state| state.due);
            let sources: Vec<&BStr> = sources.iter().filter(is_due).map(|source| source.as_bstr()).collect();
            (!sources.is_empty()).then_some((target.as_bstr(), sources))
        })
    }

    /// Returns the number of targets whose refresh is due if this run ends now: sources that were expected to change
    /// and have no outcome yet may have changed.
    #[must_use]
    pub fn due_if_ended_now(&self) -> usize {
        self.sources.len()
    }

    /// Returns the earliest time at which a source of a due refresh last changed; `None` if the refresh is not due, or no time is known.
    #[must_use]
    pub fn due_since(&self, target: &BStr) -> Option<Timestamp> {
        self.due_states(target).filter_map(|state| state.change.time()).min()
    }

    /// Returns the time of the last change because of which the refresh of a target is due, if earlier runs have left all of them
    /// and the times of all changes are known.
    #[must_use]
    pub fn left_since(&self, target: &BStr) -> Option<Timestamp> {
        let time = |state: &Pending| if let Change::Earlier(time) = state.change { Some(time) } else { None };
        let times: Option<Vec<Timestamp>> = self.due_states(target).map(time).collect();
        times?.into_iter().max()
    }

    /// Returns true if the refresh of a target is due because of a change in this run.
    #[must_use]
    pub fn is_new(&self, target: &BStr) -> bool {
        self.due_states(target).any(|state| matches!(state.change, Change::Now(_)))
    }

    /// Returns true if the refresh of a target is due because of a change after this time.
    #[must_use]
    pub fn is_due_since(&self, target: &BStr, time: Timestamp) -> bool {
        // Times of changes are rounded down to seconds.
        self.due_states(target)
            .filter_map(|state| state.change.time())
            .any(|change| change.as_second() >= time.as_second())
    }

    /// Drops the refreshes of targets that no longer exist. `is_gone` gets the target's ID and that of its plugin. Returns the targets that
    /// were to be refreshed.
    pub fn forget(&mut self, is_gone: impl Fn(&BStr, &str) -> bool) -> BTreeSet<BString> {
        let targets: Vec<BString> = self.sources.keys().cloned().collect();
        let mut dropped = BTreeSet::new();
        for target in targets {
            for source in self.sources_of(target.as_bstr()) {
                let state = self.get(source.as_bstr(), target.as_bstr());
                if let Some(state) = state.filter(|state| is_gone(target.as_bstr(), &state.plugin)) {
                    if state.due {
                        dropped.insert(target.clone());
                    }
                    self.put(source.as_bstr(), target.as_bstr(), None);
                }
            }
        }
        dropped
    }

    /// Moves the refreshes of a target to the entities that take over from it, each given with the ID of its plugin.
    pub fn hand_over(&mut self, target: &BStr, successors: &[(&BStr, &str)]) {
        for source in self.sources_of(target) {
            let Some(handed) = self.get(source.as_bstr(), target).cloned() else { continue };
            for &(successor, plugin) in successors.iter().filter(|(successor, _)| *successor != source) {
                let mut state = Pending { plugin: plugin.to_owned(), ..handed.clone() };
                if let Some(own) = self.get(source.as_bstr(), successor) {
                    // Values that were sent to the successor itself are newer.
                    state.sent.retain(|sent| own.sent.iter().all(|other| key(other) != key(sent)));
                    state.sent.extend(own.sent.iter().cloned());
                    state.change = match (handed.due, own.due) {
                        (true, false) => handed.change,
                        (false, true) => own.change,
                        _ => handed.change.or_later(own.change),
                    };
                    state.due |= own.due;
                }
                self.put(source.as_bstr(), successor, Some(state));
            }
            self.put(source.as_bstr(), target, None);
        }
    }

    /// Records that the target, which belongs to this plugin, must be refreshed if the source changes. Must be followed
    /// by [`secure`](Refreshes::secure) before the source is applied.
    pub fn expect(&mut self, source: &BStr, target: &BStr, plugin: &str) {
        let state = match self.get(source, target).cloned() {
            Some(state) => Pending { change: state.change.made_uncertain(), ..state },
            None => {
                Pending { due: false, plugin: plugin.to_owned(), sent: Vec::new(), change: Change::Uncertain(None) }
            }
        };
        self.put(source, target, Some(state));
    }

    /// Records that the source has changed: its expected refreshes become due.
    pub fn changed(&mut self, source: &BStr) {
        let change = Change::Now(Timestamp::now());
        for (target, state) in self.targets_of(source) {
            self.put(source, target.as_bstr(), Some(Pending { due: true, change, ..state }));
        }
    }

    /// Sends values from the source to all targets that it refreshes or may refresh. Each replaces an earlier one of
    /// the same name. Sensitive values are left out: they go only to entities whose definitions receive them.
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

    /// Records that the source has not changed: refreshes that were due before remain due, the others are dropped.
    pub fn unchanged(&mut self, source: &BStr) {
        for (target, state) in self.targets_of(source) {
            let state = match state.change {
                _ if !state.due => None,
                Change::Uncertain(Some(before)) => Some(Pending { change: Change::Earlier(before), ..state }),
                _ => Some(state),
            };
            self.put(source, target.as_bstr(), state);
        }
    }

    /// Returns true if the target must be refreshed.
    #[must_use]
    pub fn is_due(&self, target: &BStr) -> bool {
        self.due_states(target).next().is_some()
    }

    /// Returns the IDs of the sources because of which the target must be refreshed, in order.
    #[must_use]
    pub fn due_because_of(&self, target: &BStr) -> Vec<BString> {
        let is_due = |source: &&BString| self.get(source.as_bstr(), target).is_some_and(|state| state.due);
        self.sources.get(target).into_iter().flatten().filter(is_due).cloned().collect()
    }

    /// Returns the values sent to a target that is due for a refresh, one source after the other, in the order of their
    /// IDs.
    #[must_use]
    pub fn received(&self, target: &BStr) -> Vec<BString> {
        self.due_states(target).flat_map(|state| &state.sent).cloned().collect()
    }

    /// Records that the target has been refreshed.
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

    /// Replaces or removes a refresh, and remembers its value in the database.
    fn put(&mut self, source: &BStr, target: &BStr, state: Option<Pending>) {
        let before = self.set(source, target, state);
        let refresh = (source.to_owned(), target.to_owned());
        let written = self.unwritten.entry(refresh.clone()).or_insert(before).as_ref();
        if written == self.refreshes.get(source).and_then(|targets| targets.get(target)) {
            self.unwritten.remove(&refresh);
        }
    }

    /// Replaces or removes a refresh. Returns its previous value.
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

    /// Writes pending changes, and waits until they are on disk.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn secure(&mut self) -> Result<(), FatalError> {
        self.write(Durability::Disk)
    }

    /// Writes pending changes without waiting for the disk. A power failure may undo them, in which case a refresh is
    /// repeated.
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
                Some(Pending { due, plugin, sent, change }) => put.push(Refresh {
                    source: source.clone(),
                    target: target.clone(),
                    plugin,
                    is_due: due,
                    since: change.time().map(Timestamp::as_second),
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

/// Returns the key of `KEY=VALUE`.
fn key(value: &BString) -> &[u8] {
    value.split_once_str("=").map_or(&value[..], |(key, _)| key)
}

#[cfg(test)]
mod tests;

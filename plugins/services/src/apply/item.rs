//! A unit on its way to its desired state.

use super::{ItemIndex, Run};
use crate::entity::Unit;
use crate::plan::Step;
use crate::providers::Links;
use crate::record::Record;
use crate::state::UnitState;
use crate::unit::UnitName;
use holo_plugin::system::Root;
use holo_plugin::{Applied, Mode};
use std::collections::BTreeSet;

/// A unit being applied.
pub(super) struct Item<'a> {
    /// The index of its job in the set.
    pub(super) job: usize,
    pub(super) unit: &'a Unit,
    pub(super) refresh: bool,
    /// The time from which the refresh has been due, if it is known.
    pub(super) due_since: Option<i64>,
    pub(super) state: UnitState,
    /// The state before the first step.
    pub(super) before: Option<UnitState>,
    pub(super) record: Record,
    /// The record on disk.
    pub(super) kept: Option<Record>,
    pub(super) steps: Vec<Step>,
    /// A remark for the user that is not an error.
    pub(super) remark: Option<String>,
    /// True if it must run, and the system does not.
    pub(super) is_deferred: bool,
    /// Descriptions of the changes made.
    pub(super) changes: Vec<String>,
    /// True if a step was attempted, successfully or not.
    pub(super) is_tried: bool,
    /// True if there was a change that counts even if the unit returns to its previous state.
    pub(super) is_changed: bool,
    pub(super) begun: bool,
    pub(super) failed: bool,
    pub(super) ended: bool,
}

impl<'a> Item<'a> {
    pub(super) fn new(job: usize, unit: &'a Unit, mode: Mode<'_>) -> Item<'a> {
        Item {
            job,
            unit,
            refresh: mode.refresh,
            due_since: mode.due_since,
            state: UnitState::default(),
            before: None,
            record: Record::default(),
            kept: None,
            steps: Vec::new(),
            remark: None,
            is_deferred: false,
            changes: Vec::new(),
            is_tried: false,
            is_changed: false,
            begun: false,
            failed: false,
            ended: false,
        }
    }

    /// Records a step that was done.
    pub(super) fn note_done(&mut self, step: Step) {
        self.changes.push(step.done(&self.unit.name));
        // A unit that is started and fails immediately is unchanged.
        self.is_changed |= step != Step::Start;
    }

    /// Removes the record that the unit has run to completion in this boot, unless it is a oneshot.
    pub(super) fn forget_end(&mut self) {
        if !self.state.comes_to_an_end {
            self.record.ran_in_boot = self.kept.as_ref().and_then(|kept| kept.ran_in_boot.clone());
        }
    }

    /// Records that the unit's files were reloaded.
    pub(super) fn note_read(&mut self) {
        self.changes.push(format!("read the files of {} again", self.unit.name));
        self.is_changed = true;
    }

    /// Returns the result of a failed unit, given its current state if known.
    pub(super) fn failed(&self, now: Option<&UnitState>) -> Applied {
        let is_as_before = || self.before.as_ref().zip(now).is_some_and(|(before, now)| before.is_like(now));
        if !self.is_changed && (!self.is_tried || is_as_before()) { Applied::FAILED_UNCHANGED } else { Applied::FAILED }
    }

    pub(super) fn is_at_work(&self) -> bool {
        !self.failed && !self.ended
    }
}

/// Returns true if a step also affects the units enabled together with another.
fn takes_others_along(step: Step) -> bool {
    matches!(step, Step::Enable | Step::Disable)
}

impl Run<'_, '_> {
    /// Records the states of the units that will be enabled or disabled together with one.
    pub(super) fn note_also(&mut self, index: ItemIndex) {
        let root = Root::new(self.host.root());
        let item = &mut self.items[index];
        if item.unit.is_orphan() || !item.steps.iter().copied().any(takes_others_along) {
            return;
        }
        for other in self.provider.also(&root, &item.unit.name) {
            let is_enabled = !self.provider.links(&root, &other).is_empty();
            item.record.also.entry(other.as_str().to_owned()).or_insert(is_enabled);
        }
    }

    /// Returns the units that a step must not affect although they are enabled together with its units, each with its
    /// links.
    pub(super) fn left_alone(&self, step: Step, indexes: &[ItemIndex]) -> Vec<(UnitName, Links)> {
        let mut left_alone = Vec::new();
        if !takes_others_along(step) {
            return left_alone;
        }
        let root = Root::new(self.host.root());
        for item in indexes.iter().map(|&index| &self.items[index]) {
            for other in self.provider.also(&root, &item.unit.name) {
                let links = self.provider.links(&root, &other);
                if self.stays(item, &other, !links.is_empty(), step) {
                    left_alone.push((other, links));
                }
            }
        }
        left_alone
    }

    /// Returns true if a unit enabled together with another one must not change.
    fn stays(&self, item: &Item<'_>, other: &UnitName, is_enabled: bool, step: Step) -> bool {
        let is_its_own = |item: &Item<'_>| item.unit.name == *other && item.steps.contains(&step);
        let was_enabled = || item.unit.is_orphan().then(|| item.record.also.get(other.as_str()).copied()).flatten();
        let shall_be = item.unit.all.shall_be_enabled(other).or_else(was_enabled);
        shall_be == Some(is_enabled) && !self.items.iter().any(is_its_own)
    }

    /// Restores the previous links of units.
    pub(super) fn put_back(&mut self, left_alone: &[(UnitName, Links)], indexes: &[ItemIndex]) {
        let root = Root::new(self.host.root());
        let mut changed = BTreeSet::new();
        for (unit, before) in left_alone {
            match self.provider.relink(&root, unit, before) {
                Ok(true) => {
                    changed.insert(unit.scope().clone());
                }
                Ok(false) => {}
                Err(error) => {
                    let problem = format!("cannot leave {unit} as it was: {error}");
                    indexes.iter().for_each(|&index| self.fail(index, &problem));
                }
            }
        }
        for scope in changed {
            if let Err(error) = self.manager.read_files(&scope) {
                indexes.iter().for_each(|&index| self.fail(index, &error.to_string()));
            }
        }
    }
}

//! A unit on its way to its desired state.

use crate::entity::Unit;
use crate::plan::Step;
use crate::record::Record;
use crate::state::UnitState;
use holo_plugin::Applied;

/// A unit being applied.
pub(super) struct Item<'a> {
    /// The index of its job in the set.
    pub(super) job: usize,
    pub(super) unit: &'a Unit,
    pub(super) refresh: bool,
    pub(super) state: UnitState,
    /// The state before the first step.
    pub(super) before: Option<UnitState>,
    pub(super) record: Record,
    /// The record on disk.
    pub(super) kept: Option<Record>,
    pub(super) steps: Vec<Step>,
    /// A remark for the user that is not an error.
    pub(super) remark: Option<String>,
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
    pub(super) fn new(job: usize, unit: &'a Unit, refresh: bool) -> Item<'a> {
        Item {
            job,
            unit,
            refresh,
            state: UnitState::default(),
            before: None,
            record: Record::default(),
            kept: None,
            steps: Vec::new(),
            remark: None,
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

//! A unit on its way to its desired state.

use crate::entity::Unit;
use crate::plan::Step;
use crate::record::Record;
use crate::state::UnitState;
use holo_plugin::Applied;

/// A unit that is being applied.
pub(super) struct Item<'a> {
    /// The index of its job in the set.
    pub(super) job: usize,
    pub(super) unit: &'a Unit,
    pub(super) refresh: bool,
    pub(super) state: UnitState,
    /// The state before the first step.
    pub(super) before: Option<UnitState>,
    pub(super) record: Record,
    /// The record as it is on disk.
    pub(super) kept: Option<Record>,
    pub(super) steps: Vec<Step>,
    /// What a person has to know, though it is no failure.
    pub(super) remark: Option<String>,
    /// The words for what has been done.
    pub(super) changes: Vec<String>,
    /// True if a step was tried, whether or not it worked.
    pub(super) is_tried: bool,
    /// True if something was done that shows even if the unit is as before in the end.
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

    /// Takes note of a step that was done.
    pub(super) fn note_done(&mut self, step: Step) {
        self.changes.push(step.done(&self.unit.name));
        // One that is started and fails at once is as it was.
        self.is_changed |= step != Step::Start;
    }

    /// Forgets that the unit has come to its end in this boot, unless it is meant to.
    pub(super) fn forget_end(&mut self) {
        if !self.state.comes_to_an_end {
            self.record.ran_in_boot = self.kept.as_ref().and_then(|kept| kept.ran_in_boot.clone());
        }
    }

    /// Takes note that the unit's files were read again.
    pub(super) fn note_read(&mut self) {
        self.changes.push(format!("read the files of {} again", self.unit.name));
        self.is_changed = true;
    }

    /// Returns how the unit has ended if it has failed, with how it is now if that is known.
    pub(super) fn failed(&self, now: Option<&UnitState>) -> Applied {
        let is_as_before = || self.before.as_ref().zip(now).is_some_and(|(before, now)| before.is_like(now));
        if !self.is_changed && (!self.is_tried || is_as_before()) { Applied::FAILED_UNCHANGED } else { Applied::FAILED }
    }

    pub(super) fn is_at_work(&self) -> bool {
        !self.failed && !self.ended
    }
}

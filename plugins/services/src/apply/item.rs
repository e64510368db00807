//! A unit on its way to its desired state.

use crate::entity::Unit;
use crate::plan::Step;
use crate::providers::UnitState;
use crate::record::Record;

/// A unit that is being applied.
pub(super) struct Item<'a> {
    /// Its place in the set.
    pub(super) place: usize,
    pub(super) unit: &'a Unit,
    pub(super) refresh: bool,
    pub(super) state: UnitState,
    pub(super) record: Record,
    /// What of the record is on disk.
    pub(super) kept: Option<Record>,
    pub(super) steps: Vec<Step>,
    /// What has been done, in words.
    pub(super) changes: Vec<String>,
    pub(super) begun: bool,
    pub(super) failed: bool,
    pub(super) ended: bool,
}

impl<'a> Item<'a> {
    pub(super) fn new(place: usize, unit: &'a Unit, refresh: bool) -> Item<'a> {
        Item {
            place,
            unit,
            refresh,
            state: UnitState::default(),
            record: Record::default(),
            kept: None,
            steps: Vec::new(),
            changes: Vec::new(),
            begun: false,
            failed: false,
            ended: false,
        }
    }

    pub(super) fn is_at_work(&self) -> bool {
        !self.failed && !self.ended
    }
}

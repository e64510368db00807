//! The record of a unit: its state before the first change, and facts that cannot be determined later.

use crate::plan::{Ensure, Step, Wanted};
use crate::state::{Enablement, Phase, UnitState};
use crate::unit::Scope;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The record of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Record {
    /// The unit's full name.
    pub(crate) unit: String,
    /// The manager to which it belongs.
    #[serde(skip_serializing_if = "Scope::is_system")]
    pub(crate) scope: Scope,
    /// True if it was running before this plugin first started or stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    ran: Option<bool>,
    /// True if it was enabled before this plugin first enabled or disabled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    was_enabled: Option<bool>,
    /// The runlevels in which it was enabled before that.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    runlevels: BTreeSet<String>,
    /// True if it was masked before this plugin first masked or unmasked it.
    #[serde(skip_serializing_if = "Option::is_none")]
    was_masked: Option<bool>,
    /// The units that are enabled and disabled together with it; true for those that were enabled before.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) also: BTreeMap<String, bool>,
    /// The boot in which it was run to completion by this plugin: the manager may unload units without references.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ran_in_boot: Option<String>,
    /// The effects of commands that were only printed in test mode.
    #[serde(skip_serializing_if = "Mock::is_empty")]
    pub(crate) mock: Mock,
}

/// The state that a unit would have after the printed commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Mock {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runs: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) masked: Option<bool>,
}

impl Mock {
    fn is_empty(&self) -> bool {
        *self == Mock::default()
    }

    /// Records a step that was printed.
    pub(crate) fn note(&mut self, step: Step) {
        match step {
            Step::Unmask | Step::UnmaskForNow => self.masked = Some(false),
            Step::Mask => self.masked = Some(true),
            Step::Disable | Step::DisableForNow => self.enabled = Some(false),
            Step::Enable => self.enabled = Some(true),
            Step::Stop => self.runs = Some(false),
            Step::Start | Step::Restart | Step::Reload => self.runs = Some(true),
        }
    }
}

impl Record {
    /// Returns true if the record contains no more than the unit and its manager.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Record { unit: self.unit.clone(), scope: self.scope.clone(), ..Record::default() }
    }

    /// Records the state of a unit before a step changes it, unless an earlier one is recorded already.
    pub(crate) fn note(&mut self, step: Step, state: &UnitState) {
        match step {
            // A failed unit was meant to run, and one that is being started is. Whether they would be running by now is
            // unknown, so there is no state to restore.
            Step::Start if matches!(state.phase, Some(Phase::Failed | Phase::Coming)) => {}
            Step::Start | Step::Stop => self.ran = self.ran.or(Some(step == Step::Stop)),
            // Disabling it would also remove the symlink to its file, which existed before.
            Step::Enable if state.enablement == Enablement::Linked => {}
            // An enablement until the next boot cannot be distinguished from one during an earlier boot.
            Step::Enable if state.enablement == Enablement::EnabledForNow => {}
            Step::Enable | Step::Disable if self.was_enabled.is_none() => {
                self.was_enabled = Some(step == Step::Disable || state.enablement == Enablement::Enabled);
                self.runlevels = state.runlevels.clone();
            }
            Step::Enable | Step::Disable => {}
            Step::Mask if state.enablement == Enablement::MaskedForNow => {}
            Step::Mask | Step::Unmask => self.was_masked = self.was_masked.or(Some(step == Step::Unmask)),
            Step::DisableForNow | Step::UnmaskForNow | Step::Restart | Step::Reload => {}
        }
    }

    /// Returns the state to restore when the unit has no definition any more.
    pub(crate) fn restored(&self) -> Wanted {
        let ensure = |ran| if ran { Ensure::Running } else { Ensure::Stopped };
        Wanted {
            ensure: self.ran.map(ensure),
            enable: self.was_enabled,
            runlevels: self.runlevels.clone(),
            mask: self.was_masked,
            reload: false,
            restores: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(phase: Phase, enablement: Enablement) -> UnitState {
        UnitState { phase: Some(phase), enablement, ..UnitState::default() }
    }

    #[test]
    fn the_first_change_of_each_kind_is_what_counts() {
        let mut record = Record::default();
        record.note(Step::Start, &state(Phase::Down, Enablement::Disabled));
        record.note(Step::Stop, &state(Phase::Up, Enablement::Disabled));
        record.note(Step::Disable, &state(Phase::Up, Enablement::Enabled));
        let restored =
            Wanted { ensure: Some(Ensure::Stopped), enable: Some(true), restores: true, ..Wanted::default() };
        assert_eq!(record.restored(), restored);
    }

    #[test]
    fn what_cannot_be_put_back_is_not_kept() {
        let mut record = Record::default();
        record.note(Step::Start, &state(Phase::Failed, Enablement::Disabled));
        record.note(Step::Enable, &state(Phase::Failed, Enablement::Linked));
        record.note(Step::Restart, &state(Phase::Up, Enablement::Enabled));
        assert_eq!(record, Record::default());
    }

    #[test]
    fn a_mock_remembers_what_was_printed() {
        let mut mock = Mock::default();
        assert!(mock.is_empty());
        for step in [Step::Enable, Step::Start, Step::Disable, Step::Mask] {
            mock.note(step);
        }
        assert_eq!(mock, Mock { runs: Some(true), enabled: Some(false), masked: Some(true) });
    }
}

//! The changes that a plan makes to paths.

use holo_change::tracked::State;

/// A change of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Make,
    Write,
    /// A change of these attributes, as a fragment such as `the mode`.
    Attributes(&'static str),
    Remove,
    Restore,
    RunPrograms,
}

impl Change {
    /// Returns the verb in the past tense.
    pub(crate) fn done(self) -> String {
        let words = match self {
            Change::Make => "made",
            Change::Write => "wrote",
            Change::Attributes(which) => return format!("changed {which} of"),
            Change::Remove => "removed",
            Change::Restore => "restored",
            Change::RunPrograms => "ran the programs for",
        };
        words.to_owned()
    }

    /// Returns the verb in the conditional: `would …`.
    pub(crate) fn doing(self) -> String {
        let words = match self {
            Change::Make => "would make",
            Change::Write => "would write",
            Change::Attributes(which) => return format!("would change {which} of"),
            Change::Remove => "would remove",
            Change::Restore => "would restore",
            Change::RunPrograms => "would run the programs for",
        };
        words.to_owned()
    }

    pub(crate) fn between(current: &State, desired: &State) -> Change {
        match (current, desired) {
            (_, State::Absent) => Change::Remove,
            (State::Absent, _) => Change::Make,
            _ => current.differs_by(desired).map_or(Change::Write, Change::Attributes),
        }
    }
}

//! The input of a plan, and the changes that it makes to paths.

use crate::definition::ScaffoldDefinition;
use crate::error::Result;
use crate::known::Known;
use crate::record::Record;
use crate::render::Rendered;
use holo_change::tracked::{State, Tracker};
use holo_plugin::Host;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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

/// The input of a plan.
pub(crate) struct Circumstances<'a> {
    pub(crate) host: &'a Host,
    pub(crate) definition: &'a ScaffoldDefinition,
    /// The canonical path of the directory that is rendered.
    pub(crate) target: &'a Path,
    /// A tracker that cannot leave the target.
    pub(crate) tracker: &'a Tracker,
    pub(crate) record: &'a Record,
    /// The files that are known to be unchanged, and need not be read.
    pub(crate) known: &'a Known,
    pub(crate) rendered: &'a Rendered,
    /// The paths inside the target that belong to other entities, and are not purged.
    pub(crate) others: &'a BTreeSet<PathBuf>,
    /// True if the plan is made by an apply. By then, orphaned edits are reverted, unless that was refused.
    pub(crate) is_apply: bool,
    /// Returns true if a program must be run for a file.
    pub(crate) has_programs: &'a dyn Fn(&Path) -> bool,
}

impl Circumstances<'_> {
    /// Returns true if a file contains edits or has an overlay, and is therefore not purged.
    pub(crate) fn has_layers(&self, path: &Path) -> Result<bool> {
        Ok(self.tracker.is_overlaid(path) || (self.is_apply && self.tracker.is_edited(path)?))
    }

    /// Returns true if a path belongs to another entity, which owns a path inside the target.
    pub(crate) fn is_others(&self, path: &Path) -> bool {
        path.ancestors().take_while(|above| *above != self.target).any(|above| self.others.contains(above))
    }
}

//! Edits: lines, blocks and values in files that others own.
//!
//! The [`ledger`] of a file records the owner of each line, and [`outcome`] applies an edit to it. [`scan`] finds the edits, [`inspection`]
//! compares them with the file, [`executor`] changes the file, and [`record`] is the form on disk.

mod block;
mod definition;
mod entity;
mod executor;
mod ini;
mod inspection;
mod ledger;
mod line;
mod outcome;
mod pattern;
mod record;
mod scan;
mod subject;
mod text;

pub(crate) use definition::{BlockDefinition, IniDefinition, LineDefinition};
pub(crate) use entity::EditEntity;
pub(crate) use executor::apply;
pub(crate) use inspection::check;
pub(crate) use scan::{EditTables, Found, FoundEdit, Neighbour};

use definition::{Ensure, SharedKeys};
use holo_change::tracked::Digest;
use holo_plugin::definitions::Invalid;
use holo_plugin::{Applied, Entity, EntityReport, FilePair, Host, Mode, Output, Span, Verdict, apply_one};
use inspection::look;
use ledger::{Draft, Plan, Spot};
use std::path::Path;

/// The definition of an edit.
#[derive(Clone, Debug)]
pub(crate) enum EditDefinition {
    Line(LineDefinition),
    Block(BlockDefinition),
    Ini(IniDefinition),
}

impl EditDefinition {
    /// Returns true if the edit is present in the file.
    fn holds(&self, draft: &mut Draft) -> Result<bool, Invalid> {
        match self {
            EditDefinition::Line(line) => line.holds(draft),
            EditDefinition::Block(block) => Ok(block.holds(draft)),
            EditDefinition::Ini(ini) => Ok(ini.holds(draft)),
        }
    }

    /// Returns the change that adds the edit to the file.
    fn plan(&self, draft: &mut Draft, before: Option<Spot>) -> Result<Plan, Invalid> {
        match self {
            EditDefinition::Line(line) => line.plan(draft, before),
            EditDefinition::Block(block) => block.plan(draft, before),
            EditDefinition::Ini(ini) => Ok(ini.plan(draft, before)),
        }
    }

    fn shared(&self) -> SharedKeys<'_> {
        match self {
            EditDefinition::Line(line) => line.shared(),
            EditDefinition::Block(block) => block.shared(),
            EditDefinition::Ini(ini) => ini.shared(),
        }
    }

    /// Returns the path of the file, with its leading slash.
    pub(crate) fn path(&self) -> &Path {
        Path::new(self.shared().path)
    }

    /// Returns true if the edit only removes lines, so that a missing file is in the desired state.
    fn is_absence(&self) -> bool {
        self.shared().ensure == Ensure::Absent
    }

    /// Returns a digest that identifies the definition.
    fn fingerprint(&self) -> String {
        Digest::of_bytes(format!("{self:?}").as_bytes()).as_str().to_owned()
    }
}

impl Entity for EditEntity {
    fn report(&self) -> EntityReport {
        self.to_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply_one(self, mode, output, |set, answers| apply(host, set, answers))
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        check(host, &[self]).pop().map_or(Verdict::Failed, |checked| checked.tell(output))
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        look(self, host, |inspection, file| inspection.difference(file, self)).ok()?.ok()?
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        look(self, host, |inspection, file| inspection.preview(file, self)).ok()?.ok()?
    }

    fn blame(&self, host: &Host, _: Option<&Path>) -> Option<Vec<Span>> {
        look(self, host, |inspection, file| inspection.blame(file, self)).ok()?
    }
}

//! Edits: lines, blocks and values in files that others own.
//!
//! The [`ledger`] of a file knows which of its lines are whose; [`outcome`] is what an edit makes of them.

mod block;
mod definition;
mod ini;
mod ledger;
mod line;
mod outcome;
mod text;

pub(crate) use definition::{BlockDefinition, IniDefinition, LineDefinition};

use definition::Ensure;
use holo_plugin::definitions::{Command, Invalid};
use ledger::Plan;
use std::path::Path;

/// An edit as it is defined.
#[derive(Clone, Debug)]
pub(crate) enum EditDefinition {
    Line(LineDefinition),
    Block(BlockDefinition),
    Ini(IniDefinition),
}

impl EditDefinition {
    /// Returns true if the lines of a file are as they should be.
    fn holds(&self, lines: &[&[u8]]) -> Result<bool, Invalid> {
        match self {
            EditDefinition::Line(line) => line.holds(lines),
            EditDefinition::Block(block) => Ok(block.holds(lines)),
            EditDefinition::Ini(ini) => Ok(ini.holds(lines)),
        }
    }

    /// Returns the change that makes them so.
    fn plan(&self, lines: &[&[u8]], before: Option<usize>) -> Result<Plan, Invalid> {
        match self {
            EditDefinition::Line(line) => line.plan(lines, before),
            EditDefinition::Block(block) => block.plan(lines, before),
            EditDefinition::Ini(ini) => Ok(ini.plan(lines, before)),
        }
    }

    /// Returns the path of the file, with its leading slash.
    pub(crate) fn path(&self) -> &Path {
        Path::new(match self {
            EditDefinition::Line(line) => &line.path,
            EditDefinition::Block(block) => &block.path,
            EditDefinition::Ini(ini) => &ini.path,
        })
    }

    fn creates(&self) -> bool {
        match self {
            EditDefinition::Line(line) => line.create,
            EditDefinition::Block(block) => block.create,
            EditDefinition::Ini(ini) => ini.create,
        }
    }

    fn is_sensitive(&self) -> bool {
        match self {
            EditDefinition::Line(line) => line.sensitive,
            EditDefinition::Block(block) => block.sensitive,
            EditDefinition::Ini(ini) => ini.sensitive,
        }
    }

    fn validation(&self) -> Option<&Command> {
        match self {
            EditDefinition::Line(line) => line.validate.as_ref(),
            EditDefinition::Block(block) => block.validate.as_ref(),
            EditDefinition::Ini(ini) => ini.validate.as_ref(),
        }
    }

    fn ensure(&self) -> Ensure {
        match self {
            EditDefinition::Line(line) => line.ensure,
            EditDefinition::Block(block) => block.ensure,
            EditDefinition::Ini(ini) => ini.ensure,
        }
    }
}

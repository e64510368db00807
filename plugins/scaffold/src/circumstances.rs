//! The input of a plan.

use crate::definition::ScaffoldDefinition;
use crate::known::Known;
use crate::record::Record;
use crate::render::Rendered;
use holo_change::tracked::Tracker;
use holo_plugin::Host;
use std::path::{Path, PathBuf};

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
    /// The paths of other entities, which are not purged.
    pub(crate) others: &'a [PathBuf],
    /// Returns true if a program must be run for a file.
    pub(crate) has_programs: &'a dyn Fn(&Path) -> bool,
}

impl Circumstances<'_> {
    /// Returns true if a path belongs to another entity, which owns a path inside the target.
    pub(crate) fn is_others(&self, path: &Path) -> bool {
        let target = self.target;
        let mut inside = self.others.iter().filter(|other| *other != target && other.starts_with(target));
        inside.any(|other| path.starts_with(other))
    }
}

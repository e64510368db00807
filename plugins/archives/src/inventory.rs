//! The archives that the last scan has found.

use crate::definition::Ensure;
use crate::record::ArchiveRecord;
use holo_change::Tree;
use holo_change::base_store::Remembered;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The prefix of the IDs.
pub(crate) const PREFIX: &str = "archive:";

#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// Archives that are not defined any more.
    pub(crate) orphans: BTreeMap<String, Remembered<ArchiveRecord>>,
    /// Archives that are defined and not left out by a condition.
    pub(crate) defined: Vec<DefinedArchive>,
}

/// The canonical paths of an archive that is defined.
#[derive(Debug)]
pub(crate) struct DefinedArchive {
    pub(crate) id: String,
    /// The path of the download.
    pub(crate) path: PathBuf,
    /// The directory that it is extracted to.
    pub(crate) tree: Option<PathBuf>,
    pub(crate) ensure: Ensure,
}

impl Inventory {
    /// Returns the orphans with the same path of the download, or the same directory to extract to.
    pub(crate) fn predecessors(&self, path: &Path, tree: Option<&Path>) -> Vec<&Remembered<ArchiveRecord>> {
        let has = |record: &ArchiveRecord| {
            record.path.as_deref().is_some_and(|own| Path::new(own) == path)
                || tree.is_some_and(|tree| record.trees.iter().any(|own| Path::new(own) == tree))
        };
        self.orphans.values().filter(|orphan| has(&orphan.base)).collect()
    }

    pub(crate) fn is_orphan(&self, id: &str) -> bool {
        self.orphans.contains_key(id)
    }
}

/// Returns the canonical form of a path, or the path itself where that cannot be told: an apply reports the error.
pub(crate) fn canonical(root: &Arc<Tree>, path: &str, last: bool) -> PathBuf {
    root.canonical(Path::new(path), last).unwrap_or_else(|_| PathBuf::from(path))
}

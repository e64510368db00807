//! The archives found by the last scan.

use crate::definition::Ensure;
use crate::record::ArchiveRecord;
use holo_change::Tree;
use holo_change::base_store::Remembered;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The prefix of the plugin's IDs.
pub(crate) const PREFIX: &str = "archive:";

#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// Archives that are no longer defined.
    pub(crate) orphans: BTreeMap<String, Remembered<ArchiveRecord>>,
    /// Archives that are defined, and not skipped by a condition.
    pub(crate) defined: Vec<DefinedArchive>,
}

/// The canonical paths of a defined archive.
#[derive(Debug)]
pub(crate) struct DefinedArchive {
    pub(crate) id: String,
    /// The path of the download.
    pub(crate) path: PathBuf,
    /// The target directory.
    pub(crate) tree: Option<PathBuf>,
    pub(crate) ensure: Ensure,
}

impl Inventory {
    /// Returns the orphans with the same download path or target directory.
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

/// Returns the canonical form of a path, or the path itself if it cannot be determined. In this case, the apply reports
/// the error.
pub(crate) fn canonical(root: &Arc<Tree>, path: &str, last: bool) -> PathBuf {
    root.canonical(Path::new(path), last).unwrap_or_else(|_| PathBuf::from(path))
}

//! The paths that archives own: a path has one owner, and one base.

use crate::entry::ManifestEntry;
use crate::error::ArchiveError;
use crate::manifest::Manifest;
use crate::record::ArchiveRecord;
use crate::shared::are_nested;
use crate::store::Store;
use holo_change::base_store::Remembered;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The paths that other archives have brought to the directory that one works on.
#[derive(Debug, Default)]
pub(crate) struct PathOwners {
    paths: BTreeMap<PathBuf, Vec<OwnedPath>>,
    /// The directories that they are extracted to, with their IDs.
    trees: Vec<(PathBuf, String)>,
}

/// A path that an archive has brought.
#[derive(Debug)]
pub(crate) struct OwnedPath {
    pub(crate) id: String,
    /// The states that it may have; empty if it is the archive's download.
    pub(crate) states: Vec<ManifestEntry>,
    /// True if the archive is not defined any more, or is about to remove the path.
    pub(crate) is_orphaned: bool,
}

impl OwnedPath {
    fn is_directory(&self) -> bool {
        self.states.iter().any(ManifestEntry::is_directory)
    }
}

impl PathOwners {
    /// Returns the paths in a directory that all archives but one have brought.
    ///
    /// # Errors
    /// If that cannot be told.
    pub(crate) fn below(store: &Store, id: &str, area: &Path) -> Result<PathOwners, ArchiveError> {
        let mut owners = PathOwners::default();
        for other in store.others(id)? {
            owners.take(store, &other, area, store.inventory.is_orphan(&other.id))?;
        }
        Ok(owners)
    }

    /// Returns the paths in the directory of an archive, except those that it was itself extracted to this directory. If it was extracted to
    /// another directory before, which contains this one or is in it, those paths count as an orphan's.
    ///
    /// # Errors
    /// If that cannot be told.
    pub(crate) fn in_tree(store: &Store, id: &str, tree: &Path) -> Result<PathOwners, ArchiveError> {
        let mut owners = PathOwners::below(store, id, tree)?;
        if let Some(mut own) = store.memory.recall::<ArchiveRecord>(id)? {
            own.base.path = None;
            own.base.trees.retain(|other| Path::new(other) != tree);
            owners.take(store, &own, tree, true)?;
            owners.trees.retain(|(_, other)| other != id);
        }
        Ok(owners)
    }

    fn take(
        &mut self,
        store: &Store,
        other: &Remembered<ArchiveRecord>,
        area: &Path,
        is_orphaned: bool,
    ) -> Result<(), ArchiveError> {
        let Remembered { id, base: record, .. } = other;
        let mut add = |path: PathBuf, states: Vec<ManifestEntry>, is_orphaned: bool| {
            self.paths.entry(path).or_default().push(OwnedPath { id: id.clone(), states, is_orphaned });
        };
        if let Some(path) = record.path.as_deref().map(Path::new)
            && path.starts_with(area)
            && record.has_download()
        {
            add(path.to_owned(), Vec::new(), is_orphaned);
        }
        for tree in record.trees.iter().map(Path::new).filter(|tree| are_nested(tree, area)) {
            let Some(manifest) = Manifest::load(&store.manifest(id, tree))? else { continue };
            for (path, states) in manifest.entries {
                let is_leaving = manifest.leaving.contains(&path) || manifest.waiting.contains(&path);
                let path = tree.join(path);
                if path.starts_with(area) {
                    add(path, states, is_orphaned || is_leaving);
                }
            }
            self.trees.push((tree.to_owned(), id.clone()));
        }
        Ok(())
    }

    /// Returns the archive that has brought something to a path, so that another archive cannot.
    pub(crate) fn conflict(&self, path: &Path, is_directory: bool) -> Option<&str> {
        let conflicts = |owned: &&OwnedPath| {
            // Directories can be shared, and paths of orphans can be taken over.
            let is_shared = owned.is_directory() && is_directory;
            let can_be_taken = owned.is_orphaned && !owned.states.is_empty();
            !is_shared && !can_be_taken
        };
        if let Some(owned) = self.paths.get(path).and_then(|all| all.iter().find(conflicts)) {
            return Some(&owned.id);
        }
        let needs = |(tree, _): &&(PathBuf, String)| !is_directory && tree.starts_with(path);
        self.trees.iter().find(needs).map(|(_, id)| id.as_str())
    }

    /// Returns the files that orphans have brought to a path.
    pub(crate) fn orphaned_at(&self, path: &Path) -> impl Iterator<Item = &OwnedPath> {
        let all = self.paths.get(path).into_iter().flatten();
        all.filter(|owned| owned.is_orphaned && !owned.states.is_empty() && !owned.is_directory())
    }

    /// Returns true if any other archive has brought something to a path.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.paths.contains_key(path)
    }
}

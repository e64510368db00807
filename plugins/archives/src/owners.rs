//! Which archive has brought what: a path has one owner, and one base.

use crate::error::ArchiveError;
use crate::made::Made;
use crate::manifest::Manifest;
use crate::record::Record;
use crate::scene::are_nested;
use crate::store::Store;
use holo_change::base_store::Remembered;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What other archives have brought to the paths that one works on.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    brought: BTreeMap<PathBuf, Vec<Brought>>,
    /// The directories that they work in.
    trees: Vec<(PathBuf, String)>,
}

/// What an archive has brought to a path.
#[derive(Debug)]
pub(crate) struct Brought {
    pub(crate) id: String,
    /// What it may be; nothing if it is the archive's download.
    pub(crate) states: Vec<Made>,
    /// Whether nothing defines the archive any more, or it is about to leave the path.
    pub(crate) is_orphaned: bool,
}

impl Brought {
    fn is_directory(&self) -> bool {
        self.states.iter().any(Made::is_directory)
    }
}

impl Owners {
    /// What all archives but one have brought to a path, and to what is in it.
    ///
    /// # Errors
    /// If that cannot be told.
    pub(crate) fn below(store: &Store, id: &str, area: &Path) -> Result<Owners, ArchiveError> {
        let mut owners = Owners::default();
        for other in store.others(id)? {
            owners.take(store, &other, area, store.scene.is_orphan(&other.id))?;
        }
        Ok(owners)
    }

    /// What anybody has brought to the tree of an archive, but for what it has brought to this tree itself: that it was extracted to
    /// another directory, which has this one in it or is in it, is like an archive that is defined no more.
    ///
    /// # Errors
    /// If that cannot be told.
    pub(crate) fn in_tree(store: &Store, id: &str, tree: &Path) -> Result<Owners, ArchiveError> {
        let mut owners = Owners::below(store, id, tree)?;
        if let Some(mut own) = store.memory.recall::<Record>(id)? {
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
        other: &Remembered<Record>,
        area: &Path,
        is_orphaned: bool,
    ) -> Result<(), ArchiveError> {
        let Remembered { id, base: record, .. } = other;
        let mut add = |path: PathBuf, states: Vec<Made>, is_orphaned: bool| {
            self.brought.entry(path).or_default().push(Brought { id: id.clone(), states, is_orphaned });
        };
        if let Some(path) = record.path.as_deref().map(Path::new)
            && path.starts_with(area)
            && record.fetched().next().is_some()
        {
            add(path.to_owned(), Vec::new(), is_orphaned);
        }
        for tree in record.trees.iter().map(Path::new).filter(|tree| are_nested(tree, area)) {
            let Some(manifest) = Manifest::load(&store.manifest(id, tree))? else { continue };
            for (path, states) in manifest.made {
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

    /// Who has brought something to a path that keeps another archive from bringing something else there.
    pub(crate) fn in_the_way(&self, path: &Path, is_directory: bool) -> Option<&str> {
        let blocks = |brought: &&Brought| {
            // Directories can be shared, and what an orphan has brought can be taken over.
            let is_shared = brought.is_directory() && is_directory;
            let can_be_taken = brought.is_orphaned && !brought.states.is_empty();
            !is_shared && !can_be_taken
        };
        if let Some(brought) = self.brought.get(path).and_then(|all| all.iter().find(blocks)) {
            return Some(&brought.id);
        }
        let needs = |(tree, _): &&(PathBuf, String)| !is_directory && tree.starts_with(path);
        self.trees.iter().find(needs).map(|(_, id)| id.as_str())
    }

    /// What orphans have brought to a path, but for directories.
    pub(crate) fn orphaned_at(&self, path: &Path) -> impl Iterator<Item = &Brought> {
        let all = self.brought.get(path).into_iter().flatten();
        all.filter(|brought| brought.is_orphaned && !brought.states.is_empty() && !brought.is_directory())
    }

    /// Whether anybody has brought something to a path: then it is not ours alone to remove.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.brought.contains_key(path)
    }
}

/// The words for a path that two archives bring.
pub(crate) fn brought_by_both(path: &Path, one: &str, other: &str) -> String {
    format!("{} is brought by both {one} and {other}", path.display())
}

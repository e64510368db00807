//! The paths that other entities own: a path has one owner, and one base.

use super::TreeStore;
use crate::error::Result;
use crate::manifest::{Manifest, ManifestEntry};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An entity with trees.
#[derive(Clone, Debug)]
pub struct TreeOwner {
    /// The entity.
    pub id: String,
    /// The canonical paths of its directories.
    pub trees: Vec<PathBuf>,
    /// The canonical path of a file that it has beside them.
    pub file: Option<PathBuf>,
    /// True if the entity is not defined any more: then others can take over its paths.
    pub is_orphan: bool,
}

/// The paths that other entities have made in a directory.
#[derive(Debug, Default)]
pub struct PathOwners {
    paths: BTreeMap<PathBuf, Vec<OwnedPath>>,
    /// The directories that they have made something in, with their IDs.
    trees: Vec<(PathBuf, String)>,
    /// The entity for which the others are compared.
    own: String,
}

/// A path that another entity has made.
#[derive(Debug)]
pub(super) struct OwnedPath {
    pub(super) id: String,
    /// The states that it may have; empty if it is not in a tree.
    pub(super) states: Vec<ManifestEntry>,
    /// True if the entity is not defined any more, or is about to remove the path.
    is_orphaned: bool,
}

impl OwnedPath {
    fn is_directory(&self) -> bool {
        self.states.iter().any(ManifestEntry::is_directory)
    }

    fn can_be_taken(&self) -> bool {
        self.is_orphaned
    }
}

impl PathOwners {
    /// Reads the paths of these entities that are in an area: a directory, or a single path. The entity `own` itself may be among them, as
    /// an orphan, with directories that it had before.
    ///
    /// # Errors
    /// If a manifest cannot be read.
    pub fn read(store: &TreeStore, own: &str, owners: &[TreeOwner], area: &Path) -> Result<PathOwners> {
        let (mut paths, mut trees): (BTreeMap<PathBuf, Vec<OwnedPath>>, _) = (BTreeMap::new(), Vec::new());
        for owner in owners {
            let mut add = |path: PathBuf, states: Vec<ManifestEntry>, is_orphaned: bool| {
                if path.starts_with(area) {
                    let owned = OwnedPath { id: owner.id.clone(), states, is_orphaned };
                    paths.entry(path).or_default().push(owned);
                }
            };
            if let Some(file) = &owner.file {
                add(file.clone(), Vec::new(), owner.is_orphan);
            }
            for tree in owner.trees.iter().filter(|tree| are_nested(tree, area)) {
                let Some(manifest) = Manifest::load(&store.manifest(&owner.id, tree))? else { continue };
                for (path, states) in manifest.entries {
                    let is_leaving = manifest.leaving.contains(&path) || manifest.waiting.contains(&path);
                    add(tree.join(path), states, owner.is_orphan || is_leaving);
                }
                trees.push((tree.clone(), owner.id.clone()));
            }
        }
        Ok(PathOwners { paths, trees, own: own.to_owned() })
    }

    /// Returns the entity that has something at a path, so that another one cannot.
    #[must_use]
    pub fn conflict(&self, path: &Path, is_directory: bool) -> Option<&str> {
        // Directories can be shared, and paths of orphans can be taken over.
        let is_shared = |owned: &OwnedPath| owned.is_directory() && is_directory;
        let conflicts = |owned: &&OwnedPath| !is_shared(owned) && !owned.can_be_taken();
        if let Some(owned) = self.paths.get(path).and_then(|all| all.iter().find(conflicts)) {
            return Some(&owned.id);
        }
        let needs = |(tree, id): &&(PathBuf, String)| !is_directory && *id != self.own && tree.starts_with(path);
        self.trees.iter().find(needs).map(|(_, id)| id.as_str())
    }

    /// Returns the files that orphans have made at a path.
    pub(super) fn orphaned_at(&self, path: &Path) -> impl Iterator<Item = &OwnedPath> {
        let all = self.paths.get(path).into_iter().flatten();
        all.filter(|owned| owned.can_be_taken() && !owned.states.is_empty() && !owned.is_directory())
    }

    /// Returns true if another entity has something at a path.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        self.paths.contains_key(path)
    }

    /// Returns the trees of an entity.
    pub(super) fn trees_of(&self, id: &str) -> impl Iterator<Item = &Path> {
        self.trees.iter().filter(move |(_, owner)| owner == id).map(|(tree, _)| tree.as_path())
    }
}

/// Returns true if two paths are the same, or one is in the other.
fn are_nested(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

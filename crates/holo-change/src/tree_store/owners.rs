//! The paths that other entities own. Each path has a single owner, and a single base. Paths are taken over, with their bases, from
//! entities that no longer have them.

use super::TreeStore;
use crate::base_store::RecordChange;
use crate::claims::{Claim, Claims};
use crate::error::Result;
use crate::manifest::{Manifest, ManifestEntry};
use crate::tracked::{HeldPath, Origin, State, Track, Unmanaged};
use std::path::{Path, PathBuf};

/// An entity with trees.
#[derive(Clone, Debug)]
pub struct TreeOwner {
    /// The ID of the entity.
    pub id: String,
    /// The canonical paths of its directories.
    pub trees: Vec<PathBuf>,
    /// The canonical path of a file next to the trees.
    pub file: Option<PathBuf>,
    /// True if the entity is no longer defined, so that others can take over its paths.
    pub is_orphan: bool,
}

/// The paths that other entities have created in a directory.
#[derive(Debug, Default)]
pub struct PathOwners {
    /// The directory, or a single path.
    area: PathBuf,
    /// The directories of the other entities.
    trees: Vec<OtherTree>,
    /// The files next to these directories.
    files: Vec<(PathBuf, OwnedPath)>,
    /// The entity for which the paths are compared.
    own: String,
}

/// A directory in which another entity has created files.
#[derive(Debug)]
struct OtherTree {
    id: String,
    path: PathBuf,
    manifest: Manifest,
    is_orphan: bool,
}

/// A path that another entity has created.
#[derive(Clone, Debug)]
pub(super) struct OwnedPath {
    pub(super) id: String,
    /// Its possible states; empty if it is not in a tree.
    pub(super) states: Vec<ManifestEntry>,
    /// True if the entity is no longer defined, or is about to remove the path.
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

impl OtherTree {
    fn owned(&self, path: &Path) -> Result<Option<OwnedPath>> {
        let Ok(below) = path.strip_prefix(&self.path) else { return Ok(None) };
        let Some(states) = self.manifest.entries.get(below).cloned() else { return Ok(None) };
        let is_leaving = self.manifest.waiting.contains(below) || self.manifest.leaving.contains(below);
        Ok(Some(OwnedPath { id: self.id.clone(), states, is_orphaned: self.is_orphan || is_leaving }))
    }
}

impl PathOwners {
    /// Reads the paths of these entities in an area, which is a directory or a single path. The entity `own` may be
    /// included as an orphan, with its former directories.
    ///
    /// # Errors
    /// If a manifest cannot be read.
    pub fn read(store: &TreeStore, own: &str, owners: &[TreeOwner], area: &Path) -> Result<PathOwners> {
        let mut read = PathOwners { area: area.to_owned(), own: own.to_owned(), ..PathOwners::default() };
        for owner in owners {
            let is_orphan = owner.is_orphan;
            if let Some(file) = &owner.file {
                let owned = OwnedPath { id: owner.id.clone(), states: Vec::new(), is_orphaned: is_orphan };
                read.files.push((file.clone(), owned));
            }
            for tree in owner.trees.iter().filter(|tree| are_nested(tree, area)) {
                let Some(manifest) = store.manifest(&owner.id, tree).load()? else { continue };
                read.trees.push(OtherTree { id: owner.id.clone(), path: tree.clone(), manifest, is_orphan });
            }
        }
        Ok(read)
    }

    /// Returns the owners of a path among the other entities.
    fn at(&self, path: &Path) -> Result<Vec<OwnedPath>> {
        if !path.starts_with(&self.area) {
            return Ok(Vec::new());
        }
        let mut found: Vec<OwnedPath> =
            self.files.iter().filter(|(file, _)| file == path).map(|(_, owned)| owned.clone()).collect();
        for tree in &self.trees {
            found.extend(tree.owned(path)?);
        }
        Ok(found)
    }

    /// Returns the entity whose ownership of a path prevents another one from creating it.
    ///
    /// # Errors
    /// If data outside of memory cannot be read.
    pub fn conflict(&self, path: &Path, is_directory: bool) -> Result<Option<String>> {
        // Directories can be shared, and paths of orphans can be taken over.
        let is_shared = |owned: &OwnedPath| owned.is_directory() && is_directory;
        let conflicts = |owned: &OwnedPath| !is_shared(owned) && !owned.can_be_taken();
        if let Some(owned) = self.at(path)?.into_iter().find(conflicts) {
            return Ok(Some(owned.id));
        }
        let needs = |tree: &&OtherTree| !is_directory && tree.id != self.own && tree.path.starts_with(path);
        Ok(self.trees.iter().find(needs).map(|tree| tree.id.clone()))
    }

    /// Returns the files that orphans have created at a path.
    pub(super) fn orphaned_at(&self, path: &Path) -> Result<Vec<OwnedPath>> {
        let mut all = self.at(path)?;
        all.retain(|owned| owned.can_be_taken() && !owned.states.is_empty() && !owned.is_directory());
        Ok(all)
    }

    /// Returns true if another entity owns a path.
    ///
    /// # Errors
    /// If data outside of memory cannot be read.
    pub fn has(&self, path: &Path) -> Result<bool> {
        Ok(!self.at(path)?.is_empty())
    }

    /// Returns the trees of an entity.
    pub(super) fn trees_of(&self, id: &str) -> impl Iterator<Item = &Path> {
        self.trees.iter().filter(move |tree| tree.id == id).map(|tree| tree.path.as_path())
    }
}

/// Returns true if two paths are equal, or one is below the other.
fn are_nested(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// A path that is taken over.
#[derive(Debug)]
pub struct Adoption {
    held: HeldPath,
    track: Track,
    /// True if the path has manual changes.
    pub loses_changes: bool,
    /// True if the original file was a directory, which cannot be a base.
    pub was_directory: bool,
}

impl Adoption {
    /// Returns true if a kill may have left a new file of the previous owner next to the path.
    pub(super) fn was_interrupted(&self) -> bool {
        self.track.is_intended()
    }
}

impl TreeStore {
    /// Returns the claim of an entity of another plugin to a path that it holds.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn rival<'c>(&self, path: &Path, claims: &'c Claims) -> Result<Option<&'c Claim>> {
        Ok(self.held()?.find_of_others(path, &self.plugin.plugin).and_then(|held| held.conflict(path, claims)))
    }

    /// Returns the takeover of a canonical path by an entity, next to its trees or in one; `None` if no other entity
    /// holds the path.
    ///
    /// # Errors
    /// If the path or its base cannot be read.
    pub fn adoption(&self, id: &str, path: &Path, is_beside: bool) -> std::result::Result<Option<Adoption>, Unmanaged> {
        let Some(held) = self.holder(path, id, is_beside)? else { return Ok(None) };
        let current = State::of(&self.overlays.base(path).unwrap_or_else(|| self.root.place(path)))?;
        let track = held.track(&self.plugin, Some(current.clone()))?;
        let was_directory = matches!(track.base, State::Directory { .. });
        Ok(Some(Adoption { held, loses_changes: !track.may_be(&current), was_directory, track }))
    }

    /// Saves the base of a path that is taken over. When this returns, it is on disk.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save_adopted_base(&self, path: &Path, adoption: &Adoption) -> Result<()> {
        let plugin = &adoption.held.origin.plugin;
        // All entities of a plugin have the same bases.
        let Some(theirs) = self.plugin.store(plugin).filter(|_| *plugin != self.plugin.plugin) else { return Ok(()) };
        match &adoption.track.base {
            State::Absent | State::Directory { .. } => self.bases.remove(path),
            State::File { .. } | State::Symlink { .. } => {
                let contents = theirs.contents();
                self.bases.save_written(path, |place| adoption.track.write_base(place, &contents))
            }
        }
    }

    /// Removes paths from the records of their previous owners, after the takeover was recorded.
    ///
    /// # Errors
    /// If a record cannot be written.
    pub fn release<'a>(&self, adoptions: impl IntoIterator<Item = &'a Adoption>) -> Result<()> {
        self.record_takeover(Vec::new(), adoptions)
    }

    /// Makes changes of records, and removes paths from the records of their previous owners, in one transaction.
    pub(super) fn record_takeover<'a>(
        &self,
        changes: Vec<RecordChange>,
        adoptions: impl IntoIterator<Item = &'a Adoption>,
    ) -> Result<()> {
        let origins: Vec<&Origin> = adoptions.into_iter().map(|adoption| &adoption.held.origin).collect();
        if !origins.is_empty() {
            self.forget_held();
        }
        self.plugin.record_takeover(changes, origins)
    }
}

impl Adoption {
    /// Returns true if the original file was a regular file or a symlink.
    pub(super) fn has_base(&self) -> bool {
        matches!(self.track.base, State::File { .. } | State::Symlink { .. })
    }

    /// Returns the previous owner.
    #[must_use]
    pub fn from(&self) -> &str {
        &self.held.origin.id
    }
}

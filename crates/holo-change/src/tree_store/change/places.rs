//! Moving directories and files into place, and removing others: the possible states of paths, and their owners.

use super::TreeChange;
use crate::base_store::RecordChange;
use crate::bases::replace_by_copy;
use crate::error::Result;
use crate::manifest::{EntryKind, Manifest, ManifestEntry};
use crate::path_handle::{Durability, Kind, PathHandle, TEMPORARY, Touched, Tree};
use crate::tree_store::TreeError;
use crate::tree_store::plan::Plan;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl TreeChange {
    /// Creates the new directories, or moves them as a whole. Returns those that were moved.
    pub(super) fn make_directories(&self, directory: &Arc<Tree>) -> Result<BTreeSet<PathBuf>> {
        let mut moved = BTreeSet::new();
        for path in &self.plan.directories {
            let place = directory.place(path);
            if is_in(path, &moved) {
                continue;
            }
            if let Some(staged) = self.staged.as_ref().filter(|_| self.plan.whole.contains(path))
                && move_directory(&staged.tree().place(path), &place)?
            {
                moved.insert(path.clone());
                continue;
            }
            place.create_directory(0o700)?;
            self.plan.give_properties(path, &place)?;
        }
        Ok(moved)
    }

    /// Moves all files, except those that were moved with their directories.
    pub(super) fn move_files(
        &self,
        directory: &Arc<Tree>,
        whole: &BTreeSet<PathBuf>,
        touched: &mut Touched,
    ) -> std::result::Result<(), TreeError> {
        let Some(staged) = &self.staged else { return Ok(()) };
        for path in &self.plan.moved {
            let (from, to) = (staged.tree().place(path), self.location.at(directory, path));
            if is_in(path, whole) {
                // It is already in place.
            } else if self.location.is_overlaid(path) {
                replace_by_copy(&from, &self.location.overlay_base_on_its_way(), &to)?;
            } else {
                move_file(&from, &to)?;
            }
            touched.add(to)?;
        }
        Ok(())
    }

    pub(super) fn remove_files(&self, directory: &Arc<Tree>) -> std::result::Result<(), TreeError> {
        let mut restored = Touched::default();
        let has_bases = self.location.store.bases.are_any()?;
        for path in &self.plan.gone {
            let file = directory.place(path);
            if has_bases && self.location.has_base(path)? {
                self.location.restore_base(path, &file)?;
                restored.add(file)?;
            } else {
                file.remove()?;
            }
        }
        Ok(restored.sync()?)
    }

    pub(super) fn remove_directories(&self, directory: &Arc<Tree>) -> std::result::Result<(), TreeError> {
        for path in self.plan.gone_directories.iter().rev() {
            let place = directory.place(path);
            let is_gone = place.remove_directory()?;
            // Our directory may have replaced a file.
            if self.location.has_base(path)? {
                if !is_gone {
                    let obstacle = "a directory that is not empty";
                    return Err(TreeError::BaseNotRestored { path: place.shown(), obstacle });
                }
                self.location.restore_base(path, &place)?;
                Durability::Each.sync([], [&place])?;
            }
        }
        Ok(())
    }
}

pub(super) fn remove_obstacle(path: &PathHandle) -> std::result::Result<(), TreeError> {
    match path.stat()?.map(|stat| stat.kind) {
        None => Ok(()),
        Some(Kind::Directory) if !path.remove_directory()? => Err(TreeError::DirectoryNotEmpty(path.shown())),
        Some(Kind::Directory) => Ok(()),
        Some(_) => Ok(path.remove()?),
    }
}

impl Plan {
    /// Sets the owner and mode of a new directory.
    pub(super) fn give_properties(&self, path: &Path, place: &PathHandle) -> Result<()> {
        let Some(ManifestEntry { kind: EntryKind::Directory { mode }, owner }) = self.entries.get(path) else {
            return Ok(());
        };
        place.give_to(owner.uid, owner.gid)?;
        place.change_mode(*mode)
    }
}

/// Returns true if a path is equal to, or below, one of these directories, which are not nested.
pub(super) fn is_in(path: &Path, directories: &BTreeSet<PathBuf>) -> bool {
    directories
        .range::<Path, _>((Bound::Unbounded, Bound::Included(path)))
        .next_back()
        .is_some_and(|directory| path.starts_with(directory))
}

/// Atomically moves a directory with its contents. Returns false if it must be created instead.
fn move_directory(from: &PathHandle, to: &PathHandle) -> Result<bool> {
    match from.rename_to_free(to) {
        Err(error) if error.error.kind() == std::io::ErrorKind::CrossesDevices => Ok(false),
        other => other,
    }
}

/// Atomically moves a file, or copies it to a path on another file system.
fn move_file(from: &PathHandle, to: &PathHandle) -> std::result::Result<(), TreeError> {
    match from.rename_to(to) {
        Err(error) if error.error.kind() == std::io::ErrorKind::CrossesDevices => {
            Ok(replace_by_copy(from, &to.temporary(TEMPORARY), to)?)
        }
        other => Ok(other?),
    }
}

impl TreeChange {
    /// Returns a manifest of the old and the new version.
    pub(super) fn union(&mut self) -> Manifest {
        let mut union = self.manifest.take().unwrap_or_default();
        let plan = &self.plan;
        let is_wanted = |path: &PathBuf| self.staged.as_ref().is_some_and(|staged| staged.entries.contains_key(path));
        union.unfinished = true;
        union.dropped.retain(|path| !plan.foreign.contains(path) && !plan.adopted.contains_key(path));
        union.leaving = union.entries.keys().filter(|path| !is_wanted(path)).cloned().collect();
        let orphaned =
            plan.orphaned.iter().flat_map(|(path, (_, states))| states.iter().map(move |state| (path, state)));
        let adopted = plan.adopted.iter().filter_map(|(path, (_, current))| Some((path, current.as_ref()?)));
        for (path, state) in orphaned.chain(adopted).chain(&plan.entries) {
            let states = union.entries.entry(path.clone()).or_default();
            if !states.contains(state) {
                states.push(state.clone());
            }
        }
        for path in plan.orphaned.keys().chain(plan.adopted.keys()) {
            union.entries.entry(path.clone()).or_default();
        }
        union
    }

    /// Returns the changes that remove the paths taken over from the manifests of orphans, so that the orphans do not
    /// remove them.
    pub(super) fn take_from_orphans(&self) -> Result<Vec<RecordChange>> {
        let mut changes = Vec::new();
        let location = &self.location;
        let here = location.full(Path::new(""));
        let ids: BTreeSet<&String> = self.plan.orphaned.values().flat_map(|(ids, _)| ids).collect();
        for id in ids {
            for tree in self.owners.trees_of(id) {
                let theirs = location.store.manifest(id, tree);
                let Some(mut manifest) = theirs.load()? else { continue };
                let listed = manifest.entries.len();
                manifest.entries.retain(|path, _| {
                    let full = tree.join(path);
                    let path = full.strip_prefix(&here);
                    !path.is_ok_and(|path| self.plan.orphaned.get(path).is_some_and(|(ids, _)| ids.contains(id)))
                });
                if manifest.entries.len() < listed {
                    changes.push(theirs.saved(&manifest)?);
                }
            }
        }
        Ok(changes)
    }
}

//! What the entities of a set know about the records of others. To read all records for each of them would take quadratic
//! time.

use super::TreeStore;
use crate::canonical::CanonicalPaths;
use crate::claims::{self, Layers};
use crate::error::Result;
use crate::tracked::{Held, HeldPath};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The knowledge that the entities of a set share. Between sets, other plugins change records.
#[derive(Debug, Default)]
pub struct SharedTrees {
    /// The paths that entities of other plugins hold; `None` until they are read, and after some were taken over.
    held: Mutex<Option<Arc<Held>>>,
    /// The entities of our plugin that hold paths, if it has published them.
    holders: OnceLock<Option<BTreeSet<String>>>,
    /// The files that other entities lay something over, or edit.
    layers: OnceLock<Layers>,
    /// The entities of our plugin by their paths, as soon as they are read.
    users: Mutex<Option<PathUsers>>,
}

/// Entities by the paths that their records contain, or have contained: the records tell which of them are still used.
#[derive(Debug, Default)]
struct PathUsers {
    by_path: BTreeMap<PathBuf, BTreeSet<String>>,
    by_id: HashMap<String, BTreeSet<PathBuf>>,
}

impl PathUsers {
    fn add(&mut self, id: &str, paths: impl IntoIterator<Item = PathBuf>) {
        let own = self.by_id.entry(id.to_owned()).or_default();
        for path in paths {
            if own.insert(path.clone()) {
                self.by_path.entry(path).or_default().insert(id.to_owned());
            }
        }
    }

    fn remove(&mut self, id: &str) {
        for path in self.by_id.remove(id).unwrap_or_default() {
            if let Some(users) = self.by_path.get_mut(&path) {
                users.remove(id);
                if users.is_empty() {
                    self.by_path.remove(&path);
                }
            }
        }
    }

    fn at(&self, path: &Path) -> impl Iterator<Item = &String> {
        self.by_path.get(path).into_iter().flatten()
    }

    /// Returns the users of a path and of the directories above it.
    fn above<'p>(&'p self, path: &'p Path) -> impl Iterator<Item = &'p String> {
        path.ancestors().flat_map(|above| self.at(above))
    }

    /// Returns the users of a path and of those below it.
    fn below<'p>(&'p self, path: &'p Path) -> impl Iterator<Item = &'p String> {
        let below = self.by_path.range(path.to_owned()..).take_while(move |(below, _)| below.starts_with(path));
        below.flat_map(|(_, users)| users)
    }
}

impl TreeStore {
    /// Returns the users of paths in our plugin, which are read first if necessary.
    fn users(&self) -> Result<MutexGuard<'_, Option<PathUsers>>> {
        let mut users = self.shared.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.is_none() {
            let mut read = PathUsers::default();
            self.plugin.recorded_paths()?.into_iter().for_each(|(id, paths)| read.add(&id, paths));
            *users = Some(read);
        }
        Ok(users)
    }

    fn of_users<T: Default>(&self, read: impl FnOnce(&PathUsers) -> T) -> Result<T> {
        Ok(self.users()?.as_ref().map(read).unwrap_or_default())
    }

    /// Returns the entities of our plugin that have, or have had, a path above or below an area, or the area itself.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn users_near(&self, area: &Path) -> Result<BTreeSet<String>> {
        self.of_users(|users| users.above(area).chain(users.below(area)).cloned().collect())
    }

    /// Returns true if one of the entities with a path in a directory is a user of it.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn is_used_below(&self, directory: &Path, is_user: impl Fn(&str) -> Result<bool>) -> Result<bool> {
        let users = self.users()?;
        let mut below = users.iter().flat_map(|users| users.below(directory));
        below.try_fold(false, |found, id| Ok(found || is_user(id)?))
    }

    /// Returns the paths that an entity has, or has had.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn paths_of(&self, id: &str) -> Result<BTreeSet<PathBuf>> {
        self.of_users(|users| users.by_id.get(id).cloned().unwrap_or_default())
    }

    /// Notes the paths of an entity whose record was written.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn note_paths(&self, id: &str, paths: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        if let Some(users) = &mut *self.users()? {
            users.add(id, paths);
        }
        Ok(())
    }

    /// Forgets the paths of an entity whose record was removed.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn forget_paths(&self, id: &str) -> Result<()> {
        if let Some(users) = &mut *self.users()? {
            users.remove(id);
        }
        Ok(())
    }

    /// Returns the edit of a file, if there is one.
    pub(super) fn edit_of(&self, path: &Path) -> Option<&str> {
        self.shared.layers.get_or_init(|| claims::layers(&self.locations)).get(path)?.as_deref()
    }

    fn other_held(&self) -> MutexGuard<'_, Option<Arc<Held>>> {
        self.shared.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the paths that entities of other plugins hold.
    pub(super) fn held(&self) -> Result<Arc<Held>> {
        let mut known = self.other_held();
        if let Some(held) = &*known {
            return Ok(Arc::clone(held));
        }
        let held = Held::of_others(&self.locations, &self.plugin, &CanonicalPaths::new(&self.root))?;
        Ok(Arc::clone(known.insert(held.into())))
    }

    /// Drops the paths that entities of other plugins hold, after some were taken over.
    pub(super) fn forget_held(&self) {
        *self.other_held() = None;
    }

    /// Returns a holder of a path from which an entity can take over, next to its trees or in one.
    pub(super) fn holder(&self, path: &Path, id: &str, is_beside: bool) -> Result<Option<HeldPath>> {
        let plugin = &self.plugin.plugin;
        let mut own: BTreeSet<String> = if is_beside {
            self.of_users(|users| users.above(path).cloned().collect())?
        } else {
            // Trees of our plugin are only handed over as a whole.
            self.of_users(|users| users.at(path).filter(|user| *user != id).cloned().collect())?
        };
        if !own.is_empty() {
            let holders = self.shared.holders.get_or_init(|| claims::holders(&self.locations, plugin));
            own.retain(|id| holders.as_ref().is_none_or(|holders| holders.contains(id)));
            let held = Held::of(&self.plugin, Some(&own), &CanonicalPaths::new(&self.root))?;
            if let Some(held) = held.find_for_tree(path, plugin, id, is_beside) {
                return Ok(Some(held));
            }
        }
        Ok(self.held()?.find_for_tree(path, plugin, id, is_beside))
    }
}

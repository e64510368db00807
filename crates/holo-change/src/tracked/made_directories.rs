//! The parent directories that all plugins have created for paths. Each plugin has its own list, but the lists are
//! equivalent: a directory is removed with the last file in it, whichever plugin removes that.

use super::directories::OwnDirectories;
use super::stores::PluginStore;
use crate::error::Result;
use crate::manifest::{Manifest, ManifestEntry};
use crate::path_handle::{Durability, Kind, PathHandle};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The lists of all plugins.
#[derive(Debug)]
pub struct MadeDirectories {
    store: PluginStore,
    own: OwnDirectories,
    others: Vec<(PluginStore, OwnDirectories)>,
}

impl MadeDirectories {
    /// Reads the lists of a plugin, and of the other plugins.
    pub(crate) fn read(store: &PluginStore) -> Result<MadeDirectories> {
        let mut others = Vec::new();
        for other in store.others() {
            let list = other.directories()?;
            others.push((other, list));
        }
        Ok(MadeDirectories { store: store.clone(), own: store.directories()?, others })
    }

    /// Returns true if a plugin has created the directory as a parent.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        self.own.contains(path) || self.others.iter().any(|(_, list)| list.contains(path))
    }

    /// Returns all directories on the lists.
    pub fn iter(&self) -> impl Iterator<Item = PathBuf> {
        self.own.iter().chain(self.others.iter().flat_map(|(_, list)| list.iter()))
    }

    /// Adds directories to the plugin's own list, like [`OwnDirectories::add`].
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn add(&mut self, paths: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        self.own.add(paths)
    }

    /// Removes a directory that an entity owns now from all lists.
    ///
    /// # Errors
    /// If a list cannot be written, or its plugin does not release its lock.
    pub fn take(&mut self, path: &Path) -> Result<()> {
        self.own.take(path)?;
        self.change_others(|list| list.contains(path), |list| list.take(path))
    }

    /// Removes directories from the plugin's own list, like [`OwnDirectories::keep_only`].
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn keep_only(&mut self, is_kept: impl Fn(&Path) -> bool) -> Result<()> {
        self.own.keep_only(is_kept)
    }

    /// Removes the empty ones of these directories, deepest first, also from the lists. If `among` is `None`, those on
    /// the plugin's own list. Directories in the manifest of an entity are kept.
    ///
    /// # Errors
    /// If a directory cannot be examined, or a list cannot be written.
    pub fn remove_empty(
        &mut self,
        place: impl Fn(&Path) -> PathHandle,
        among: Option<&BTreeSet<PathBuf>>,
    ) -> Result<()> {
        let candidates: BTreeSet<PathBuf> = match among {
            Some(among) => among.iter().filter(|path| self.contains(path)).cloned().collect(),
            None => self.own.iter().collect(),
        };
        let listed = self.listed(&candidates)?;
        let mut gone = BTreeSet::new();
        for path in candidates.iter().rev().filter(|path| !listed.contains(*path)) {
            // If a parent was replaced by a symlink, the path leads elsewhere.
            let mut above = path.ancestors().filter(|above| self.contains(above));
            let is_ours = above.all(|path| {
                let stat = place(path).stat();
                stat.is_ok_and(|stat| stat.is_none_or(|stat| stat.kind == Kind::Directory))
            });
            if !is_ours || place(path).remove_directory()? {
                gone.insert(path.clone());
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        // A directory that is not on any list would remain forever if its removal were lost.
        let removed: Vec<PathHandle> = gone.iter().map(|path| place(path)).collect();
        Durability::of(removed.len()).sync([], &removed)?;
        self.own.keep_only(|path| !gone.contains(path))?;
        self.change_others(
            |list| gone.iter().any(|path| list.contains(path)),
            |list| list.keep_only(|path| !gone.contains(path)),
        )
    }

    /// Changes the lists of other plugins that match, while their state is locked.
    fn change_others(
        &mut self,
        concerns: impl Fn(&OwnDirectories) -> bool,
        change: impl Fn(&mut OwnDirectories) -> Result<()>,
    ) -> Result<()> {
        for (store, list) in self.others.iter_mut().filter(|(_, list)| concerns(list)) {
            let _held = store.hold()?;
            *list = store.directories()?;
            change(list)?;
            store.tidy()?;
        }
        Ok(())
    }

    /// Returns those of these directories that are in manifests of entities. Unreadable manifests are ignored.
    fn listed(&self, among: &BTreeSet<PathBuf>) -> Result<BTreeSet<PathBuf>> {
        let mut listed = BTreeSet::new();
        if among.is_empty() {
            return Ok(listed);
        }
        let stores = self.others.iter().map(|(store, _)| store).chain([&self.store]);
        for store in stores.filter(|store| store.has_trees()) {
            for (id, tree) in store.trees()? {
                let in_tree = |path: &&PathBuf| path.starts_with(&tree);
                if !among.iter().any(|path| in_tree(&path)) {
                    continue;
                }
                let manifest = Manifest::load(&store.manifest(&id, &tree)).ok().flatten().unwrap_or_default();
                let is_listed = |path: &&PathBuf| {
                    let below = path.strip_prefix(&tree).unwrap_or(Path::new(""));
                    let states = manifest.entries.get(below).ok().flatten();
                    states.is_some_and(|states| states.iter().any(ManifestEntry::is_directory))
                };
                listed.extend(among.iter().filter(in_tree).filter(is_listed).cloned());
            }
        }
        Ok(listed)
    }
}

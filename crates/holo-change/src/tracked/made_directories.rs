//! The parent directories that plugins have created for paths. A directory is removed with the last file in it, whichever
//! plugin removes that.

use super::stores::PluginStore;
use crate::base_store::readable;
use crate::error::{PathError, Result};
use crate::manifest::ManifestEntry;
use crate::path_handle::{Durability, Kind, PathHandle};
use crate::paths::path_bytes;
use bstr::{BString, ByteSlice};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The directories that all plugins have created.
#[derive(Debug)]
pub struct MadeDirectories {
    store: PluginStore,
    /// Each with whether our plugin has created it.
    paths: BTreeMap<BString, bool>,
}

impl MadeDirectories {
    pub(crate) fn read(store: &PluginStore) -> Result<MadeDirectories> {
        let mut paths = BTreeMap::new();
        for (path, plugin) in readable(store.database().lock().directories())? {
            *paths.entry(path.into()).or_default() |= plugin == store.plugin;
        }
        Ok(MadeDirectories { store: store.clone(), paths })
    }

    /// Returns true if a plugin has created the directory as a parent.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        self.paths.contains_key(&path_bytes(path))
    }

    /// Returns the directories above and below a path, and the path itself if it is one.
    pub fn near(&self, path: &Path) -> impl Iterator<Item = PathBuf> {
        let above = path.ancestors().filter(|above| self.contains(above)).map(Path::to_owned);
        let prefix = [path_bytes(path).as_slice(), b"/"].concat();
        let below = self.paths.range(BString::from(prefix.clone())..);
        let below = below.map(|(below, _)| below).take_while(move |below| below.starts_with(&prefix));
        above.chain(below.map(|below| below.to_path_lossy().into_owned()))
    }

    /// Returns all directories, each after its parents.
    pub fn iter(&self) -> impl Iterator<Item = PathBuf> {
        self.paths.keys().map(|path| path.to_path_lossy().into_owned())
    }

    /// Adds directories that our plugin is about to create. When this returns, they are on disk.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn add(&mut self, paths: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        let new: BTreeSet<BString> = paths.into_iter().map(|path| path_bytes(&path)).collect();
        let new: Vec<BString> = new.into_iter().filter(|path| self.paths.get(path) != Some(&true)).collect();
        let added =
            self.store.database().lock().add_directories(&self.store.plugin, new.iter().map(|path| path.as_slice()));
        added.map_err(PathError::of_state)?;
        self.paths.extend(new.into_iter().map(|path| (path, true)));
        Ok(())
    }

    /// Removes a directory that an entity owns now.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn take(&mut self, path: &Path) -> Result<()> {
        self.forget([path.to_owned()])
    }

    fn forget(&mut self, paths: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        let listed = |path: &BString| self.paths.contains_key(path);
        let gone: BTreeSet<BString> = paths.into_iter().map(|path| path_bytes(&path)).filter(listed).collect();
        let removed = self.store.database().lock().remove_directories(gone.iter().map(|path| path.as_slice()));
        removed.map_err(PathError::of_state)?;
        self.paths.retain(|path, _| !gone.contains(path));
        Ok(())
    }

    /// Removes the empty ones of these directories, deepest first. If `among` is `None`, those that our plugin has created.
    /// Directories in the manifest of an entity are kept.
    ///
    /// # Errors
    /// If a directory cannot be examined, or the database cannot be written.
    pub fn remove_empty(
        &mut self,
        place: impl Fn(&Path) -> PathHandle,
        among: Option<&BTreeSet<PathBuf>>,
    ) -> Result<()> {
        let candidates: BTreeSet<PathBuf> = match among {
            Some(among) => among.iter().filter(|path| self.contains(path)).cloned().collect(),
            None => self.own().collect(),
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
        // A directory that is not listed would remain forever if its removal were lost.
        let removed: Vec<PathHandle> = gone.iter().map(|path| place(path)).collect();
        Durability::of(removed.len()).sync([], &removed)?;
        self.forget(gone)
    }

    /// Returns the directories that our plugin has created.
    fn own(&self) -> impl Iterator<Item = PathBuf> {
        self.paths.iter().filter(|(_, is_own)| **is_own).map(|(path, _)| path.to_path_lossy().into_owned())
    }

    /// Returns those of these directories that are in manifests of entities. Unreadable manifests are ignored.
    fn listed(&self, among: &BTreeSet<PathBuf>) -> Result<BTreeSet<PathBuf>> {
        let mut listed = BTreeSet::new();
        if among.is_empty() {
            return Ok(listed);
        }
        let stores = self.store.others().into_iter().chain([self.store.clone()]);
        for store in stores.filter(PluginStore::has_trees) {
            for (id, tree) in store.trees()? {
                let in_tree = |path: &&PathBuf| path.starts_with(&tree);
                if !among.iter().any(|path| in_tree(&path)) {
                    continue;
                }
                let manifest = store.manifest(&id, &tree).load().ok().flatten().unwrap_or_default();
                let is_listed = |path: &&PathBuf| {
                    let below = path.strip_prefix(&tree).unwrap_or(Path::new(""));
                    let states = manifest.entries.get(below);
                    states.is_some_and(|states| states.iter().any(ManifestEntry::is_directory))
                };
                listed.extend(among.iter().filter(in_tree).filter(is_listed).cloned());
            }
        }
        Ok(listed)
    }
}

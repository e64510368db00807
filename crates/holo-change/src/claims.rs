//! The claims of a run's entities, for plugins that have to know, during apply, what those of others are about.
//!
//! A plugin writes its claims when it has found its entities, into its cache directory; by the time that anything is applied, all have.

use crate::error::Result;
use crate::locations::Locations;
use crate::path_handle::{OnDisk, Tree};
use crate::paths::path_bytes;
use bstr::ByteSlice;
use holo_protocol::Text;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CLAIMS: &str = "claims.json";
const HOLDERS: &str = "holders.json";

/// A living entity's claim to a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The entity.
    pub id: String,
    /// Its path, without symlinks in the parents.
    path: Text,
    /// True if it may make anything below that.
    pub is_tree: bool,
    /// True if others may make something below that.
    pub is_directory: bool,
    /// True if it decides about the access to everything below that others do not.
    pub is_recursive: bool,
    /// The files that define it, as the user knows them.
    sources: Vec<Text>,
}

impl Claim {
    /// Creates the claim of an entity.
    #[must_use]
    pub fn new(id: &str, path: &Path, sources: &[PathBuf]) -> Claim {
        let sources = sources.iter().map(|source| Text(path_bytes(source))).collect();
        let (is_tree, is_directory, is_recursive) = Default::default();
        Claim { id: id.to_owned(), path: Text(path_bytes(path)), is_tree, is_directory, is_recursive, sources }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.path.0.to_path_lossy().into_owned()
    }

    /// Returns true if a path is this one, or may be made by the entity.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        let own = self.path();
        own == path || (self.is_tree && path.starts_with(own))
    }

    /// The entity with the files that define it: `file:/etc/x (/usr/share/holo/files/a.toml)`.
    #[must_use]
    pub fn shown(&self) -> String {
        let sources: Vec<String> = self.sources.iter().map(|source| source.0.to_string()).collect();
        if sources.is_empty() { self.id.clone() } else { format!("{} ({})", self.id, sources.join(", ")) }
    }
}

/// Writes down the claims of this plugin's entities, and which of the remembered ones hold something that is not theirs any more.
///
/// # Errors
/// If that cannot be written.
pub fn publish(locations: &Locations, claims: &[Claim], holders: &[String]) -> Result<()> {
    let cache = Tree::open(locations.cache_dir())?;
    write(&cache, CLAIMS, &claims)?;
    // Those that make trees, too, so that the claims of many need not be read to find few.
    let trees = claims.iter().filter(|claim| claim.is_tree).map(|claim| &claim.id);
    write(&cache, HOLDERS, &holders.iter().chain(trees).collect::<BTreeSet<_>>())
}

/// Writes down the claims of those of this plugin's entities alone that a run can be about, and of all that these can contradict. It is not
/// known which of the others hold something, so that who looks for that has to read all records.
///
/// # Errors
/// If that cannot be written.
pub fn publish_some(locations: &Locations, claims: &[Claim]) -> Result<()> {
    let cache = Tree::open(locations.cache_dir())?;
    cache.place(Path::new(HOLDERS)).remove()?;
    write(&cache, CLAIMS, &claims)
}

fn write(cache: &Arc<Tree>, name: &str, what: &impl Serialize) -> Result<()> {
    let place = cache.place(Path::new(name));
    match serde_json::to_vec(what) {
        Ok(text) => place.replace(&text, 0o600, OnDisk::Nothing),
        Err(_) => place.remove(),
    }
}

/// Claims of many entities, found by path and by entity.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// The claims to single paths.
    by_path: BTreeMap<PathBuf, Claim>,
    by_id: HashMap<String, Vec<Claim>>,
}

impl Claims {
    /// Reads the claims of all plugins that have made theirs known.
    #[must_use]
    pub fn read(locations: &Locations) -> Claims {
        all(locations).into_iter().collect()
    }

    /// Returns the claim of an entity to a path.
    #[must_use]
    pub fn of(&self, id: &str, path: &Path) -> Option<&Claim> {
        self.by_id.get(id)?.iter().find(|claim| claim.covers(path))
    }

    /// Returns the claim that keeps others from making something at a path: one to the path itself or, unless that is a directory, to one
    /// above it. What an entity makes in a tree is known only when it has been made.
    #[must_use]
    pub fn conflict(&self, path: &Path, is_directory: bool) -> Option<&Claim> {
        let itself = self.by_path.get(path).filter(|claim| !(claim.is_directory && is_directory));
        itself.or_else(|| self.above(path))
    }

    /// Returns the claim to a path above this one, if that is not to be a directory.
    #[must_use]
    pub fn above(&self, path: &Path) -> Option<&Claim> {
        path.ancestors().skip(1).filter_map(|above| self.by_path.get(above)).find(|claim| !claim.is_directory)
    }

    /// Returns the single paths that are claimed.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.by_path.keys().map(PathBuf::as_path)
    }
}

impl FromIterator<Claim> for Claims {
    fn from_iter<I: IntoIterator<Item = Claim>>(all: I) -> Claims {
        let mut claims = Claims::default();
        for claim in all {
            claims.by_id.entry(claim.id.clone()).or_default().push(claim.clone());
            if !claim.is_tree {
                claims.by_path.entry(claim.path()).or_insert(claim);
            }
        }
        claims
    }
}

/// The claims of all plugins that have made theirs known.
#[must_use]
pub fn all(locations: &Locations) -> Vec<Claim> {
    let Some(folder) = locations.cache_dir().parent() else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    folders.iter().filter_map(|folder| read::<Vec<Claim>>(&folder.join(CLAIMS))).flatten().collect()
}

/// The entities of a plugin that something can be taken over from, or whose paths are known by their records alone: what an entity makes in
/// a tree, it may have made since the plugin has listed its entities. None if the plugin has not said so.
pub(crate) fn holders(locations: &Locations, plugin: &str) -> Option<BTreeSet<String>> {
    let folder = locations.cache_dir().parent()?.join(plugin);
    read(&folder.join(HOLDERS))
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_known_without_the_claims_of_all() {
        let root = tempfile::tempdir().unwrap();
        let dir = |name: &str| root.path().join(name);
        std::fs::create_dir_all(dir("cache/files")).unwrap();
        let locations = Locations::new(dir("root"), dir("state/files"), dir("cache/files"));
        assert_eq!(holders(&locations, "files"), None);
        let mut tree = Claim::new("archive:/srv/a", Path::new("/srv/a"), &[]);
        tree.is_tree = true;
        publish(&locations, &[tree, Claim::new("file:/etc/x", Path::new("/etc/x"), &[])], &["file:/y".to_owned()])
            .unwrap();
        assert_eq!(all(&locations).len(), 2);
        // A set of entities asks for them, so that reading all claims each time would take more than linear time.
        std::fs::remove_file(dir("cache/files/claims.json")).unwrap();
        let expected = ["archive:/srv/a", "file:/y"].map(str::to_owned).into();
        assert_eq!(holders(&locations, "files"), Some(expected));
    }
}

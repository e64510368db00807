//! The claims of a run's entities to paths, for plugins that must know the paths of other plugins' entities during
//! apply, and other facts about entities that other plugins must know then.
//!
//! A plugin writes its claims to its cache directory when it has scanned its entities. By the time of the first apply,
//! all plugins have done so. What entities give up is only found by their checks, which add it then.

use crate::error::{PathError, Result};
use crate::locations::Locations;
use crate::path_handle::{OnDisk, Tree};
use crate::paths::path_bytes;
use bstr::{BString, ByteSlice};
use holo_protocol::Text;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const CLAIMS: &str = "claims.json";
/// The file with the claims that determine permissions below a directory; missing if there are none.
const RECURSIVE: &str = "recursive.json";
const HOLDERS: &str = "holders.json";
const LAYERS: &str = "layers.json";
const LEAVING: &str = "leaving.json";
const STOPPED: &str = "stopped.json";
const GIVEN_UP: &str = "given-up.json";

/// The claim of a defined entity to a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The ID of the entity.
    pub id: String,
    /// The path, with canonical parents.
    path: Text,
    /// True if the entity may create any file below the path.
    pub is_tree: bool,
    /// True if other entities may create files below the path.
    pub is_directory: bool,
    /// The permissions that the entity determines for all files below the path that are not claimed by others.
    pub recursive: Option<Recursive>,
    /// The files that define the entity, as displayed to the user.
    sources: Vec<Text>,
}

/// The permissions of everything below a directory, as far as they are declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recursive {
    /// True if an owner is declared. It is that of the directory.
    pub has_owner: bool,
    /// True if a group is declared. It is that of the directory.
    pub has_group: bool,
    /// The mode of directories.
    pub mode: Option<u32>,
    /// The mode of new files.
    pub file_mode: Option<u32>,
}

impl Claim {
    /// Creates the claim of an entity.
    #[must_use]
    pub fn new(id: &str, path: &Path, sources: &[PathBuf]) -> Claim {
        let sources = sources.iter().map(|source| Text(path_bytes(source))).collect();
        let (is_tree, is_directory, recursive) = Default::default();
        Claim { id: id.to_owned(), path: Text(path_bytes(path)), is_tree, is_directory, recursive, sources }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.path.0.to_path_lossy().into_owned()
    }

    /// Returns true if the path is claimed, or may be created by the entity.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        let own = self.path();
        own == path || (self.is_tree && path.starts_with(own))
    }

    /// Returns the entity with the files that define it: `file:/etc/x (/usr/share/holo/files/a.toml)`.
    #[must_use]
    pub fn shown(&self) -> String {
        let sources: Vec<String> = self.sources.iter().map(|source| source.0.to_string()).collect();
        if sources.is_empty() { self.id.clone() } else { format!("{} ({})", self.id, sources.join(", ")) }
    }
}

/// Writes the claims of this plugin's entities, and the IDs of recorded entities that hold paths which are no longer
/// theirs.
///
/// # Errors
/// If the files cannot be written.
pub fn publish(locations: &Locations, claims: &[Claim], holders: &[String]) -> Result<()> {
    let cache = Tree::open(locations.cache_dir())?;
    write_claims(&cache, claims)?;
    // Includes the entities that create trees, so that few entities can be found without reading the claims of many.
    let trees = claims.iter().filter(|claim| claim.is_tree).map(|claim| &claim.id);
    write(&cache, HOLDERS, &holders.iter().chain(trees).collect::<BTreeSet<_>>())
}

/// Adds the claims of the entities that a limited scan concerns, and of all that may conflict with them, to those of
/// earlier scans of the run. The list of holders is removed, because it would be incomplete: readers must read all records
/// instead.
///
/// # Errors
/// If the files cannot be written.
pub fn publish_some(locations: &Locations, mut claims: Vec<Claim>) -> Result<()> {
    let cache = Tree::open(locations.cache_dir())?;
    cache.place(Path::new(HOLDERS)).remove()?;
    let mut earlier: Vec<Claim> = read(&locations.cache_dir().join(CLAIMS)).unwrap_or_default();
    let ids: BTreeSet<&str> = claims.iter().map(|claim| &*claim.id).collect();
    earlier.retain(|claim| !ids.contains(&*claim.id));
    claims.extend(earlier);
    write_claims(&cache, &claims)
}

fn write_claims(cache: &Arc<Tree>, claims: &[Claim]) -> Result<()> {
    write(cache, CLAIMS, &claims)?;
    // A watch scans and checks again and again.
    cache.place(Path::new(GIVEN_UP)).remove()?;
    // In a file of their own, because each set asks for them, and there may be many claims.
    let recursive: Vec<&Claim> = claims.iter().filter(|claim| claim.recursive.is_some()).collect();
    match recursive.is_empty() {
        true => cache.place(Path::new(RECURSIVE)).remove(),
        false => write(cache, RECURSIVE, &recursive),
    }
}

/// The files of others that have overlays or edits; for a file with edits, the ID of one of them.
pub type Layers = BTreeMap<PathBuf, Option<String>>;

/// Writes the layers of this plugin's entities to its cache directory. If `adds`, those already written are kept.
///
/// # Errors
/// If they cannot be written.
pub fn publish_layers(locations: &Locations, mut layers: Layers, adds: bool) -> Result<()> {
    let file = locations.cache_dir().join(LAYERS);
    if adds {
        layers.extend(layers_in(locations.cache_dir()));
    }
    if layers.is_empty() && !file.exists() {
        return Ok(());
    }
    if layers.is_empty() {
        return Tree::open(locations.cache_dir())?.place(Path::new(LAYERS)).remove();
    }
    let layers: Vec<(Text, Option<String>)> =
        layers.into_iter().map(|(path, edit)| (Text(path_bytes(&path)), edit)).collect();
    let written = serde_json::to_vec(&layers).map_err(io::Error::from).and_then(|text| std::fs::write(&file, text));
    written.map_err(|error| PathError::new("write", file, error))
}

/// Returns the layers of the entities of all plugins.
#[must_use]
pub fn layers(locations: &Locations) -> Layers {
    cache_folders(locations).iter().flat_map(|folder| layers_in(folder)).collect()
}

/// The paths whose overlays are about to be removed, each with the path of the file that it gets then: the base of the
/// overlay if `None`.
pub type Leaving = BTreeMap<PathBuf, Option<PathBuf>>;

/// Writes the paths whose overlays are about to be removed to the plugin's cache directory, and those of files that go with their
/// last edit. If `adds`, those already written are kept.
///
/// # Errors
/// If they cannot be written.
pub fn publish_leaving(
    locations: &Locations,
    mut leaving: Leaving,
    mut gone: BTreeSet<PathBuf>,
    adds: bool,
) -> Result<()> {
    if adds {
        let (earlier, also_gone) = leaving_in(locations.cache_dir());
        leaving.extend(earlier);
        gone.extend(also_gone);
    }
    let place = Tree::open(locations.cache_dir())?.place(Path::new(LEAVING));
    if leaving.is_empty() && gone.is_empty() {
        return place.remove();
    }
    let text = |path: &PathBuf| Text(path_bytes(path));
    let leaving: Vec<(Text, Option<Text>)> =
        leaving.iter().map(|(path, file)| (text(path), file.as_ref().map(text))).collect();
    let written: WrittenLeaving = (leaving, gone.iter().map(text).collect());
    place.replace(&serde_json::to_vec(&written).unwrap_or_default(), 0o600, OnDisk::Nothing)
}

type WrittenLeaving = (Vec<(Text, Option<Text>)>, Vec<Text>);

fn leaving_in(cache: &Path) -> (Leaving, BTreeSet<PathBuf>) {
    let (leaving, gone) = read::<WrittenLeaving>(&cache.join(LEAVING)).unwrap_or_default();
    let path = |text: Text| text.0.to_path_lossy().into_owned();
    let leaving = leaving.into_iter().map(|(overlaid, file)| (path(overlaid), file.map(path)));
    (leaving.collect(), gone.into_iter().map(path).collect())
}

/// The paths that entities give up, by ID.
pub type GivenUp = BTreeMap<String, BTreeSet<BString>>;

/// Adds the paths that entities no longer make to those in the plugin's cache directory. Only checks do so: an apply restores the originals
/// before other entities that claim the paths now are applied, and before an orphan from which they are taken over.
///
/// # Errors
/// If they cannot be written.
pub fn publish_given_up<'i>(
    locations: &Locations,
    given_up: impl IntoIterator<Item = (&'i str, Vec<PathBuf>)>,
) -> Result<()> {
    static ADDING: Mutex<()> = Mutex::new(());
    let text = |path: &PathBuf| Text(path_bytes(path));
    let given_up = given_up.into_iter().filter(|(_, paths)| !paths.is_empty());
    let mut new = given_up.map(|(id, paths)| (id.to_owned(), paths.iter().map(text).collect())).peekable();
    if new.peek().is_none() {
        return Ok(());
    }
    let _adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = locations.cache_dir();
    let mut all = read::<Vec<(String, Vec<Text>)>>(&cache.join(GIVEN_UP)).unwrap_or_default();
    all.extend(new);
    write(&Tree::open(cache)?, GIVEN_UP, &all)
}

/// Returns what checks have found until now.
pub(crate) fn given_up(locations: &Locations) -> GivenUp {
    let mut all = GivenUp::new();
    let published = cache_folders(locations)
        .into_iter()
        .filter_map(|folder| read::<Vec<(String, Vec<Text>)>>(&folder.join(GIVEN_UP)));
    for (id, paths) in published.flatten() {
        all.entry(id).or_default().extend(paths.into_iter().map(|path| path.0));
    }
    all
}

/// Writes the names of systemd's units that must not run to the plugin's cache directory, so that no package starts them when it is
/// installed.
///
/// # Errors
/// If they cannot be written.
pub fn publish_stopped(locations: &Locations, units: &BTreeSet<&str>) -> Result<()> {
    if units.is_empty() && !locations.cache_dir().join(STOPPED).exists() {
        return Ok(());
    }
    write(&Tree::open(locations.cache_dir())?, STOPPED, units)
}

/// Returns the units that must not run.
#[must_use]
pub fn stopped(locations: &Locations) -> BTreeSet<String> {
    let folders = cache_folders(locations);
    folders.iter().filter_map(|folder| read::<BTreeSet<String>>(&folder.join(STOPPED))).flatten().collect()
}

/// The overlays that the files plugin adds and removes before other plugins are applied, and the files that go with their last edit.
#[derive(Debug)]
pub(crate) struct OverlayChanges {
    pub(crate) coming: BTreeSet<PathBuf>,
    pub(crate) leaving: Leaving,
    pub(crate) gone: BTreeSet<PathBuf>,
}

impl OverlayChanges {
    /// Reads what plugins have published.
    pub(crate) fn read(locations: &Locations) -> OverlayChanges {
        let coming = layers(locations).into_iter().filter(|(_, edit)| edit.is_none()).map(|(path, _)| path);
        let mut changes = OverlayChanges { coming: coming.collect(), leaving: Leaving::new(), gone: BTreeSet::new() };
        for (leaving, gone) in cache_folders(locations).iter().map(|folder| leaving_in(folder)) {
            changes.leaving.extend(leaving);
            changes.gone.extend(gone);
        }
        changes
    }
}

fn layers_in(cache: &Path) -> impl Iterator<Item = (PathBuf, Option<String>)> + use<> {
    let layers: Vec<(Text, Option<String>)> = read(&cache.join(LAYERS)).unwrap_or_default();
    layers.into_iter().map(|(path, edit)| (path.0.to_path_lossy().into_owned(), edit))
}

fn write(cache: &Arc<Tree>, name: &str, what: &impl Serialize) -> Result<()> {
    let place = cache.place(Path::new(name));
    match serde_json::to_vec(what) {
        Ok(text) => place.replace(&text, 0o600, OnDisk::Nothing),
        Err(_) => place.remove(),
    }
}

/// The claims of several entities, indexed by path and by ID.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// The claims to single paths.
    by_path: BTreeMap<PathBuf, Claim>,
    by_id: HashMap<String, Vec<Claim>>,
}

impl Claims {
    /// Reads the claims of all plugins that have written them.
    #[must_use]
    pub fn read(locations: &Locations) -> Claims {
        all(locations).into_iter().collect()
    }

    /// Returns true if an entity claims anything.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// Returns the claim of an entity to a path.
    #[must_use]
    pub fn of(&self, id: &str, path: &Path) -> Option<&Claim> {
        self.by_id.get(id)?.iter().find(|claim| claim.covers(path))
    }

    /// Returns the claim that prevents other entities from creating a file at a path: a claim to the path itself or,
    /// unless that is a directory, to a path above it. Files in trees are not considered, because they are only known
    /// after they were created.
    #[must_use]
    pub fn conflict(&self, path: &Path, is_directory: bool) -> Option<&Claim> {
        let itself = self.by_path.get(path).filter(|claim| !(claim.is_directory && is_directory));
        itself.or_else(|| self.above(path))
    }

    /// Returns the claim to a path above this one, unless that path is a directory.
    #[must_use]
    pub fn above(&self, path: &Path) -> Option<&Claim> {
        path.ancestors().skip(1).filter_map(|above| self.by_path.get(above)).find(|claim| !claim.is_directory)
    }

    /// Returns true if an entity other than this one claims the path itself. If this one is no longer defined, the other takes the path
    /// over.
    #[must_use]
    pub fn is_taken_from(&self, id: &str, path: &Path) -> bool {
        self.by_path.get(path).is_some_and(|claim| claim.id != id)
    }

    /// Returns the claims to a path, and to trees around it.
    pub fn to<'c>(&'c self, path: &'c Path) -> impl Iterator<Item = &'c Claim> {
        self.by_path.get(path).into_iter().chain(self.trees().filter(move |tree| tree.covers(path)))
    }

    /// Returns the claims to a path and everything below it.
    pub fn below<'c>(&'c self, path: &'c Path) -> impl Iterator<Item = &'c Claim> {
        let single = self.by_path.range(path.to_owned()..).take_while(move |(claimed, _)| claimed.starts_with(path));
        single.map(|(_, claim)| claim).chain(self.trees().filter(move |tree| tree.path().starts_with(path)))
    }

    fn trees(&self) -> impl Iterator<Item = &Claim> {
        self.by_id.values().flatten().filter(|claim| claim.is_tree)
    }

    /// Returns the claimed single paths.
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

/// Returns the claims of all plugins that have written them.
#[must_use]
pub fn all(locations: &Locations) -> Vec<Claim> {
    let folders = cache_folders(locations);
    folders.iter().filter_map(|folder| read::<Vec<Claim>>(&folder.join(CLAIMS))).flatten().collect()
}

/// Returns the directories below which an entity determines permissions. It comes after orphans below, and before what is
/// laid on files there.
#[must_use]
pub fn recursive(locations: &Locations) -> HashMap<PathBuf, Recursive> {
    let folders = cache_folders(locations);
    let read = folders.iter().filter_map(|folder| read::<Vec<Claim>>(&folder.join(RECURSIVE)));
    read.flatten().filter_map(|claim| Some((claim.path(), claim.recursive?))).collect()
}

/// Returns the cache directories of all plugins.
fn cache_folders(locations: &Locations) -> Vec<PathBuf> {
    let entries = locations.cache_dir().parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let mut folders: Vec<PathBuf> = entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    folders.sort();
    folders
}

/// Returns the entities of a plugin that have paths to be taken over, or whose paths are only known from their records:
/// an entity may create files in a tree after the scan. `None` if the plugin has not written the list.
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
        // Each set of entities needs the holders. Reading all claims each time would take quadratic time.
        std::fs::remove_file(dir("cache/files/claims.json")).unwrap();
        let expected = ["archive:/srv/a", "file:/y"].map(str::to_owned).into();
        assert_eq!(holders(&locations, "files"), Some(expected));
    }
}

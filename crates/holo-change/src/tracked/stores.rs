//! The plugins' records of paths, in the state database, and the files that belong to them, in state directories.

use super::contents::{Contents, Digest};
use super::state::Unmanaged;
use super::tracks::Tracks;
use super::{CONTENTS, UNTIDY};
use crate::base_store::{BaseStore, RecordChange, Remembered};
use crate::bases::Bases;
use crate::canonical::CanonicalPaths;
use crate::claims::{Leaving, OverlayChanges};
use crate::error::{PathError, Result};
use crate::image_store::BASE;
use crate::locations::{Locations, SharedDatabase};
use crate::manifest::ManifestRecord;
use crate::path_handle::{PathHandle, Tree};
use crate::paths::without_root;
use bstr::ByteSlice;
use holo_protocol::{Text, Witness};
use rustix::io::Errno;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The plugin that manages overlays, whose bases have the layout of version 3.
const OVERLAYS: &str = "files";
/// The directory in its state directory for declared files, and the kind of their records.
const DECLARED_FOLDER: &str = ".declared";
const DECLARED_KIND: &str = "declared";
/// The kind of the records of trees.
const MANIFESTS: &str = "trees";
/// The maximum time to wait for another plugin to release its state directory.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// The overlays: files of the files plugin on paths that other plugins provide.
#[derive(Clone, Debug)]
pub struct Overlays {
    pub(super) state: Option<Arc<Tree>>,
    /// For a check, the changes of the same run, and the root of the paths.
    pub(super) changes: Option<(Arc<OverlayChanges>, Arc<Tree>)>,
}

impl Overlays {
    /// Returns the overlays of the files plugin, from its state directory.
    #[must_use]
    pub fn of(locations: &Locations) -> Overlays {
        let state = locations.state_dir().parent().map(|all| all.join(OVERLAYS));
        // Without bases, there are no overlays.
        let state = state.filter(|state| state.join(BASE).is_dir());
        Overlays { state: state.and_then(|state| Tree::open(&state).ok()), changes: None }
    }

    /// Opens the overlays again, for another thread.
    pub(super) fn reopen(&self) -> Result<Overlays> {
        let state = self.state.as_ref().map(|tree| tree.reopen()).transpose()?;
        let reopen = |(changes, root): &(Arc<OverlayChanges>, Arc<Tree>)| Ok((Arc::clone(changes), root.reopen()?));
        Ok(Overlays { state, changes: self.changes.as_ref().map(reopen).transpose()? })
    }

    /// Returns the overlays as they will be when some have been removed.
    pub(super) fn without(self, leaving: Leaving, root: Arc<Tree>) -> Overlays {
        let changes = OverlayChanges { coming: BTreeSet::new(), leaving, gone: BTreeSet::new() };
        Overlays { changes: Some((Arc::new(changes), root)), ..self }
    }

    /// Returns the base of the overlay on a path, which is the file that other plugins provide. In a check, it is the file that
    /// the path gets when the overlay is removed.
    #[must_use]
    pub fn base(&self, path: &Path) -> Option<PathHandle> {
        if let Some((changes, root)) = &self.changes
            && let Some(Some(file)) = changes.leaving.get(path)
        {
            return Some(root.place(file));
        }
        let base = self.state.as_ref()?.place(&Path::new(BASE).join(without_root(path)));
        base.is_file_or_symlink().is_ok_and(|is_there| is_there).then_some(base)
    }

    /// Returns true if the run removes a file together with its last edit.
    pub(super) fn goes_with_edits(&self, path: &Path) -> bool {
        self.changes.as_ref().is_some_and(|(changes, _)| changes.gone.contains(path))
    }

    /// Returns the paths below a directory from which the run removes overlays.
    pub(super) fn leaving_below(&self, directory: &Path) -> Vec<PathBuf> {
        let leaving = self.changes.iter().flat_map(|(changes, _)| changes.leaving.keys());
        leaving.filter(|path| path.starts_with(directory)).cloned().collect()
    }

    /// Returns the witnesses of which of these paths have overlays.
    #[must_use]
    pub fn witnesses<'p>(locations: &Locations, paths: impl IntoIterator<Item = &'p Path>) -> Vec<Witness> {
        let state = locations.state_dir().parent().unwrap_or(Path::new("/")).join(OVERLAYS);
        if !state.join(BASE).is_dir() {
            return vec![Witness::absent(&state.join(BASE))];
        }
        let bases = paths.into_iter().map(|path| state.join(BASE).join(without_root(path)));
        let witness = |base: PathBuf| {
            if base.is_symlink() || base.exists() { Witness::file(&base) } else { Witness::absent(&base) }
        };
        bases.map(witness).collect()
    }

    /// Returns true if there is an overlay on a path.
    #[must_use]
    pub fn lie_over(&self, path: &Path) -> bool {
        match &self.changes {
            Some((changes, _)) if changes.leaving.contains_key(path) => false,
            Some((changes, _)) if changes.coming.contains(path) => true,
            _ => self.base(path).is_some(),
        }
    }
}

/// The files that contain edits. No base may be taken of such a file: it would contain lines of the edits.
#[derive(Clone, Debug)]
pub struct EditedFiles(Option<(BaseStore, CanonicalPaths)>);

impl EditedFiles {
    /// The kind of the records of `files`, one per file.
    pub const KIND: &str = "edits";

    /// Opens the records of the plugin `files`.
    #[must_use]
    pub fn of(locations: &Locations) -> EditedFiles {
        let root = Tree::open(locations.root()).ok();
        let records = BaseStore::of(locations, OVERLAYS, EditedFiles::KIND);
        EditedFiles(root.map(|root| (records, CanonicalPaths::new(&root))))
    }

    /// Returns the ID of the record of a file, given its path without symlinks.
    #[must_use]
    pub fn record_id(path: &Path) -> String {
        path.display().to_string()
    }

    /// Returns true if the file at a path contains edits.
    ///
    /// # Errors
    /// If the path or the record cannot be examined.
    pub fn contain(&self, path: &Path) -> Result<bool> {
        let Some((records, canonical)) = &self.0 else { return Ok(false) };
        Ok(records.text(&EditedFiles::record_id(&canonical.of(path)?))?.is_some())
    }

    /// Returns an error if the file at a path contains edits.
    ///
    /// # Errors
    /// The error names one of the edits.
    pub fn reject(&self, path: &Path) -> std::result::Result<(), Unmanaged> {
        let Some((records, canonical)) = self.0.as_ref().filter(|_| self.contain(path).unwrap_or(true)) else {
            return Ok(());
        };
        let record = records.recall::<Value>(&EditedFiles::record_id(&canonical.of(path)?))?;
        let edit = record.and_then(|record| Some(record.base.pointer("/now/edits/0/id")?.as_str()?.to_owned()));
        Err(Unmanaged::Edited { path: path.to_owned(), edit: edit.unwrap_or_else(|| "an edit".to_owned()) })
    }
}

/// The records of paths of a plugin, and its state directory.
#[derive(Clone, Debug)]
pub(crate) struct PluginStore {
    /// The plugin, by the name of its state directory.
    pub(crate) plugin: String,
    pub(super) bases: BaseStore,
    manifests: BaseStore,
    pub(super) tree: Arc<Tree>,
    /// The directory in the state directory.
    folder: &'static Path,
    locations: Arc<Locations>,
}

impl PluginStore {
    pub(crate) fn own(locations: &Locations) -> Result<PluginStore> {
        PluginStore::open(&Arc::new(locations.clone()), &locations.plugin())
    }

    /// Returns the store of the plugin that manages overlays.
    pub(super) fn of_overlays(locations: &Locations) -> Result<PluginStore> {
        PluginStore::open(&Arc::new(locations.clone()), OVERLAYS)
    }

    fn open(locations: &Arc<Locations>, plugin: &str) -> Result<PluginStore> {
        let all = locations.state_dir().parent().unwrap_or(Path::new(""));
        // Version 3 has the rest of the state directory of `files`.
        let folder = if plugin == OVERLAYS { DECLARED_FOLDER } else { "" };
        Ok(PluginStore {
            plugin: plugin.to_owned(),
            bases: PluginStore::records_of_plugin(locations, plugin),
            manifests: BaseStore::of(locations, plugin, MANIFESTS),
            tree: Tree::open(&all.join(plugin))?,
            folder: Path::new(folder),
            locations: Arc::clone(locations),
        })
    }

    pub(super) fn records_of_plugin(locations: &Locations, plugin: &str) -> BaseStore {
        BaseStore::of(locations, plugin, if plugin == OVERLAYS { DECLARED_KIND } else { "" })
    }

    /// Opens the store again, for another thread.
    pub(super) fn reopen(&self) -> Result<PluginStore> {
        Ok(PluginStore { tree: self.tree.reopen()?, ..self.clone() })
    }

    /// Returns the stores of the other plugins.
    pub(crate) fn others(&self) -> Vec<PluginStore> {
        let all = self.locations.state_dir().parent();
        let Some(Ok(entries)) = all.map(std::fs::read_dir) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names.retain(|name| *name != self.plugin && !name.starts_with('.'));
        names.iter().filter_map(|name| self.store(name)).collect()
    }

    /// Returns the store of a plugin, if it exists.
    pub(crate) fn store(&self, plugin: &str) -> Option<PluginStore> {
        if plugin == self.plugin {
            return Some(self.clone());
        }
        let is_name = !plugin.is_empty() && !plugin.contains('/') && plugin != "..";
        if is_name { PluginStore::open(&self.locations, plugin).ok() } else { None }
    }

    /// Returns a path in the directory of the store.
    pub(super) fn place(&self, name: &str) -> PathHandle {
        self.tree.place(&self.folder.join(name))
    }

    pub(crate) fn contents(&self) -> Contents {
        Contents::new(self.locations.database(), &self.plugin, &self.tree, self.folder.join(CONTENTS))
    }

    /// Returns the state database.
    pub(super) fn database(&self) -> &SharedDatabase {
        self.locations.database()
    }

    /// Returns true if entities of the plugin may have trees.
    pub(crate) fn has_trees(&self) -> bool {
        self.manifests.ids().is_ok_and(|ids| !ids.is_empty())
    }

    /// Returns the trees of all entities.
    pub(crate) fn trees(&self) -> Result<Vec<(String, PathBuf)>> {
        let mut trees = Vec::new();
        for (id, record) in self.records_of(None)? {
            if let PathRecord::Trees(record) = record {
                trees.extend(record.trees.into_iter().map(|tree| (id.clone(), tree)));
            }
        }
        Ok(trees)
    }

    /// Returns the paths in the records of entities with trees.
    pub(crate) fn recorded_paths(&self) -> Result<Vec<(String, Vec<PathBuf>)>> {
        let paths = |(id, record)| match record {
            PathRecord::Trees(TreeRecord { mut trees, path, .. }) => {
                trees.extend(path);
                Some((id, trees))
            }
            PathRecord::Tracks { .. } => None,
        };
        Ok(self.records_of(None)?.into_iter().filter_map(paths).collect())
    }

    /// Returns the record of the manifest of an entity's tree.
    pub(crate) fn manifest(&self, id: &str, tree: &Path) -> ManifestRecord {
        ManifestRecord::new(&self.manifests, id, tree)
    }

    /// Creates an empty marker file.
    pub(super) fn mark(&self, name: &str) -> Result<()> {
        let mark = self.place(name);
        if !mark.exists()? {
            mark.create_folder()?;
            mark.create()?;
        }
        Ok(())
    }

    /// Returns the records of paths of these entities, or of all. Invalid ones are omitted.
    pub(super) fn records_of(&self, ids: Option<&BTreeSet<String>>) -> Result<Vec<(String, PathRecord)>> {
        let mut records = Vec::new();
        let Some(ids) = ids else {
            self.bases.each_text(|text| records.extend(PathRecord::parse(text)))?;
            return Ok(records);
        };
        for id in ids {
            records.extend(self.bases.text(id)?.and_then(|text| PathRecord::parse(&text)));
        }
        Ok(records)
    }

    /// Returns all records with tracks.
    pub(super) fn records(&self) -> Result<Vec<(String, Tracks)>> {
        let tracks = |(id, record)| match record {
            PathRecord::Tracks { text, .. } => Some((id, tracks_of(&text)?)),
            PathRecord::Trees(_) => None,
        };
        Ok(self.records_of(None)?.into_iter().filter_map(tracks).collect())
    }

    /// Returns the bases of manifest entries.
    pub(crate) fn tree_bases(&self) -> Bases {
        Bases::new(&self.tree)
    }

    /// Adds the changes that remove paths from the record of an entity. If the new owner has the same bases, those of
    /// trees are kept.
    pub(super) fn release(
        &self,
        id: &str,
        paths: &[PathBuf],
        keeps_bases: bool,
        changes: &mut Vec<RecordChange>,
    ) -> Result<()> {
        // The group may change the previous owner, too.
        let RecordChange { store, key, .. } = self.bases.forgotten(id);
        let changed = changes.iter().find(|change| change.store == store && change.key == key);
        let remembered = match changed.and_then(|change| change.value.as_deref()) {
            Some(text) => serde_json::from_str(text).ok(),
            None => self.bases.recall::<Value>(id)?,
        };
        let Some(mut remembered) = remembered else { return Ok(()) };
        let Some(mut tracks) = into_tracks(remembered.base.clone()) else {
            return self.release_from_trees(remembered, paths, keeps_bases, changes);
        };
        paths.iter().for_each(|path| tracks.forget(path));
        if tracks.is_empty() {
            changes.push(self.bases.forgotten(id));
        } else {
            set_tracks(&mut remembered.base, &tracks);
            changes.push(self.bases.kept(id, &remembered)?);
        }
        Ok(())
    }

    /// Like [`release`](Self::release), for an entity with trees. The next run of the plugin removes the bases. Because
    /// recipes are cleared, an entity that is still defined compares its trees again.
    fn release_from_trees(
        &self,
        mut remembered: Remembered<Value>,
        paths: &[PathBuf],
        keeps_bases: bool,
        changes: &mut Vec<RecordChange>,
    ) -> Result<()> {
        let Some(record) = trees_of(&remembered.base) else { return Ok(()) };
        let mut beside: BTreeSet<&Path> = paths.iter().map(PathBuf::as_path).collect();
        for tree in &record.trees {
            let location = self.manifest(&remembered.id, tree);
            let Some(mut manifest) = location.load()? else { continue };
            let below = paths.iter().filter_map(|path| Some((path, path.strip_prefix(tree).ok()?)));
            let released: Vec<&Path> = below
                .filter(|(_, below)| manifest.release(below, keeps_bases))
                .map(|(path, _)| path.as_path())
                .collect();
            if !released.is_empty() {
                changes.push(location.saved(&manifest)?);
            }
            beside.retain(|path| !released.contains(path));
        }
        if let Some(path) = record.path.as_deref().filter(|path| beside.contains(path))
            && let Value::Object(base) = &mut remembered.base
        {
            if !keeps_bases {
                self.tree_bases().remove(path)?;
            }
            FILE_KEYS.iter().for_each(|key| drop(base.remove(*key)));
            changes.push(self.bases.kept(&remembered.id, &remembered)?);
        }
        Ok(())
    }

    /// Completes the work of a killed run for the other plugins: removes data that is no longer needed after paths were
    /// removed from their records.
    pub(crate) fn tidy_others(&self) -> Result<()> {
        self.others().iter().try_for_each(PluginStore::tidy_after_kill)
    }

    fn tidy_after_kill(&self) -> Result<()> {
        if self.place(UNTIDY).exists()? {
            let _held = self.hold()?;
            return self.tidy();
        }
        // The run may have been killed in between.
        self.remove_empty_folders();
        Ok(())
    }

    /// Creates the marker that requests tidying up.
    pub(crate) fn mark_untidy(&self) -> Result<()> {
        self.mark(UNTIDY)
    }

    /// Removes data that is no longer needed, for a plugin that may not run again.
    pub(crate) fn tidy(&self) -> Result<()> {
        let records = self.records()?;
        if records.is_empty() {
            self.contents().keep_only(&BTreeSet::new())?;
            self.place(UNTIDY).remove()?;
            self.remove_empty_folders();
            return Ok(());
        }
        self.mark(UNTIDY)
    }

    /// Removes the directories of the records if they are empty. A run that was killed after the removal of the last
    /// record may have left them.
    pub(super) fn remove_empty_folders(&self) {
        self.place(UNTIDY).remove_empty_folders(Path::new(""));
    }

    /// Locks the state directory of the plugin, and waits if it is in use. The timeout resolves deadlocks between two
    /// plugins.
    pub(crate) fn hold(&self) -> Result<OwnedFd> {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(held) = self.tree.try_hold()? {
                return Ok(held);
            }
            if waited >= PATIENCE {
                let shown = self.tree.place(Path::new("")).shown();
                return Err(PathError::new("lock", shown, Errno::AGAIN));
            }
            thread::sleep(PAUSE);
            waited += PAUSE;
        }
    }
}

/// Completes the work of a killed run for plugins that have no entities any more. They cannot do it themselves, because
/// they are not asked for anything. The run may have been killed before it stored the first record of an entity.
///
/// # Errors
/// If the records cannot be read, or data cannot be removed.
pub fn tidy_idle<'p>(locations: &Locations, plugins: impl IntoIterator<Item = &'p str>) -> Result<()> {
    let locations = Arc::new(locations.clone());
    let mut stores = plugins.into_iter().filter_map(|plugin| PluginStore::open(&locations, plugin).ok());
    stores.try_for_each(|store| store.tidy_after_kill())
}

/// The keys in a record for the contents of a file next to trees.
const FILE_KEYS: [&str; 2] = ["incoming", "download"];

/// The record of an entity that consists of paths, as far as other entities read it.
pub(super) enum PathRecord {
    /// The tracked paths, and the record with their tracks.
    Tracks { paths: BTreeSet<PathBuf>, text: Arc<str> },
    /// The trees with manifests.
    Trees(TreeRecord),
}

impl PathRecord {
    /// Parses a record, without its tracks. Returns the ID of the entity and the record; `None` if it is invalid or
    /// about something else.
    fn parse(text: &str) -> Option<(String, PathRecord)> {
        #[derive(Deserialize)]
        struct Record {
            id: String,
            base: Paths,
        }
        let Record { id, base } = serde_json::from_str(text).ok()?;
        let tracked = |tracks: Vec<TrackedPath>| PathRecord::Tracks {
            paths: tracks.into_iter().map(|track| track.path.0.to_path_lossy().into_owned()).collect(),
            text: text.into(),
        };
        let record = match base {
            Paths::Tracks(tracks) | Paths::Fields(Fields { tracks: Some(tracks), .. }) => tracked(tracks),
            Paths::Fields(fields) => PathRecord::Trees(fields.into_trees()?),
        };
        Some((id, record))
    }
}

/// The paths in a record.
enum Paths {
    Tracks(Vec<TrackedPath>),
    Fields(Fields),
}

#[derive(Deserialize)]
struct TrackedPath {
    path: Text,
}

#[derive(Deserialize)]
struct Fields {
    tracks: Option<Vec<TrackedPath>>,
    trees: Option<Vec<PathBuf>>,
    path: Option<PathBuf>,
    incoming: Option<FileRecord>,
    download: Option<FileRecord>,
}

impl Fields {
    /// Returns the record of an entity with trees; `None` if it has tracks, or no paths.
    fn into_trees(self) -> Option<TreeRecord> {
        let Fields { tracks, trees, path, incoming, download } = self;
        let has_trees = tracks.is_none() && (trees.is_some() || path.is_some());
        has_trees.then(|| TreeRecord { trees: trees.unwrap_or_default(), path, incoming, download })
    }
}

impl<'de> Deserialize<'de> for Paths {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Paths, D::Error> {
        struct ListOrFields;

        impl<'de> Visitor<'de> for ListOrFields {
            type Value = Paths;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("tracks or fields")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> std::result::Result<Paths, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(list)).map(Paths::Tracks)
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> std::result::Result<Paths, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(fields)).map(Paths::Fields)
            }
        }
        from.deserialize_any(ListOrFields)
    }
}

/// Returns the tracks in the text of a record; `None` if it is invalid.
pub(super) fn tracks_of(text: &str) -> Option<Tracks> {
    into_tracks(serde_json::from_str::<Remembered<Value>>(text).ok()?.base)
}

/// The part of the record of an entity with trees that other entities read.
pub(super) struct TreeRecord {
    pub(super) trees: Vec<PathBuf>,
    path: Option<PathBuf>,
    incoming: Option<FileRecord>,
    download: Option<FileRecord>,
}

#[derive(Deserialize)]
struct FileRecord {
    sha256: Digest,
}

impl TreeRecord {
    /// Returns the file next to the trees, with the possible digests of its content.
    pub(super) fn file(self) -> Option<(PathBuf, Vec<Digest>)> {
        let digests: Vec<Digest> =
            [self.incoming, self.download].into_iter().flatten().map(|file| file.sha256).collect();
        self.path.filter(|_| !digests.is_empty()).map(|path| (path, digests))
    }
}

fn trees_of(base: &Value) -> Option<TreeRecord> {
    match Paths::deserialize(base).ok()? {
        Paths::Fields(fields) => fields.into_trees(),
        Paths::Tracks(_) => None,
    }
}

/// Extracts the tracks, which are either the complete record, or its field `tracks`.
fn into_tracks(mut base: Value) -> Option<Tracks> {
    let entries = if base.is_array() { base } else { base.get_mut("tracks")?.take() };
    serde_json::from_value(entries).ok()
}

fn set_tracks(base: &mut Value, tracks: &Tracks) {
    let Ok(entries) = serde_json::to_value(tracks) else { return };
    if base.is_array() {
        *base = entries;
    } else if let Some(old) = base.get_mut("tracks") {
        *old = entries;
    }
}

//! The paths of entities that are no longer defined, or have other paths now. Other entities may take them over.
//!
//! One transaction writes the record of the new owner, with its intents, and removes the path from the record of the old
//! one. The new owner's plugin has a share in the contents by then.

#[cfg(test)]
mod tests;

use super::Tracker;
use super::contents::Digest;
use super::state::{Attributes, State, Unmanaged, our_gid, our_uid};
use super::stores::{self, Overlays, PathRecord, PluginStore, TreeRecord};
use super::tracks::{HasTracks, Origin, Track, Tracks};
use crate::base_store::{RecordChange, Remembered};
use crate::canonical::CanonicalPaths;
use crate::claims::{self, Claim, Claims, OverlayChanges};
use crate::error::Result;
use crate::locations::Locations;
use crate::manifest::{EntryKind, Manifest, ManifestEntry, ManifestRecord};
use crate::path_handle::{ExtendedAttributes, PathHandle, Tree};
use crate::paths::{path_bytes, without_root};
use bstr::BStr;
use holo_protocol::Text;
use holo_state::Durability;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The paths that entities hold, read on first use.
#[derive(Clone, Debug, Default)]
pub struct HeldPaths {
    read: Arc<OnceLock<Result<Held>>>,
    /// The only entity of our plugin that uses them, if any. Its own paths need not be read.
    asking: Option<Arc<str>>,
}

impl HeldPaths {
    /// Creates the held paths for a single entity of our plugin, whose own paths are excluded.
    #[must_use]
    pub fn of_others_than(id: &str) -> HeldPaths {
        HeldPaths { asking: Some(id.into()), ..HeldPaths::default() }
    }

    pub(super) fn get(&self, locations: &Locations, own: &PluginStore, canonical: &CanonicalPaths) -> Result<&Held> {
        let read = self.read.get_or_init(|| Held::read(locations, own, canonical, self.asking.as_deref()));
        read.as_ref().map_err(Clone::clone)
    }
}

/// Returns true if a defined entity of another plugin makes the file at a canonical path, as far as its records show.
///
/// # Errors
/// If records cannot be read.
pub fn is_made_by_others(path: &Path, locations: &Locations) -> Result<bool> {
    Ok(Makers::besides(&PluginStore::own(locations)?, locations)?.make(path))
}

/// The defined entities of all plugins but one, as far as their records show what they make.
struct Makers {
    held: Held,
    claims: Claims,
    /// The plugin that is left out.
    besides: String,
}

impl Makers {
    fn besides(store: &PluginStore, locations: &Locations) -> Result<Makers> {
        let held = Held::of_others(locations, store, &CanonicalPaths::new(&Tree::open(locations.root())?))?;
        Ok(Makers { held, claims: Claims::read(locations), besides: store.plugin.clone() })
    }

    /// Returns true if one of them makes the file at a canonical path.
    fn make(&self, path: &Path) -> bool {
        let maker = self.held.find_of_others(path, &self.besides);
        maker.is_some_and(|maker| maker.claim(path, &self.claims).is_some())
    }
}

impl Overlays {
    /// Returns the overlays as they will be when an entity is applied or scrubbed: new ones are laid on what is applied.
    pub(crate) fn foreseen(self, locations: &Locations, is_scrubbed: bool) -> Overlays {
        let mut changes = OverlayChanges::read(locations);
        let is_there = |path: &Path| locations.root().join(without_root(path)).symlink_metadata().is_ok();
        let mut replaced =
            changes.leaving.iter_mut().filter(|(path, file)| file.is_some() && is_there(path)).peekable();
        if replaced.peek().is_some()
            && let Ok(makers) = PluginStore::of_overlays(locations).and_then(|files| Makers::besides(&files, locations))
        {
            // Other plugins had not claimed their paths yet when this was published.
            replaced.filter(|(path, _)| makers.make(path)).for_each(|(_, file)| *file = None);
        }
        if !is_scrubbed {
            changes.coming.clear();
        } else if !changes.coming.is_empty() {
            let later = claims::recursive(locations);
            changes.coming.retain(|path| !path.ancestors().any(|above| later.contains_key(above)));
        }
        let changes = |root| (Arc::new(changes), root);
        Overlays { changes: Tree::open(locations.root()).ok().map(changes), ..self }
    }
}

/// The paths that entities hold.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The paths that are not in trees, by canonical path.
    paths: BTreeMap<PathBuf, Vec<Recorded>>,
    /// The trees, by the path of their directory.
    trees: BTreeMap<PathBuf, Vec<HeldTree>>,
}

/// A directory in which an entity has created files.
#[derive(Debug)]
struct HeldTree {
    plugin: String,
    id: String,
    path: PathBuf,
    record: ManifestRecord,
    /// Read on first use: few of many trees contain a path.
    manifest: OnceLock<Manifest>,
}

/// A path in a record. Few of many records are needed, so their tracks are parsed on demand.
#[derive(Debug)]
enum Recorded {
    Track { origin: Origin, record: Arc<str> },
    Held(HeldPath),
}

/// A path that an entity holds.
#[derive(Clone, Debug)]
pub(crate) struct HeldPath {
    pub(crate) origin: Origin,
    holding: Holding,
}

/// The record of a held path.
#[derive(Clone, Debug)]
enum Holding {
    /// A track.
    Tracked(Box<Track>),
    /// A manifest entry of a tree, with its possible states.
    Listed(Vec<ManifestEntry>),
    /// A file next to trees, with the possible digests of its content.
    Beside(Vec<Digest>),
}

impl Held {
    /// Reads the held paths of the entities of all plugins: of those that a plugin has published, or else of all. The
    /// entity `except` of our plugin is excluded.
    pub(crate) fn read(
        locations: &Locations,
        own: &PluginStore,
        canonical: &CanonicalPaths,
        except: Option<&str>,
    ) -> Result<Held> {
        let mut ids = claims::holders(locations, &own.plugin);
        if let (Some(ids), Some(except)) = (&mut ids, except) {
            ids.remove(except);
        }
        let mut held = Held::of(own, ids.as_ref(), canonical)?;
        held.add_others(locations, own, canonical)?;
        Ok(held)
    }

    /// Reads the held paths of these entities of a plugin, or of all.
    pub(crate) fn of(store: &PluginStore, ids: Option<&BTreeSet<String>>, canonical: &CanonicalPaths) -> Result<Held> {
        let mut held = Held::default();
        held.add_records(store, ids, canonical)?;
        Ok(held)
    }

    /// Reads the held paths of the entities of other plugins.
    pub(crate) fn of_others(locations: &Locations, own: &PluginStore, canonical: &CanonicalPaths) -> Result<Held> {
        let mut held = Held::default();
        held.add_others(locations, own, canonical)?;
        Ok(held)
    }

    fn add_others(&mut self, locations: &Locations, own: &PluginStore, canonical: &CanonicalPaths) -> Result<()> {
        own.others().iter().try_for_each(|store| {
            // A plugin that has scanned its entities in this run knows which of them hold paths.
            self.add_records(store, claims::holders(locations, &store.plugin).as_ref(), canonical)
        })
    }

    fn add_records(
        &mut self,
        store: &PluginStore,
        ids: Option<&BTreeSet<String>>,
        canonical: &CanonicalPaths,
    ) -> Result<()> {
        for (id, record) in store.records_of(ids)? {
            match record {
                PathRecord::Tracks { paths, text } => {
                    for (path, canonical) in canonical_of(&paths, canonical) {
                        let recorded =
                            Recorded::Track { origin: origin(&store.plugin, &id, path), record: Arc::clone(&text) };
                        self.paths.entry(canonical).or_default().push(recorded);
                    }
                }
                PathRecord::Trees(record) => self.add_trees(store, &id, record),
            }
        }
        Ok(())
    }

    fn add_trees(&mut self, store: &PluginStore, id: &str, record: TreeRecord) {
        for path in &record.trees {
            let record = store.manifest(id, path);
            let (plugin, manifest) = (store.plugin.clone(), OnceLock::new());
            let tree = HeldTree { plugin, id: id.to_owned(), path: path.clone(), record, manifest };
            self.trees.entry(path.clone()).or_default().push(tree);
        }
        if let Some((path, digests)) = record.file() {
            let held = HeldPath { origin: origin(&store.plugin, id, &path), holding: Holding::Beside(digests) };
            self.paths.entry(path).or_default().push(Recorded::Held(held));
        }
    }

    /// Returns the holders of a path, outside of trees and in those that `is_meant` selects.
    fn at<'h>(
        &'h self,
        path: &'h Path,
        is_meant: impl Fn(&HeldTree) -> bool + 'h,
    ) -> impl Iterator<Item = HeldPath> + 'h {
        let trees = path.ancestors().filter_map(|above| self.trees.get(above)).flatten();
        let listed = trees.filter(move |tree| is_meant(tree)).filter_map(|tree| tree.at(path));
        self.paths.get(path).into_iter().flatten().filter_map(Recorded::holder).chain(listed)
    }

    /// Returns a holder of a path other than this entity.
    pub(crate) fn find(&self, path: &Path, plugin: &str, id: &str) -> Option<HeldPath> {
        let is_other = |other: &str, of: &str| other != plugin || of != id;
        self.at(path, |tree| is_other(&tree.plugin, &tree.id))
            .find(|held| is_other(&held.origin.plugin, &held.origin.id))
    }

    /// Returns a holder of a path from which an entity of a plugin with trees can take over. Entities of that plugin
    /// hand over whole trees, so only their files next to trees are taken over, unless the path itself is next to a
    /// tree.
    pub(crate) fn find_for_tree(&self, path: &Path, plugin: &str, id: &str, is_beside: bool) -> Option<HeldPath> {
        let can_be_taken = |held: &HeldPath| match held.holding {
            _ if held.origin.plugin != plugin => true,
            // The entity may have had the path in its own tree before.
            Holding::Listed(_) => is_beside,
            Holding::Tracked(_) | Holding::Beside(_) => held.origin.id != id,
        };
        self.at(path, |tree| is_beside || tree.plugin != plugin).find(can_be_taken)
    }

    /// Returns a holder of a path from another plugin.
    pub(crate) fn find_of_others(&self, path: &Path, plugin: &str) -> Option<HeldPath> {
        self.at(path, |tree| tree.plugin != plugin).find(|held| held.origin.plugin != plugin)
    }

    /// Returns the held paths in a directory that neither their holders nor others claim.
    pub(crate) fn free_below(&self, directory: &Path, claims: &Claims) -> Vec<PathBuf> {
        let below = self.paths.range(directory.to_owned()..).take_while(|(path, _)| path.starts_with(directory));
        let mut free: BTreeSet<PathBuf> = below.map(|(path, _)| path.clone()).collect();
        free.extend(self.trees.values().flatten().flat_map(|tree| tree.files_below(directory)));
        let is_free = |path: &Path| self.at(path, |_| true).all(|held| held.claim(path, claims).is_none());
        free.retain(|path| claims.conflict(path, false).is_none() && is_free(path));
        free.into_iter().collect()
    }
}

impl Recorded {
    /// Returns the holder; `None` if the record is invalid.
    fn holder(&self) -> Option<HeldPath> {
        match self {
            Recorded::Held(held) => Some(held.clone()),
            Recorded::Track { origin, record } => {
                let track = stores::tracks_of(record)?.0.remove(&origin.path.0)?;
                Some(HeldPath { origin: origin.clone(), holding: Holding::Tracked(track) })
            }
        }
    }
}

impl HeldTree {
    /// Returns the manifest. An unreadable one is empty.
    fn manifest(&self) -> &Manifest {
        self.manifest.get_or_init(|| self.record.load().ok().flatten().unwrap_or_default())
    }

    /// Returns the entry in the manifest, unless it is a directory.
    fn at(&self, path: &Path) -> Option<HeldPath> {
        let states = self.manifest().entries.get(path.strip_prefix(&self.path).ok()?)?;
        let is_file = !states.iter().any(ManifestEntry::is_directory);
        is_file.then(|| HeldPath {
            origin: origin(&self.plugin, &self.id, path),
            holding: Holding::Listed(states.clone()),
        })
    }

    fn files_below<'h>(&'h self, directory: &'h Path) -> impl Iterator<Item = PathBuf> + 'h {
        let is_near = self.path.starts_with(directory) || directory.starts_with(&self.path);
        let entries = is_near.then(|| &self.manifest().entries).into_iter().flatten();
        let files = entries.filter(|(_, states)| !states.iter().any(ManifestEntry::is_directory));
        files.map(|(path, _)| self.path.join(path)).filter(move |path| path.starts_with(directory))
    }
}

fn origin(plugin: &str, id: &str, path: &Path) -> Origin {
    Origin { plugin: plugin.to_owned(), id: id.to_owned(), path: Text(path_bytes(path)) }
}

impl HeldPath {
    /// Returns the claim of the holder to the path, if it still has one.
    pub(crate) fn claim<'c>(&self, path: &Path, claims: &'c Claims) -> Option<&'c Claim> {
        claims.of(&self.origin.id, path)
    }

    /// Returns the claim that prevents others from making the path. What the holder has removed from its tree may be made.
    pub(crate) fn conflict<'c>(&self, path: &Path, claims: &'c Claims) -> Option<&'c Claim> {
        let is_removed = matches!(&self.holding, Holding::Tracked(track) if track.provisioned == Some(State::Absent));
        self.claim(path, claims).filter(|claim| !is_removed || claim.path() == path)
    }

    /// Returns the path as a track. The base of a manifest entry is a separate file, and its current state determines
    /// which of its possible states it has.
    ///
    /// # Errors
    /// If the base cannot be read.
    pub(crate) fn track(&self, own: &PluginStore, current: Option<State>) -> Result<Track> {
        let last = match &self.holding {
            Holding::Tracked(track) => return Ok((**track).clone()),
            Holding::Listed(states) => states.last().and_then(to_state),
            Holding::Beside(digests) => digests.first().cloned().map(file_with),
        };
        let Some(store) = own.store(&self.origin.plugin) else { return Ok(Track::new(State::Absent)) };
        let base_file = store.tree_bases().location(&self.origin.path());
        let base = match State::of(&base_file) {
            Ok(base) => base,
            Err(Unmanaged::Path(error)) => return Err(error),
            Err(_) => State::Absent,
        };
        let provisioned = match current {
            Some(current) if self.may_be(&current) => Some(current),
            // A killed run may have restored it.
            Some(current) if current == base => None,
            _ => last,
        };
        let extended = match base.attributes() {
            Some(_) => ExtendedAttributes::of(&base_file)?,
            None => ExtendedAttributes::default(),
        };
        Ok(Track { provisioned, extended, ..Track::new(base) })
    }

    fn may_be(&self, state: &State) -> bool {
        match &self.holding {
            Holding::Tracked(_) => false,
            Holding::Listed(states) => states.iter().any(|entry| describes(entry, state)),
            Holding::Beside(digests) => state.content().is_some_and(|content| digests.contains(content)),
        }
    }
}

/// Returns tracked paths with their canonical paths. Paths below a tracked path belong to it, even if a symlink has
/// replaced it. Paths that cannot be examined are omitted.
pub(super) fn canonical_of<'p>(paths: &'p BTreeSet<PathBuf>, canonical: &CanonicalPaths) -> Vec<(&'p Path, PathBuf)> {
    let (mut all, mut last): (Vec<_>, Option<(&Path, PathBuf)>) = Default::default();
    for path in paths {
        // Most have the same tracked parent as the previous one.
        if last.as_ref().is_none_or(|(top, _)| !path.starts_with(top)) {
            let top = path.ancestors().filter(|above| paths.contains(*above)).last();
            last = top.and_then(|top| Some((top, canonical.of(top).ok()?)));
        }
        let Some((top, canonical)) = &last else { continue };
        let Ok(below) = path.strip_prefix(top) else { continue };
        let canonical = if below.as_os_str().is_empty() { canonical.clone() } else { canonical.join(below) };
        all.push((path.as_path(), canonical));
    }
    all
}

/// Returns true if the state matches the entry.
fn describes(entry: &ManifestEntry, state: &State) -> bool {
    let is_owner = |uid: u32, gid: u32| {
        entry.owner.uid.unwrap_or_else(our_uid) == uid && entry.owner.gid.is_none_or(|wanted| wanted == gid)
    };
    match (&entry.kind, state) {
        (EntryKind::File { mode, sha256, .. }, State::File { content, attributes }) => {
            content.as_str() == sha256 && *mode == attributes.mode && is_owner(attributes.uid, attributes.gid)
        }
        (EntryKind::Symlink { target }, State::Symlink { target: other, uid, gid }) => {
            target == other && is_owner(*uid, *gid)
        }
        _ => false,
    }
}

fn to_state(entry: &ManifestEntry) -> Option<State> {
    let (uid, gid) = (entry.owner.uid.unwrap_or_else(our_uid), entry.owner.gid.unwrap_or_else(our_gid));
    Some(match &entry.kind {
        EntryKind::Directory { mode } => State::Directory { attributes: Attributes { mode: *mode, uid, gid } },
        EntryKind::File { mode, sha256, .. } => State::File {
            content: Digest::try_from(sha256.clone()).ok()?,
            attributes: Attributes { mode: *mode, uid, gid },
        },
        EntryKind::Symlink { target } => State::Symlink { target: target.clone(), uid, gid },
    })
}

/// Returns the state of a file with this content and an unknown mode.
fn file_with(content: Digest) -> State {
    State::File { content, attributes: Attributes::of_new(0o600) }
}

impl Tracks {
    /// Removes and returns the previous owners of the paths that are being taken over.
    pub(super) fn take_origins(&mut self) -> Vec<Origin> {
        self.0.values_mut().filter_map(|track| track.taken_from.take()).collect()
    }
}

impl Tracker {
    /// Adds the tracks of other entities for these paths to those of an entity, in memory only: [`Tracker::make`]
    /// writes them. Returns the previous owners.
    ///
    /// # Errors
    /// If the records of the other entities cannot be read.
    pub fn adopt<T: HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
        paths: impl IntoIterator<Item = PathBuf>,
    ) -> Result<Vec<String>> {
        let id = remembered.id.clone();
        let tracks = remembered.base.tracks();
        let mut from = Vec::new();
        for path in paths {
            if tracks.get(&path).is_some() {
                continue;
            }
            let Some(held) = self.held()?.find(&path, &self.own.plugin, &id) else { continue };
            if !from.contains(&held.origin.id) {
                from.push(held.origin.id.clone());
            }
            let track = held.track(&self.own, self.state(&path).ok())?;
            let track = Track { taken_from: Some(held.origin.clone()), over: None, ..track };
            tracks.0.insert(path_bytes(&path), Box::new(track));
        }
        Ok(from)
    }

    /// Takes the current state of a path that is being taken over as the original one, if its content is not that of the previous
    /// owner. The caller must know that no person has changed it.
    ///
    /// # Errors
    /// If the path cannot be read, or its content cannot be stored.
    pub fn renew<T: HasTracks>(
        &self,
        remembered: &mut Remembered<T>,
        path: &Path,
    ) -> std::result::Result<(), Unmanaged> {
        let Some(track) = remembered.base.tracks().0.get_mut(&path_bytes(path)) else { return Ok(()) };
        let current = self.state(path)?;
        let is_of_owner = |made: &State| made.content() == current.content();
        if track.taken_from.is_none() || current.content().is_none() || track.provisioned.iter().any(is_of_owner) {
            return Ok(());
        }
        let place = self.place(path);
        self.keep(&place)?;
        let (taken_from, extended) = (track.taken_from.take(), ExtendedAttributes::of(&place)?);
        **track = Track { taken_from, extended, ..Track::new(current) };
        Ok(())
    }

    /// Returns the claim of another entity to a path that it holds. Such a path cannot be taken over.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn rival<'c>(&self, path: &Path, id: &str, claims: &'c Claims) -> Result<Option<&'c Claim>> {
        let Some(held) = self.held()?.find(path, &self.own.plugin, id) else { return Ok(None) };
        // A killed run has not made it yet, or has just removed it.
        let is_unmade = matches!(&held.holding, Holding::Tracked(track) if self.state(path).is_ok_and(|current| {
            let is_removed = current == State::Absent && track.intent.as_ref() == Some(&current);
            is_removed || (track.provisioned.is_none() && current == track.base)
        }));
        Ok(held.conflict(path, claims).filter(|_| !is_unmade && !self.is_given_up(&held)))
    }

    /// For a check: returns the state in which another entity leaves a path of its tree that it does not make any more.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn given_up(&self, path: &Path, id: &str) -> Result<Option<State>> {
        let held = self.held()?.find(path, &self.own.plugin, id).filter(|held| self.is_given_up(held));
        held.map(|held| Ok(held.track(&self.own, self.state(path).ok())?.base)).transpose()
    }

    /// For a check of an orphan: removes the tracks of paths that other entities take over before.
    pub fn forget_taken(&self, tracks: &mut Tracks, id: &str, claims: &Claims) {
        let paths: Vec<PathBuf> = tracks.iter().map(|(path, _)| path).collect();
        let is_taken = |path: &&PathBuf| claims.is_taken_from(id, path) || self.gives_up(id, path_bytes(path).as_ref());
        paths.iter().filter(is_taken).for_each(|path| tracks.forget(path));
    }

    fn is_given_up(&self, held: &HeldPath) -> bool {
        self.gives_up(&held.origin.id, held.origin.path.0.as_ref())
    }

    /// Returns true if a check has found that an entity gives up a path.
    fn gives_up(&self, id: &str, path: &BStr) -> bool {
        let given_up = self.given_up.get_or_init(|| claims::given_up(&self.locations));
        given_up.get(id).is_some_and(|paths| paths.contains(path))
    }

    /// Returns the copy of the original file of a path that another entity holds, which is no longer defined, gives it up, or has an overlay on.
    /// Originals in the state database are written to `copy`. There is no file if the path did not exist; `None` means that no such
    /// entity holds the path.
    ///
    /// # Errors
    /// If a record cannot be read, or the copy cannot be written.
    pub fn original(&self, path: &Path, id: &str, claims: &Claims, copy: &PathHandle) -> Result<Option<PathHandle>> {
        let held = self.held()?.find(path, &self.own.plugin, id);
        let Some(held) = held.filter(|held| held.claim(path, claims).is_none() || self.is_given_up(held)) else {
            return Ok(self.overlays.base(path));
        };
        let Some(store) = self.own.store(&held.origin.plugin) else { return Ok(None) };
        Ok(Some(match held.holding {
            Holding::Listed(_) | Holding::Beside(_) => store.tree_bases().location(&held.origin.path()),
            Holding::Tracked(track) => {
                if matches!(track.base, State::File { .. } | State::Symlink { .. }) {
                    track.write_base(copy, &store.contents())?;
                }
                copy.clone()
            }
        }))
    }

    /// Returns the paths below a directory whose entities are no longer defined, or have other paths now, and that no other
    /// entity claims.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn held_below(&self, directory: &Path, claims: &Claims) -> Result<Vec<PathBuf>> {
        Ok(self.held()?.free_below(directory, claims))
    }

    fn held(&self) -> Result<&Held> {
        self.held.get(&self.locations, &self.own, &self.canonical)
    }

    /// Stores the contents that are taken over from other plugins.
    pub(super) fn take_contents(&self, tracks: &Tracks) -> Result<()> {
        let pending = tracks.0.values().filter_map(|track| Some((track, track.taken_from.as_ref()?)));
        for (track, origin) in pending.filter(|(_, origin)| origin.plugin != self.own.plugin) {
            let Some(store) = self.own.store(&origin.plugin) else { continue };
            for (state, is_needed) in [(Some(&track.base), true), (track.provisioned.as_ref(), false)] {
                let Some(digest) = state.and_then(State::content) else { continue };
                // The provisioned content is only used for diffs.
                if !self.contents.share(digest, &store.contents())? && is_needed {
                    self.contents.keep(&store.tree_bases().location(&origin.path()))?;
                }
            }
        }
        Ok(())
    }
}

impl PluginStore {
    /// Makes changes of records, and removes paths from the records of their previous owners, in one transaction. When
    /// this returns, the changes are on disk.
    pub(crate) fn record_takeover<'o>(
        &self,
        mut changes: Vec<RecordChange>,
        origins: impl IntoIterator<Item = &'o Origin>,
    ) -> Result<()> {
        let mut plugins: BTreeMap<&str, BTreeMap<&str, Vec<PathBuf>>> = BTreeMap::new();
        for origin in origins {
            plugins.entry(&origin.plugin).or_default().entry(&origin.id).or_default().push(origin.path());
        }
        let mut others = Vec::new();
        for (plugin, paths_by_id) in plugins {
            let Some(store) = self.store(plugin) else { continue };
            let is_own = plugin == self.plugin;
            if !is_own {
                others.push((store.hold()?, store.clone()));
                store.mark_untidy()?;
            }
            for (id, paths) in paths_by_id {
                // Entities of one plugin have the same bases.
                store.release(id, &paths, is_own, &mut changes)?;
            }
        }
        self.bases.write(&changes, Durability::Disk)?;
        others.iter().try_for_each(|(_, store)| store.tidy())
    }
}

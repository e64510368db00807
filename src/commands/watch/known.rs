//! The entities that are watched, and their last known states.

use super::paths::{Extent, Heard, Subject, WatchedPaths};
use super::timers::Timers;
use crate::cli::Selection;
use crate::commands::check::Finding;
use crate::commands::repairs::definitions::{Beginnings, OWN_DIRECTORIES, OWN_FILES};
use crate::discovery::inventory::Inventory;
use crate::entities::Entity;
use crate::entities::node::{EntityIndex, PerEntity, PluginIndex};
use crate::error::FatalError;
use crate::host::root::Root;
use crate::plan::EdgeKind;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::{Controls, Limit};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

/// The entities that are watched.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) entities: PerEntity<KnownEntity>,
    /// The entities, sorted by ID.
    by_id: Vec<EntityIndex>,
    pub(super) beginnings: Beginnings,
}

/// An entity that is watched.
#[derive(Clone, Debug)]
pub(super) struct KnownEntity {
    pub(super) id: BString,
    pub(super) plugin: PluginIndex,
    /// The limits on when it may be worked on, if any.
    controls: Option<Rc<Controls>>,
    pub(super) state: Option<State>,
    /// Whether it is an action that every apply runs, so that it cannot drift.
    pub(super) always_acts: bool,
    /// The entities that it requires.
    requires: Vec<EntityIndex>,
    /// The entities that a change of this one may affect: those that require or need it, are refreshed by it, or
    /// receive values from it.
    dependents: Vec<EntityIndex>,
}

static NO_CONTROLS: Controls = Controls::NONE;

impl KnownEntity {
    /// Returns the limits on when and how often it may be worked on.
    pub(super) fn controls(&self) -> &Controls {
        self.controls.as_deref().unwrap_or(&NO_CONTROLS)
    }
}

/// The state of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// As defined, as far as its plugin can tell.
    Desired,
    /// Changed since the last apply.
    Drifted,
    /// It could not be checked or repaired.
    Failed,
}

/// The reasons for checking entities, if known.
pub(super) type Causes = BTreeMap<EntityIndex, Option<BString>>;

impl Known {
    /// Returns these entities of an inventory, with the states that were known before.
    pub(super) fn new(inventory: &Inventory, entities: &[EntityIndex], before: &Known) -> Known {
        let new_index: HashMap<EntityIndex, EntityIndex> =
            entities.iter().enumerate().map(|(index, &entity)| (entity, index.into())).collect();
        let mut last = None;
        let known = |&entity: &EntityIndex| {
            let id = inventory.entities[entity].id().to_owned();
            let (plugin, controls) = (inventory.entities[entity].plugin, inventory.entities[entity].controls());
            let controls = (controls != Controls::NONE).then(|| shared(controls, &mut last));
            let state = before.find(id.as_bstr()).and_then(|known| before.entities[known].state);
            let always_acts = inventory.entities[entity].edges().always;
            KnownEntity { id, plugin, controls, state, always_acts, requires: Vec::new(), dependents: Vec::new() }
        };
        let mut entities: PerEntity<KnownEntity> = entities.iter().map(known).collect();
        for edge in inventory.plan.edges().iter().filter(|edge| !edge.reversed && hands_on_changes(edge.kind)) {
            let Some((&first, &then)) = new_index.get(&edge.from).zip(new_index.get(&edge.to)) else { continue };
            entities[first].dependents.push(then);
            if edge.kind == EdgeKind::Requires {
                entities[then].requires.push(first);
            }
        }
        let mut by_id: Vec<EntityIndex> = entities.indexes().collect();
        by_id.sort_by(|&one, &other| entities[one].id.cmp(&entities[other].id));
        Known { entities, by_id, beginnings: Beginnings::new(inventory) }
    }

    /// Returns the entity with this ID.
    pub(super) fn find(&self, id: &BStr) -> Option<EntityIndex> {
        let place = self.by_id.binary_search_by(|&entity| self.entities[entity].id.as_bstr().cmp(id)).ok()?;
        self.by_id.get(place).copied()
    }

    /// Watches the paths of all entities.
    pub(super) fn watch(&self, inventory: &Inventory, root: &Root, paths: &mut WatchedPaths) -> Result<(), FatalError> {
        let root = absolute(root)?;
        for entity in &inventory.entities {
            let Some(index) = self.find(entity.id()) else { continue };
            for path in watched(entity) {
                watch_path(&root, path.as_bstr(), Extent::Entries, index, paths);
            }
        }
        Ok(())
    }

    /// Watches the parts of entities. Returns the entities of which some were not watched before: what has changed in
    /// the meantime had no event.
    pub(super) fn watch_parts(
        &self,
        found: &[Finding],
        root: &Root,
        paths: &mut WatchedPaths,
    ) -> Result<BTreeSet<EntityIndex>, FatalError> {
        let root = absolute(root)?;
        let mut unseen = BTreeSet::new();
        for finding in found.iter().filter(|finding| !finding.parts.is_empty()) {
            let Some(index) = self.find(finding.id.as_bstr()) else { continue };
            for path in &finding.parts {
                if watch_path(&root, path.as_bstr(), Extent::Names, index, paths) {
                    unseen.insert(index);
                }
            }
        }
        if !unseen.is_empty() {
            paths.arm().map_err(FatalError::could_not_run)?;
        }
        Ok(unseen)
    }

    /// Returns the entities that have had events, with descriptions of the events.
    pub(super) fn causes(&self, heard: Heard) -> Causes {
        let at_paths =
            heard.entities.into_iter().map(|(entity, cause)| (entity, cause.map(|cause| cause.words().into())));
        let told = heard.touched.into_iter().filter_map(|(id, reason)| {
            Some((self.find(id.as_bstr())?, Some(reason).filter(|reason| !reason.is_empty())))
        });
        let listening = heard.listening;
        let of_listening = self.entities.entries().filter(|(_, entity)| listening.contains(&entity.plugin));
        at_paths.chain(told).chain(of_listening.map(|(entity, _)| (entity, None))).collect()
    }

    /// Returns the times at which entities are checked without an event.
    pub(super) fn timers(&self, now: Instant) -> Timers {
        let mut timers = Timers::default();
        for (entity, known) in self.entities.entries() {
            known.controls().poll.into_iter().for_each(|interval| timers.poll(entity, interval, now));
        }
        timers
    }

    /// Returns the limit on how often an entity may be repaired.
    pub(super) fn limit(&self, entity: EntityIndex) -> Limit {
        self.entities[entity].controls().limit.unwrap_or(Limit::DEFAULT)
    }

    pub(super) fn selection(&self, entities: impl IntoIterator<Item = EntityIndex>) -> Selection {
        let id = |entity| OsString::from_vec(self.entities[entity].id.to_vec());
        Selection { selectors: entities.into_iter().map(id).collect() }
    }

    /// Returns entities and, transitively, those that their changes may affect.
    pub(super) fn with_dependents(&self, entities: &[EntityIndex]) -> HashSet<EntityIndex> {
        self.reached(entities, |entity| &entity.dependents)
    }

    /// Returns entities and, transitively, their requirements.
    pub(super) fn with_required(&self, entities: &[EntityIndex]) -> HashSet<EntityIndex> {
        self.reached(entities, |entity| &entity.requires)
    }

    fn reached(&self, from: &[EntityIndex], next: impl Fn(&KnownEntity) -> &[EntityIndex]) -> HashSet<EntityIndex> {
        let mut reached = HashSet::new();
        let mut left = from.to_vec();
        while let Some(entity) = left.pop() {
            if reached.insert(entity) {
                left.extend(next(&self.entities[entity]));
            }
        }
        reached
    }
}

/// Returns these controls, or shares the last ones if they are equal: thousands of definitions may have the same limit.
fn shared(controls: Controls, last: &mut Option<Rc<Controls>>) -> Rc<Controls> {
    match last {
        Some(last) if **last == controls => Rc::clone(last),
        _ => Rc::clone(last.insert(Rc::new(controls))),
    }
}

/// Returns true if a change of the first entity of such an edge may affect the other. Otherwise the edge only orders
/// them.
fn hands_on_changes(kind: EdgeKind) -> bool {
    match kind {
        EdgeKind::Requires | EdgeKind::Subscribes | EdgeKind::Notifies | EdgeKind::Needs(_) | EdgeKind::Receives => {
            true
        }
        EdgeKind::After | EdgeKind::Before | EdgeKind::Owns(_) => false,
    }
}

/// Returns the paths of an entity that are watched: those that it declares, otherwise those that it provides.
fn watched(entity: &Entity) -> Vec<BString> {
    let edges = entity.edges();
    if !edges.watch.is_empty() || edges.always {
        return edges.watch.into_iter().map(BString::from).collect();
    }
    let provided = edges.provides.into_iter().filter(|asset| asset.kind == BStr::new("path"));
    provided.map(|asset| asset.value.to_owned()).collect()
}

/// Watches a path below the root; with a trailing slash, to the given extent. Returns false if it is watched already.
fn watch_path(root: &Path, path: &BStr, of_directory: Extent, entity: EntityIndex, paths: &mut WatchedPaths) -> bool {
    let extent = if path.ends_with(b"/") { of_directory } else { Extent::Path };
    let below = path.trim_start_with(|letter| letter == '/').to_path_lossy();
    paths.add(&root.join(below), extent, Subject::Entity(entity))
}

/// Watches all paths that determine which entities exist, and those at which programs of plugins are missing. Returns true if one of the
/// latter cannot be watched, because it is not below the root.
pub(super) fn watch_definitions(
    root: &Root,
    missing: &[PathBuf],
    paths: &mut WatchedPaths,
) -> Result<bool, FatalError> {
    let absolute = absolute(root)?;
    let own_directories = OWN_DIRECTORIES.map(|path| (path, Extent::Tree));
    let own_files = OWN_FILES.map(|path| (path, Extent::Path));
    let others = [
        ("etc/holorc", Extent::Path),
        ("etc/holorc.d", Extent::Entries),
        ("etc/holo/resources", Extent::Tree),
        ("usr/share/holo", Extent::Tree),
        ("usr/lib/holo", Extent::Entries),
    ];
    for (path, extent) in others.into_iter().chain(own_directories).chain(own_files) {
        paths.add(&absolute.join(path), extent, Subject::Definitions);
    }
    // Another generation may come into use.
    let pin = root.today().pin();
    let pin = std::path::absolute(&pin).map_err(|error| FatalError::io("getcwd", &pin, error))?;
    paths.add(&pin, Extent::Path, Subject::Definitions);
    let mut is_elsewhere = false;
    // An empty path, that of `plugin ID=`, is the path of no program.
    for program in missing.iter().filter_map(|program| std::path::absolute(program).ok()) {
        paths.add(&program, Extent::Path, Subject::Definitions);
        is_elsewhere |= !program.starts_with(&absolute);
    }
    Ok(is_elsewhere)
}

/// Returns the absolute path of the root.
pub(super) fn absolute(root: &Root) -> Result<PathBuf, FatalError> {
    let given: &Path = root.as_given();
    std::path::absolute(given).map_err(|error| FatalError::io("getcwd", given, error))
}

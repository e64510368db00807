//! The entities that are watched, their last known states, and whether their definitions have changed since they were repaired.

use super::paths::{Extent, Heard, Subject, WatchedPaths};
use super::queue::Timers;
use crate::cli::Selection;
use crate::discovery::inventory::Inventory;
use crate::entities::node::{EntityIndex, PerEntity, PluginIndex};
use crate::entities::{Entity, Source};
use crate::error::FatalError;
use crate::host::root::Root;
use crate::plan::EdgeKind;
use bstr::{BStr, BString, ByteSlice};
use holo_facts::is_template;
use holo_protocol::{Controls, Limit};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;
use walkdir::WalkDir;

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
            KnownEntity { id, plugin, controls, state, requires: Vec::new(), dependents: Vec::new() }
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
                let extent = if path.ends_with(b"/") { Extent::Entries } else { Extent::Path };
                let below = path.trim_start_with(|letter| letter == '/').to_path_lossy().into_owned();
                paths.add(&root.join(below), extent, Subject::Entity(index));
            }
        }
        Ok(())
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

/// Watches all paths that determine which entities exist.
pub(super) fn watch_definitions(root: &Root, paths: &mut WatchedPaths) -> Result<(), FatalError> {
    let absolute = absolute(root)?;
    for (path, extent) in [
        ("etc/holorc", Extent::Path),
        ("etc/holorc.d", Extent::Entries),
        ("etc/holo", Extent::Tree),
        ("usr/share/holo", Extent::Tree),
        ("usr/lib/holo", Extent::Entries),
    ] {
        paths.add(&absolute.join(path), extent, Subject::Definitions);
    }
    // Another generation may come into use.
    let pin = root.today().pin();
    let pin = std::path::absolute(&pin).map_err(|error| FatalError::io("getcwd", &pin, error))?;
    paths.add(&pin, Extent::Path, Subject::Definitions);
    Ok(())
}

/// Returns the absolute path of the root.
pub(super) fn absolute(root: &Root) -> Result<PathBuf, FatalError> {
    let given: &Path = root.as_given();
    std::path::absolute(given).map_err(|error| FatalError::io("getcwd", given, error))
}

/// A hash of everything that defines an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint(u64);

/// The lines in which definitions begin, by file. A definition ends where the next one begins.
#[derive(Clone, Debug, Default)]
pub(super) struct Beginnings(HashMap<PathBuf, BTreeSet<usize>>);

/// The current definitions. Each file is read once.
pub(super) struct Definitions<'a> {
    beginnings: &'a Beginnings,
    root: &'a Root,
    files: HashMap<PathBuf, Parts>,
}

/// The hashes of a file with definitions.
#[derive(Debug, Default)]
struct Parts {
    whole: u64,
    /// The definitions, by the lines in which they begin.
    parts: HashMap<usize, u64>,
}

#[cfg(test)]
impl Fingerprint {
    pub(super) const fn for_test(number: u64) -> Fingerprint {
        Fingerprint(number)
    }
}

impl Beginnings {
    pub(super) fn new(inventory: &Inventory) -> Beginnings {
        let mut beginnings: HashMap<PathBuf, BTreeSet<usize>> = HashMap::new();
        for Source { path, line } in inventory.entities.iter().flat_map(Entity::report_sources) {
            if let Some(line) = line {
                beginnings.entry(path).or_default().insert(line);
            }
        }
        Beginnings(beginnings)
    }
}

impl<'a> Definitions<'a> {
    pub(super) fn new(beginnings: &'a Beginnings, root: &'a Root) -> Definitions<'a> {
        Definitions { beginnings, root, files: HashMap::new() }
    }

    /// Returns the fingerprint of an entity with these sources; `None` without sources, as its definition is unknown
    /// then.
    pub(super) fn fingerprint(&mut self, sources: &[Source]) -> Option<Fingerprint> {
        if sources.is_empty() {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        for Source { path, line } in sources {
            let file = self.file(path);
            // Lines of a template differ from those of its output.
            let part = line.filter(|_| !is_template(path)).and_then(|line| file.parts.get(&line));
            (path, part.unwrap_or(&file.whole)).hash(&mut hasher);
        }
        Some(Fingerprint(hasher.finish()))
    }

    fn file(&mut self, path: &Path) -> &Parts {
        self.files.entry(path.to_owned()).or_insert_with(|| {
            let text = fs::read(self.root.as_read(path)).unwrap_or_default();
            Parts::new(&text, self.beginnings.0.get(path).unwrap_or(&BTreeSet::new()))
        })
    }
}

impl Parts {
    fn new(text: &[u8], beginnings: &BTreeSet<usize>) -> Parts {
        let mut whole = DefaultHasher::new();
        text.hash(&mut whole);
        let mut parts = HashMap::new();
        // Text before the first definition may concern all of them.
        let mut head = DefaultHasher::new();
        let mut current: Option<(usize, DefaultHasher)> = None;
        for (number, line) in (1..).zip(text.lines()) {
            if beginnings.contains(&number) {
                parts.extend(current.take().map(|(begin, part)| (begin, part.finish())));
                current = Some((number, head.clone()));
            }
            line.hash(current.as_mut().map_or(&mut head, |(_, part)| part));
        }
        parts.extend(current.map(|(begin, part)| (begin, part.finish())));
        Parts { whole: whole.finish(), parts }
    }
}

/// Returns a hash of the inputs that any definition may depend on: configuration, data, facts and plugins.
pub(super) fn common_inputs(root: &Root) -> u64 {
    let own_resources = root.own_resources();
    let mut hasher = DefaultHasher::new();
    let pin = root.today().pin();
    for path in
        [&root.join("etc/holorc"), &root.join("etc/holorc.d"), &root.join("etc/holo"), &root.join("usr/lib/holo"), &pin]
    {
        let entries = WalkDir::new(path).follow_links(true).sort_by_file_name().into_iter();
        for entry in entries.filter_entry(|entry| entry.path() != own_resources).flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            let changed = (metadata.ctime(), metadata.ctime_nsec());
            // The timestamps of a directory change with its entries, so only files count.
            let stamp = metadata.is_file().then_some((metadata.ino(), metadata.size(), changed));
            (entry.path(), stamp).hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_ends_where_the_next_one_begins() {
        let of = |text: &str, lines: &[usize]| {
            let parts = Parts::new(text.as_bytes(), &lines.iter().copied().collect());
            let parts: Vec<u64> = lines.iter().map(|line| parts.parts[line]).collect();
            (parts[0], parts[1])
        };
        let (a, b) = of("[[x]]\nn = 1\n[[x]]\nn = 2\n", &[1, 3]);
        assert_eq!(of("[[x]]\nn = 1\n[[x]]\nn = 3\n", &[1, 3]).0, a);
        assert_ne!(of("[[x]]\nn = 1\n[[x]]\nn = 3\n", &[1, 3]).1, b);
        // An additional line in the first definition moves the second one without changing it.
        let (longer, moved) = of("[[x]]\nn = 1\nm = 1\n[[x]]\nn = 2\n", &[1, 4]);
        assert!(longer != a && moved == b);
        // Text before the first definition affects both.
        let (first, second) = of("y = 1\n[[x]]\nn = 1\n[[x]]\nn = 2\n", &[2, 4]);
        assert!(first != a && second != b);
    }
}

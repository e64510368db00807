//! Exclusive ownership: conflicts between the claims of several entities, and orphans that hand over to a living
//! entity.
//!
//! Owned assets are compared by kind and value. Three kinds have additional meaning: the value of `path`, `path-tree`
//! and `path-shared` is a path, and the last two extend to everything below it. Two living trees must not overlap,
//! unless one of them is shared. A living `path` inside another entity's living tree is left to the plugins, which know
//! whether the tree actually contains that file. But an orphan hands over whatever overlaps.
//!
//! The value of `path-edited` is a path of which an entity changes only a part. It is no claim, but the original file must be there first: an
//! orphan that owns the path, or one around it, or had an overlay there, is scrubbed before. The value of `path-access` is the path of a
//! directory below which an entity determines permissions. It is no claim either. An orphan is scrubbed before other entities see the files
//! below it, and a living entity comes after all orphans with paths below, which it would change.

use super::EdgeKind;
use super::assets::{Groups, parent, path_in};
use crate::entities::Entity;
use crate::entities::node::{EntityIndex, Node, PerEntity};
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::{Asset, Edges};
use holo_system::Violation;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::iter;
use std::ops::Bound;

const PATH: &str = "path";
const TREE: &str = "path-tree";
const SHARED: &str = "path-shared";
const EDITED: &str = "path-edited";
const ACCESS: &str = "path-access";

/// The reason for which none of these entities is applied: several of them claim the same asset, or other users may
/// modify the definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// What they claim, or the untrusted file.
    pub about: Contested,
    /// The entities, in inventory order.
    pub owners: Vec<EntityIndex>,
}

/// The subject of a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contested {
    /// Their ID: several plugins list it.
    Id,
    /// An asset that they own.
    Asset(Asset),
    /// Everything below this path, which is part of two owned trees.
    Tree(BString),
    /// A definition, or a directory on its path, that other users may modify.
    Untrusted(Violation),
}

/// An orphan that owns an asset that a living entity owns now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Succession {
    pub(crate) orphan: EntityIndex,
    pub(crate) successor: EntityIndex,
    /// The index of the asset among those that the orphan owns.
    pub(crate) owned: usize,
}

/// An orphan whose scrub restores what a living entity edits, or the permissions of what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restoration {
    pub(crate) orphan: EntityIndex,
    pub(crate) heir: EntityIndex,
    /// The reason for which the living entity waits.
    pub(crate) kind: EdgeKind,
    /// Whether the living entity determines the permissions of what is restored.
    pub(crate) is_access: bool,
}

impl Restoration {
    pub(super) fn pair(&self) -> (EntityIndex, EntityIndex) {
        (self.orphan, self.heir)
    }
}

/// The conflicts and successions among all entities.
#[derive(Debug, Default)]
pub(crate) struct Ownership {
    /// Sorted by the first owner of each.
    pub(crate) conflicts: Vec<Conflict>,
    /// Sorted by orphan; each pair of entities occurs once.
    pub(crate) successions: Vec<Succession>,
    /// Each pair of entities occurs once.
    pub(crate) restorations: Vec<Restoration>,
}

/// A kind, and a normalised value.
type Key<'a> = (&'a BStr, Cow<'a, [u8]>);

impl Ownership {
    /// Compares the claims of all entities. `namesakes` maps each entity to the first one with the same ID.
    pub(crate) fn new(nodes: &PerEntity<Node<'_>>, namesakes: &PerEntity<EntityIndex>) -> Ownership {
        let mut conflicts = same_ids(nodes, namesakes);
        if nodes.iter().all(|node| node.edges.owns.is_empty()) {
            return Ownership { conflicts, ..Ownership::default() };
        }
        let mut living = Groups::with_capacity(nodes.len());
        let mut contested = Vec::new();
        for (entity, asset) in owned(nodes, false).filter(|(_, asset)| asset.kind != EDITED && asset.kind != ACCESS) {
            if living.add(key(asset), entity) != entity && asset.kind != SHARED {
                contested.push(asset);
            }
        }
        let mut seen = HashSet::new();
        for asset in contested.into_iter().filter(|asset| seen.insert(key(asset))) {
            let mut owners: Vec<EntityIndex> = living.get(&key(asset)).collect();
            owners.dedup();
            let (kind, value) = key(asset);
            conflicts.push(Conflict { about: Contested::Asset(Asset::new(kind, value.into_owned())), owners });
        }
        let paths = Paths::new(nodes);
        conflicts.extend(paths.overlapping_trees(nodes));
        conflicts.sort_by(|one, other| one.owners.cmp(&other.owners));
        let restorations = restorations(nodes);
        let mut successions = successions(nodes, &living, &paths);
        let restored: HashSet<_> = restorations.iter().filter(|pair| pair.is_access).map(Restoration::pair).collect();
        successions.retain(|succession| !restored.contains(&(succession.orphan, succession.successor)));
        Ownership { conflicts, successions, restorations }
    }
}

/// Returns the owned assets, either those of orphans or those of living entities.
fn owned<'a>(nodes: &PerEntity<Node<'a>>, orphans: bool) -> impl Iterator<Item = (EntityIndex, &'a Asset<&'a BStr>)> {
    let entities = nodes.entries().filter(move |(_, node)| node.edges.orphan == orphans);
    entities.flat_map(|(entity, node)| node.edges.owns.iter().map(move |asset| (entity, asset)))
}

/// Returns what orphans restore although they own nothing: the paths of overlays are no claims.
fn overlaid_by_orphans<'a>(nodes: &PerEntity<Node<'a>>) -> impl Iterator<Item = (EntityIndex, &'a Asset<&'a BStr>)> {
    let overlays = nodes.entries().filter(|(_, node)| node.edges.orphan && node.edges.owns.is_empty());
    overlays.flat_map(|(entity, node)| node.edges.provides.iter().map(move |asset| (entity, asset)))
}

fn key<'a>(asset: &'a Asset<&BStr>) -> Key<'a> {
    let value = reach(asset).or_else(|| path(asset)).unwrap_or(Cow::Borrowed(asset.value));
    (asset.kind, value)
}

fn path<'a>(asset: &'a Asset<&BStr>) -> Option<Cow<'a, [u8]>> {
    path_in(asset, PATH)
}

fn tree<'a>(asset: &'a Asset<&BStr>) -> Option<Cow<'a, [u8]>> {
    path_in(asset, TREE)
}

/// Returns the path of a tree, shared or not.
fn reach<'a>(asset: &'a Asset<&BStr>) -> Option<Cow<'a, [u8]>> {
    tree(asset).or_else(|| path_in(asset, SHARED))
}

/// Returns true if an asset is a tree, shared or not, and another one a path in it.
pub(crate) fn is_tree_around(asset: &Asset<&BStr>, other: &Asset<&BStr>) -> bool {
    let Some((tree, path)) = reach(asset).zip(path(other)) else { return false };
    ancestors(&path).any(|above| above == &*tree)
}

/// Returns true if a file of one entity is in a tree of the other.
pub(crate) fn share_tree(one: &Edges<&BStr>, other: &Edges<&BStr>) -> bool {
    let is_in = |inner: &Edges<&BStr>, outer: &Edges<&BStr>| {
        outer.owns.iter().filter_map(reach).any(|tree| {
            let files = inner.provides.iter().chain(&inner.owns).filter(|asset| asset.value.starts_with(b"/"));
            files.into_iter().any(|file| ancestors(file.value).any(|above| above == &*tree))
        })
    };
    is_in(one, other) || is_in(other, one)
}

/// Returns the entities of different plugins that have the same ID. Orphans do not count: they are about to be removed,
/// and each plugin cleans up its own.
fn same_ids(nodes: &PerEntity<Node<'_>>, namesakes: &PerEntity<EntityIndex>) -> Vec<Conflict> {
    let mut groups: BTreeMap<EntityIndex, Vec<EntityIndex>> = BTreeMap::new();
    for (entity, &first) in namesakes.entries().filter(|(entity, first)| entity != *first) {
        groups.entry(first).or_insert_with(|| vec![first]).push(entity);
    }
    let living = |owners: Vec<EntityIndex>| owners.into_iter().filter(|&owner| !nodes[owner].edges.orphan).collect();
    let groups = groups.into_values().map(living);
    let plugins = |owners: &Vec<EntityIndex>| owners.iter().map(|&owner| nodes[owner].plugin).collect::<HashSet<_>>();
    let of_several = |owners: &Vec<EntityIndex>| plugins(owners).len() > 1;
    groups.filter(of_several).map(|owners| Conflict { about: Contested::Id, owners }).collect()
}

/// The living owners of paths and trees, sorted by path.
struct Paths<'a> {
    paths: BTreeMap<Cow<'a, [u8]>, Vec<EntityIndex>>,
    trees: BTreeMap<Cow<'a, [u8]>, Vec<EntityIndex>>,
    /// Owners of trees, including shared ones.
    reaches: BTreeMap<Cow<'a, [u8]>, Vec<EntityIndex>>,
}

impl<'a> Paths<'a> {
    /// Sorts the owners. If no tree is owned, the maps stay empty.
    fn new(nodes: &PerEntity<Node<'a>>) -> Paths<'a> {
        let mut paths = Paths { paths: BTreeMap::new(), trees: BTreeMap::new(), reaches: BTreeMap::new() };
        if nodes.iter().flat_map(|node| &node.edges.owns).any(|asset| reach(asset).is_some()) {
            for (entity, asset) in owned(nodes, false) {
                if let Some(path) = path(asset) {
                    paths.paths.entry(path).or_default().push(entity);
                }
                if let Some(tree) = tree(asset) {
                    paths.trees.entry(tree).or_default().push(entity);
                }
                if let Some(reach) = reach(asset) {
                    paths.reaches.entry(reach).or_default().push(entity);
                }
            }
        }
        paths
    }

    /// Returns the trees inside other entities' trees, each with the nearest enclosing one, so that there are no more
    /// conflicts than trees.
    fn overlapping_trees(&self, nodes: &PerEntity<Node<'a>>) -> Vec<Conflict> {
        if self.trees.len() < 2 {
            return Vec::new();
        }
        let conflict = |(entity, asset): (EntityIndex, &Asset<&BStr>)| {
            let tree = tree(asset)?;
            let other = around(&self.trees, &tree).find(|&other| other != entity)?;
            let owners = vec![entity.min(other), entity.max(other)];
            Some(Conflict { about: Contested::Tree(tree.into_owned().into()), owners })
        };
        owned(nodes, false).filter_map(conflict).collect()
    }
}

/// Returns the owners of all ancestors of a path.
fn around<'m>(
    map: &'m BTreeMap<Cow<'_, [u8]>, Vec<EntityIndex>>,
    path: &'m [u8],
) -> impl Iterator<Item = EntityIndex> + 'm {
    ancestors(path).filter_map(|path| map.get(path)).flatten().copied()
}

/// Returns all ancestors of a path, from its parent on.
fn ancestors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    iter::successors(parent(path), |path| parent(path))
}

/// Returns the owners of everything below a path.
fn below<'m>(
    map: &'m BTreeMap<Cow<'_, [u8]>, Vec<EntityIndex>>,
    path: &[u8],
) -> impl Iterator<Item = EntityIndex> + 'm {
    let prefix = if path == b"/" { path.to_owned() } else { [path, b"/"].concat() };
    let from = (Bound::Included(&prefix[..]), Bound::Unbounded);
    let entries: Vec<&Vec<EntityIndex>> = map
        .range::<[u8], _>(from)
        .take_while(|(path, _)| path.starts_with(&prefix))
        .map(|(_, owners)| owners)
        .collect();
    entries.into_iter().flatten().copied()
}

fn successions(nodes: &PerEntity<Node<'_>>, living: &Groups<Key<'_>>, paths: &Paths<'_>) -> Vec<Succession> {
    let mut successions = Vec::new();
    let orphans = nodes.entries().filter(|(_, node)| node.edges.orphan);
    for (orphan, node) in orphans {
        let mut seen = HashSet::new();
        for (owned, asset) in node.edges.owns.iter().enumerate() {
            let mut successors: Vec<EntityIndex> = living.get(&key(asset)).collect();
            if let Some(path) = path(asset) {
                successors.extend(paths.reaches.get(&path).into_iter().flatten().copied());
                successors.extend(around(&paths.reaches, &path));
            } else if let Some(tree) = reach(asset) {
                let within = paths.paths.get(&tree).into_iter().flatten().copied().chain(below(&paths.paths, &tree));
                let same = paths.reaches.get(&tree).into_iter().flatten().copied();
                successors.extend(within.chain(same));
                successors.extend(around(&paths.reaches, &tree).chain(below(&paths.reaches, &tree)));
            }
            let new = successors.into_iter().filter(|&successor| seen.insert(successor));
            successions.extend(new.map(|successor| Succession { orphan, successor, owned }));
        }
    }
    successions
}

fn restorations(nodes: &PerEntity<Node<'_>>) -> Vec<Restoration> {
    let mut orphans: Option<BTreeMap<Cow<'_, [u8]>, Vec<EntityIndex>>> = None;
    let permissions = Permissions::new(nodes);
    let mut restorations = Vec::new();
    let mut seen = HashSet::new();
    for (heir, node) in nodes.entries().filter(|(_, node)| !node.edges.orphan) {
        let is_access = node.edges.owns.iter().any(|asset| asset.kind == ACCESS);
        let mut add = |orphan, kind| {
            if seen.insert((orphan, heir)) {
                restorations.push(Restoration { orphan, heir, kind, is_access });
            }
        };
        for (index, asset) in node.edges.owns.iter().enumerate() {
            permissions.of(asset).into_iter().for_each(|orphan| add(orphan, EdgeKind::Owns(index)));
            let access = path_in(asset, ACCESS);
            let Some(path) = path_in(asset, EDITED).or(access.clone()) else { continue };
            let orphans = orphans.get_or_insert_with(|| {
                let mut orphans: BTreeMap<_, Vec<EntityIndex>> = BTreeMap::new();
                for (orphan, asset) in owned(nodes, true).chain(overlaid_by_orphans(nodes)) {
                    let own = self::path(asset).or_else(|| reach(asset)).or_else(|| path_in(asset, ACCESS));
                    if let Some(own) = own {
                        orphans.entry(own).or_default().push(orphan);
                    }
                }
                orphans
            });
            let found = orphans.get(&path).into_iter().flatten().copied().chain(around(orphans, &path));
            let found = found.chain(access.iter().flat_map(|access| below(orphans, access)));
            found.for_each(|orphan| add(orphan, EdgeKind::Owns(index)));
        }
        // The paths of overlays are no claims.
        for provided in &node.edges.provides {
            for orphan in permissions.of(provided) {
                let path = path(provided).unwrap_or_default();
                let needs = node.edges.needs.iter().position(|need| self::path(need).as_deref() == parent(&path));
                add(orphan, needs.map_or(EdgeKind::After, EdgeKind::Needs));
            }
        }
    }
    restorations
}

/// The directories below which orphans restore permissions.
struct Permissions<'a> {
    by_directory: BTreeMap<Cow<'a, [u8]>, Vec<EntityIndex>>,
}

impl<'a> Permissions<'a> {
    fn new(nodes: &PerEntity<Node<'a>>) -> Permissions<'a> {
        let mut by_directory: BTreeMap<_, Vec<EntityIndex>> = BTreeMap::new();
        for (orphan, asset) in owned(nodes, true) {
            if let Some(directory) = path_in(asset, ACCESS) {
                by_directory.entry(directory).or_default().push(orphan);
            }
        }
        Permissions { by_directory }
    }

    /// Returns the orphans that restore permissions of a path that is an asset, or of anything in a tree that is one.
    fn of(&self, asset: &Asset<&BStr>) -> Vec<EntityIndex> {
        if self.by_directory.is_empty() {
            return Vec::new();
        }
        let (path, tree) = (path_in(asset, EDITED).or_else(|| path(asset)), reach(asset));
        let mut found = Vec::new();
        for own in path.iter().chain(&tree) {
            found.extend(self.by_directory.get(own).into_iter().flatten().copied());
            found.extend(around(&self.by_directory, own));
        }
        found.extend(tree.iter().flat_map(|tree| below(&self.by_directory, tree)));
        found
    }
}

impl Conflict {
    /// Returns the message, with all entities and their files.
    #[must_use]
    pub fn describe(&self, entities: &PerEntity<Entity>) -> String {
        let owners: Vec<&Entity> = self.owners.iter().map(|&owner| &entities[owner]).collect();
        let end = if owners.len() == 2 { "; neither is applied" } else { "; none of them is applied" };
        let files = |entity: &Entity| {
            let sources = entity.report().sources;
            if sources.is_empty() { String::new() } else { format!(" in {}", bstr::join(", ", sources).as_bstr()) }
        };
        let named = |entity: &&Entity| format!("{}{}", entity.id(), files(entity));
        let by_plugin = |entity: &&Entity| format!("the plugin {}{}", entity.plugin_id(), files(entity));
        match &self.about {
            Contested::Id => {
                let id = owners.first().map(|entity| entity.id()).unwrap_or_default();
                format!("{id} is listed by {}{end}", listed(owners.iter().map(by_plugin)))
            }
            Contested::Asset(Asset { kind, value }) => {
                format!("{kind} {value} is owned by {}{end}", listed(owners.iter().map(named)))
            }
            Contested::Tree(path) => {
                format!("{TREE} {path} is owned by {}{end}", listed(owners.iter().map(named)))
            }
            Contested::Untrusted(violation) => format!("{violation}, so none of its entities is applied"),
        }
    }

    /// Returns what a user can do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match &self.about {
            Contested::Untrusted(violation) => violation.remedy(),
            Contested::Id | Contested::Asset(_) | Contested::Tree(_) => {
                "remove all of these definitions but one".to_owned()
            }
        }
    }
}

/// Formats a list in words: `a, b and c`.
fn listed(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<String> = items.collect();
    let last = items.pop().unwrap_or_default();
    if items.is_empty() { last } else { format!("{} and {last}", items.join(", ")) }
}

/// Maps each entity to the indexes of its conflicts.
pub(crate) fn by_owner(conflicts: &[Conflict]) -> HashMap<EntityIndex, Vec<usize>> {
    let mut by_owner: HashMap<EntityIndex, Vec<usize>> = HashMap::new();
    for (index, conflict) in conflicts.iter().enumerate() {
        conflict.owners.iter().for_each(|&owner| by_owner.entry(owner).or_default().push(index));
    }
    by_owner
}

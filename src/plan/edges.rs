//! Converts declarations of entities to edges, and indexes edges by their entities.

use super::assets::{Groups, Providers};
use super::ownership::{Restoration, Succession};
use super::{Edge, EdgeKind, Reception, Requirement};
use crate::entities::Entity;
use crate::entities::node::{EntityIndex, Node, PerEntity, Table};
use bstr::{BStr, ByteSlice};
use holo_protocol::Edges;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::mem;
use std::ops::Range;

/// The declared relations between entities.
pub(super) struct Declared {
    pub(super) edges: Vec<Edge>,
    pub(super) requirements: PerEntity<Vec<Requirement>>,
    pub(super) receptions: HashMap<EntityIndex, Vec<Reception>>,
}

/// Collects all edges, and the requirements of each entity.
pub(super) fn collect(nodes: &PerEntity<Node<'_>>, ids: &Groups<&BStr>) -> Declared {
    let mut collector = Collector { nodes, ids, providers: Providers::new(nodes), edges: Vec::new() };
    let mut receptions = HashMap::new();
    let requirements = nodes
        .entries()
        .map(|(entity, node)| {
            collector.add_named(entity, node);
            collector.add_needs(entity, node);
            let received = collector.receptions(entity, node);
            if !received.is_empty() && !node.edges.orphan {
                receptions.insert(entity, received);
            }
            if node.edges.orphan { Vec::new() } else { collector.requirements(entity, node) }
        })
        .collect();
    Declared { edges: collector.edges, requirements, receptions }
}

struct Collector<'n, 'a> {
    nodes: &'n PerEntity<Node<'a>>,
    ids: &'n Groups<&'a BStr>,
    providers: Providers<'a>,
    edges: Vec<Edge>,
}

impl Collector<'_, '_> {
    fn link(&mut self, from: EntityIndex, to: EntityIndex, kind: EdgeKind) {
        let reversed = self.nodes[to].edges.orphan;
        let (from, to) = if reversed { (to, from) } else { (from, to) };
        self.edges.push(Edge { from, to, kind, reversed });
    }

    /// Adds the edges to the entities that an entity names.
    fn add_named(&mut self, entity: EntityIndex, node: &Node<'_>) {
        let Edges { after, before, requires, subscribes, notifies, .. } = node.edges;
        let lists = [
            (EdgeKind::Requires, requires),
            (EdgeKind::Subscribes, subscribes),
            (EdgeKind::Notifies, notifies),
            (EdgeKind::After, after),
            (EdgeKind::Before, before),
        ];
        let ids = self.ids;
        for (kind, list) in lists {
            for id in list.iter().filter(|id| **id != node.id) {
                for other in ids.get(id.as_bstr()) {
                    let (from, to) = if kind.is_declared_first() { (entity, other) } else { (other, entity) };
                    self.link(from, to, kind);
                }
            }
        }
    }

    /// Adds the edges for the assets that an entity needs, unless it provides them itself.
    fn add_needs(&mut self, entity: EntityIndex, node: &Node<'_>) {
        for (index, asset) in node.edges.needs.iter().enumerate() {
            let counts = |&provider: &EntityIndex| node.edges.orphan || !self.nodes[provider].edges.orphan;
            let found = self.providers.find(asset, counts);
            if !found.contains(&entity) {
                found.into_iter().for_each(|provider| self.link(provider, entity, EdgeKind::Needs(index)));
            }
        }
    }

    /// Returns the values that an entity receives, and orders it after their senders.
    fn receptions(&mut self, entity: EntityIndex, node: &Node<'_>) -> Vec<Reception> {
        let ids = self.ids;
        let mut receptions = Vec::new();
        for receipt in &node.edges.receives {
            // An entity that receives from itself is a cycle, which must be reported.
            let senders = ids.get(receipt.sender.as_bstr());
            let senders = senders.filter(|&sender| sender != entity || !node.edges.orphan);
            senders.for_each(|sender| self.link(sender, entity, EdgeKind::Receives));
            let sender = ids.get(receipt.sender.as_bstr()).find(|&sender| !self.nodes[sender].edges.orphan);
            receptions.push(Reception { sender, receipt: receipt.to_owned() });
        }
        receptions
    }

    /// Returns the requirements of a living entity.
    fn requirements(&mut self, entity: EntityIndex, node: &Node<'_>) -> Vec<Requirement> {
        let requires = &node.edges.requires;
        // An entity that requires itself is a cycle, which must be reported.
        requires.iter().filter(|id| **id == node.id).for_each(|_| self.link(entity, entity, EdgeKind::Requires));
        let mut requirements = Vec::new();
        for id in requires {
            let known = requirements.len();
            let living = self.ids.get(id.as_bstr()).filter(|&other| !self.nodes[other].edges.orphan);
            requirements.extend(living.map(Requirement::Entity));
            if requirements.len() == known {
                requirements.push(Requirement::Unknown((*id).to_owned()));
            }
        }
        requirements
    }
}

/// Makes each orphan wait for the entities that take over from it, and drops edges from living entities to orphans that
/// become late.
pub(super) fn succeed(nodes: &PerEntity<Node<'_>>, successions: &[Succession], edges: Vec<Edge>) -> Vec<Edge> {
    if successions.is_empty() {
        return edges;
    }
    let mut is_late: PerEntity<bool> = Table::filled(false, nodes.len());
    let mut late: Vec<EntityIndex> = successions.iter().map(|succession| succession.orphan).collect();
    late.iter().for_each(|&orphan| is_late[orphan] = true);
    let waits = Waits::new(nodes.len(), edges);
    let waiting = Waiting::new(&waits);
    while let Some(orphan) = late.pop() {
        for &other in waiting.of(orphan).iter().filter(|&&other| nodes[other].edges.orphan) {
            if !mem::replace(&mut is_late[other], true) {
                late.push(other);
            }
        }
    }
    let mut edges = waits.into_edges();
    edges.retain(|edge| !is_late[edge.from] || nodes[edge.to].edges.orphan);
    edges.extend(successions.iter().map(|&Succession { orphan, successor, owned }| Edge {
        from: successor,
        to: orphan,
        kind: EdgeKind::Owns(owned),
        reversed: false,
    }));
    edges
}

/// Makes each entity wait for the orphans that restore what it edits or finds, except where the orphan itself waits for it: by way of an
/// entity that takes over. Such an entity needs no directory that only comes after the orphan, as it takes over what is there. Returns the
/// orphans of each entity.
pub(super) fn restore(
    nodes: &PerEntity<Node<'_>>,
    restorations: &[Restoration],
    successions: &[Succession],
    mut edges: Vec<Edge>,
) -> (Vec<Edge>, HashMap<EntityIndex, Vec<EntityIndex>>) {
    let mut restored_by: HashMap<EntityIndex, Vec<EntityIndex>> = HashMap::new();
    if restorations.is_empty() {
        return (edges, restored_by);
    }
    let late: HashSet<_> = restorations.iter().filter(|pair| pair.is_access).map(Restoration::pair).collect();
    let mut found_there = HashSet::new();
    for &Succession { orphan, successor, .. } in successions {
        found_there.extend(late.iter().filter(|pair| pair.0 == orphan).map(|pair| (pair.1, successor)));
    }
    let mut directories: HashMap<EntityIndex, Vec<EntityIndex>> = HashMap::new();
    restorations.iter().for_each(|pair| directories.entry(pair.heir).or_default().push(pair.orphan));
    // An orphan that is taken over leaves nothing in a directory that would have to go before it.
    let taken = successions.iter().flat_map(|&Succession { orphan, successor, .. }| {
        directories.get(&successor).into_iter().flatten().map(move |&directory| (orphan, directory))
    });
    let taken: HashSet<_> = taken.collect();
    let is_void = |edge: &Edge| {
        let pair = (edge.from, edge.to);
        found_there.contains(&pair) || nodes[edge.to].edges.orphan && taken.contains(&pair)
    };
    edges.retain(|edge| !matches!(edge.kind, EdgeKind::Needs(_)) || !is_void(edge));
    let waits = Waits::new(nodes.len(), edges);
    let waiting = Waiting::new(&waits);
    let mut added: HashMap<EntityIndex, Vec<EntityIndex>> = HashMap::new();
    let mut more = Vec::new();
    for &Restoration { orphan, heir, kind, .. } in restorations {
        let (mut seen, mut left) = (HashSet::from([heir]), vec![heir]);
        while let Some(entity) = left.pop() {
            let next = waiting.of(entity).iter().chain(added.get(&entity).into_iter().flatten());
            left.extend(next.filter(|&&next| seen.insert(next)));
        }
        if !seen.contains(&orphan) {
            added.entry(orphan).or_default().push(heir);
            restored_by.entry(heir).or_default().push(orphan);
            more.push(Edge { from: orphan, to: heir, kind, reversed: false });
        }
    }
    let mut edges = waits.into_edges();
    edges.extend(more);
    (edges, restored_by)
}

/// Edges, sorted by the waiting entity and then in the order in which they were added.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    edges: Vec<Edge>,
    /// The range of the edges of each entity.
    ranges: PerEntity<Range<usize>>,
}

impl Waits {
    pub(super) fn new(entities: usize, mut edges: Vec<Edge>) -> Waits {
        edges.sort_by_key(|edge| edge.to);
        let ranges = ranges(entities, edges.iter().map(|edge| edge.to));
        Waits { edges, ranges }
    }

    /// Returns the edges to what an entity waits for.
    pub(super) fn of(&self, entity: EntityIndex) -> &[Edge] {
        self.edges.get(self.ranges[entity].clone()).unwrap_or_default()
    }

    /// Returns all edges, sorted by the waiting entity.
    pub(super) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Drops edges.
    pub(super) fn without(self, is_dropped: impl Fn(&Edge) -> bool) -> Waits {
        let Waits { mut edges, ranges } = self;
        edges.retain(|edge| !is_dropped(edge));
        Waits::new(ranges.len(), edges)
    }

    /// Returns all edges.
    pub(super) fn into_edges(self) -> Vec<Edge> {
        self.edges
    }
}

/// For each entity, those that wait for it.
pub(super) struct Waiting {
    entities: Vec<EntityIndex>,
    ranges: PerEntity<Range<usize>>,
}

impl Waiting {
    pub(super) fn new(waits: &Waits) -> Waiting {
        let ranges = ranges(waits.ranges.len(), waits.edges.iter().map(|edge| edge.from));
        let mut next: PerEntity<usize> = ranges.iter().map(|range| range.start).collect();
        let mut entities: Vec<EntityIndex> = waits.edges.iter().map(|edge| edge.to).collect();
        for edge in &waits.edges {
            if let Some(entity) = entities.get_mut(next[edge.from]) {
                *entity = edge.to;
            }
            next[edge.from] += 1;
        }
        Waiting { entities, ranges }
    }

    pub(super) fn of(&self, entity: EntityIndex) -> &[EntityIndex] {
        self.entities.get(self.ranges[entity].clone()).unwrap_or_default()
    }
}

/// Returns the range of each entity's items in a list sorted by entity.
fn ranges(entities: usize, items: impl Iterator<Item = EntityIndex>) -> PerEntity<Range<usize>> {
    let mut counts: PerEntity<usize> = Table::filled(0, entities);
    items.for_each(|entity| counts[entity] += 1);
    let mut end = 0;
    let range = |count| {
        let start = end;
        end += count;
        start..end
    };
    counts.into_iter().map(range).collect()
}

/// The declarations of each entity. Most entities have none.
#[derive(Debug)]
pub struct Declarations<'a>(Vec<Option<Box<Declaration<'a>>>>);

#[derive(Debug)]
struct Declaration<'a> {
    edges: Edges<&'a BStr>,
    /// The file that declares them; empty if unknown.
    origin: Cow<'a, BStr>,
}

static NO_EDGES: Edges<&'static BStr> = Edges::NONE;

impl<'a> Declarations<'a> {
    /// Returns the declarations of these entities.
    #[must_use]
    pub fn new(entities: &'a PerEntity<Entity>) -> Declarations<'a> {
        let declaration = |entity: &'a Entity| {
            entity.has_edges().then(|| {
                let mut edges = entity.edges();
                // There may be hundreds of thousands.
                edges.shrink_to_fit();
                Box::new(Declaration { edges, origin: entity.origin() })
            })
        };
        Declarations(entities.iter().map(declaration).collect())
    }

    /// Returns the plan's nodes for the same entities.
    #[must_use]
    pub fn nodes<'n>(&'n self, entities: &'n PerEntity<Entity>) -> PerEntity<Node<'n>> {
        let node = |(entity, declaration): (&'n Entity, &'n Option<Box<Declaration<'a>>>)| {
            let (edges, origin) = match declaration {
                Some(declaration) => (&declaration.edges, &*declaration.origin),
                None => (&NO_EDGES, BStr::new("")),
            };
            Node { id: entity.id(), plugin: entity.plugin, edges, origin }
        };
        entities.iter().zip(&self.0).map(node).collect()
    }
}

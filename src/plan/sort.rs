//! Sorts entities by their edges, and describes the cycles that prevent it.

use super::edges::{Waiting, Waits};
use super::{Edge, EdgeKind};
use crate::entities::node::{EntityIndex, Node, PerEntity, Table};
use bstr::BString;
use holo_protocol::Asset;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::{fmt, iter};

/// Always takes the first entity that is not waiting for another. Returns the order, and the edges that hold in it:
/// edges among orphans that form a cycle are dropped. Unneeded entities that are blocked by a cycle are left out.
pub(super) fn sort(
    nodes: &PerEntity<Node<'_>>,
    waits: Waits,
    is_needed: impl Fn(EntityIndex) -> bool,
) -> Result<(Vec<EntityIndex>, Waits), CycleError> {
    let dropped = stuck_orphans(nodes, &waits);
    let waits = if dropped.is_empty() { waits } else { waits.without(|edge| dropped.contains(&(edge.from, edge.to))) };
    let mut queue = Queue::new(nodes, &waits, |_| true);
    queue.take_all();
    let Queue { planned, order, .. } = queue;
    if let Some(stuck) = nodes.indexes().find(|&entity| !planned[entity] && is_needed(entity)) {
        // Cycles of orphans are resolved already. A late orphan waits for blocked entities, so the walk leads from
        // there into the cycle.
        let (_, start) = edge_of_cycle(stuck, &waits, |from, _| !planned[from]);
        return Err(shortest_cycle(start, nodes, &waits, &planned));
    }
    Ok((order, waits))
}

/// Returns the edges that must be dropped to resolve cycles of orphans. Such cycles consist of edges among orphans
/// only.
fn stuck_orphans(nodes: &PerEntity<Node<'_>>, waits: &Waits) -> HashSet<(EntityIndex, EntityIndex)> {
    let is_orphan = |entity: EntityIndex| nodes[entity].edges.orphan;
    let mut orphans = nodes.indexes().filter(|&entity| is_orphan(entity)).peekable();
    if orphans.peek().is_none() {
        return HashSet::new();
    }
    let mut queue = Queue::new(nodes, waits, is_orphan);
    loop {
        queue.take_all();
        while orphans.next_if(|&orphan| queue.planned[orphan]).is_some() {}
        let Some(&orphan) = orphans.peek() else { return queue.dropped };
        let counts = |from, to| is_orphan(from) && !queue.planned[from] && !queue.dropped.contains(&(from, to));
        let (from, to) = edge_of_cycle(orphan, waits, counts);
        queue.drop_edge(from, to);
    }
}

/// The place of an entity in the given order: an entity, whether it comes right before that or is that, and its own index.
type Place = (EntityIndex, bool, EntityIndex);

/// Returns the places of all entities. One that comes before all entities of a type, such as a unit that is masked before packages start
/// it, is pulled forward to the first of them.
fn places(nodes: &PerEntity<Node<'_>>) -> PerEntity<Place> {
    let living = || nodes.entries().filter(|(_, node)| !node.edges.orphan);
    let mut places: PerEntity<Place> = nodes.indexes().map(|entity| (entity, true, entity)).collect();
    for (entity, node) in living() {
        let types = node.edges.before.iter().filter_map(|id| id.strip_suffix(b"*"));
        let firsts =
            types.filter_map(|of| living().map(|(other, _)| other).find(|&other| nodes[other].id.starts_with(of)));
        if let Some(first) = firsts.min().filter(|&first| first < entity) {
            places[entity] = (first, false, entity);
        }
    }
    places
}

/// A queue that always yields the first entity that is not waiting for another.
struct Queue<'a> {
    waits: &'a Waits,
    waiting: Waiting,
    counts: PerEntity<bool>,
    /// The number of relevant edges that each entity still waits for.
    open: PerEntity<usize>,
    places: PerEntity<Place>,
    ready: BinaryHeap<Reverse<Place>>,
    dropped: HashSet<(EntityIndex, EntityIndex)>,
    planned: PerEntity<bool>,
    order: Vec<EntityIndex>,
}

impl<'a> Queue<'a> {
    /// Returns a queue of the relevant entities, and of the edges between them.
    fn new(nodes: &PerEntity<Node<'_>>, waits: &'a Waits, counts: impl Fn(EntityIndex) -> bool) -> Queue<'a> {
        let counts: PerEntity<bool> = nodes.indexes().map(counts).collect();
        let open_edges = |entity| waits.of(entity).iter().filter(|edge| counts[edge.from]).count();
        let open: PerEntity<usize> = nodes.indexes().map(open_edges).collect();
        let places = places(nodes);
        let ready = nodes.indexes().filter(|&entity| counts[entity] && open[entity] == 0);
        let ready = ready.map(|entity| Reverse(places[entity])).collect();
        Queue {
            waits,
            waiting: Waiting::new(waits),
            counts,
            open,
            places,
            ready,
            dropped: HashSet::new(),
            planned: Table::filled(false, nodes.len()),
            order: Vec::with_capacity(nodes.len()),
        }
    }

    /// Takes all entities that are ready or become ready.
    fn take_all(&mut self) {
        while let Some(Reverse((_, _, entity))) = self.ready.pop() {
            self.planned[entity] = true;
            self.order.push(entity);
            let counts = |other| self.counts[other] && !self.dropped.contains(&(entity, other));
            for &other in self.waiting.of(entity).iter().filter(|&&other| counts(other)) {
                self.open[other] -= 1;
                if self.open[other] == 0 {
                    self.ready.push(Reverse(self.places[other]));
                }
            }
        }
    }

    /// Drops an edge from an entity that has not been taken yet.
    fn drop_edge(&mut self, from: EntityIndex, to: EntityIndex) {
        self.dropped.insert((from, to));
        self.open[to] -= self.waits.of(to).iter().filter(|edge| edge.from == from).count();
        if self.open[to] == 0 {
            self.ready.push(Reverse(self.places[to]));
        }
    }
}

/// Entities that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CycleError {
    /// Each one waits for the next, and the last one for the first.
    pub members: Vec<Member>,
}

/// An entity in a cycle, and why it waits for the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its ID.
    pub id: BString,
    /// The key of the line that declares it.
    pub kind: EdgeKind,
    /// The asset that it needs from the next one, if that is the reason.
    pub asset: Option<Asset>,
    /// The file in which it, or the next one, declares that; may be empty.
    pub origin: BString,
}

impl fmt::Display for CycleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cycle, each waiting for the next: ")?;
        let next = self.members.iter().cycle().skip(1);
        for (index, (member, next)) in self.members.iter().zip(next).enumerate() {
            if index == 0 {
                write!(f, "{}", member.id)?;
            }
            write!(f, " → {} ({}", next.id, member.kind.key())?;
            if let Some(Asset { kind, value }) = &member.asset {
                write!(f, ": {kind} {value}")?;
            }
            if !member.origin.is_empty() {
                write!(f, " in {}", member.origin)?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl std::error::Error for CycleError {}

/// Finds an edge of a cycle, directed from the entity that goes first to the one that waits. Walks from an entity to
/// one that it waits for until an entity is reached twice. Only edges that `counts` accepts are followed; every entity
/// on the walk must have one.
pub(super) fn edge_of_cycle(
    start: EntityIndex,
    waits: &Waits,
    counts: impl Fn(EntityIndex, EntityIndex) -> bool,
) -> (EntityIndex, EntityIndex) {
    let next = |to| waits.of(to).iter().map(|edge| edge.from).find(|&from| counts(from, to)).unwrap_or(to);
    let mut seen = HashSet::new();
    let mut entity = start;
    while seen.insert(entity) {
        entity = next(entity);
    }
    (next(entity), entity)
}

/// Returns the shortest cycle through an entity.
pub(super) fn shortest_cycle(
    start: EntityIndex,
    nodes: &PerEntity<Node<'_>>,
    waits: &Waits,
    planned: &PerEntity<bool>,
) -> CycleError {
    // The edge over which an entity was reached: one step closer to the start.
    let mut found_over: PerEntity<Option<Edge>> = Table::filled(None, nodes.len());
    let mut queue = VecDeque::from([start]);
    while let Some(entity) = queue.pop_front().filter(|_| found_over[start].is_none()) {
        for &edge in waits.of(entity).iter().filter(|edge| !planned[edge.from]) {
            if found_over[edge.from].is_none() {
                found_over[edge.from] = Some(edge);
                queue.push_back(edge.from);
            }
        }
    }
    let step = |edge: &Edge| found_over[edge.to].filter(|_| edge.to != start);
    let mut way: Vec<Edge> = iter::successors(found_over[start], step).collect();
    way.reverse();
    let first = way.iter().enumerate().min_by_key(|(_, edge)| edge.to).map_or(0, |(index, _)| index);
    way.rotate_left(first);
    let member = |edge: &Edge| Member {
        id: nodes[edge.to].id.into(),
        kind: edge.kind,
        asset: edge.asset(nodes).map(Asset::owned),
        origin: nodes[edge.declared_by()].origin.into(),
    };
    CycleError { members: way.iter().map(member).collect() }
}

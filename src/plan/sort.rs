//! Sorts entities by their edges.

use super::cycle::{CycleError, edge_of_cycle, shortest_cycle};
use super::waits::{Waiting, Waits};
use crate::index::{EntityIndex, PerEntity, Table};
use crate::node::Node;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

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

/// A queue that always yields the first entity that is not waiting for another.
struct Queue<'a> {
    waits: &'a Waits,
    waiting: Waiting,
    counts: PerEntity<bool>,
    /// The number of relevant edges that each entity still waits for.
    open: PerEntity<usize>,
    ready: BinaryHeap<Reverse<EntityIndex>>,
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
        let ready = nodes.indexes().filter(|&entity| counts[entity] && open[entity] == 0).map(Reverse).collect();
        Queue {
            waits,
            waiting: Waiting::new(waits),
            counts,
            open,
            ready,
            dropped: HashSet::new(),
            planned: Table::filled(false, nodes.len()),
            order: Vec::with_capacity(nodes.len()),
        }
    }

    /// Takes all entities that are ready or become ready.
    fn take_all(&mut self) {
        while let Some(Reverse(entity)) = self.ready.pop() {
            self.planned[entity] = true;
            self.order.push(entity);
            let counts = |other| self.counts[other] && !self.dropped.contains(&(entity, other));
            for &other in self.waiting.of(entity).iter().filter(|&&other| counts(other)) {
                self.open[other] -= 1;
                if self.open[other] == 0 {
                    self.ready.push(Reverse(other));
                }
            }
        }
    }

    /// Drops an edge from an entity that has not been taken yet.
    fn drop_edge(&mut self, from: EntityIndex, to: EntityIndex) {
        self.dropped.insert((from, to));
        self.open[to] -= self.waits.of(to).iter().filter(|edge| edge.from == from).count();
        if self.open[to] == 0 {
            self.ready.push(Reverse(to));
        }
    }
}

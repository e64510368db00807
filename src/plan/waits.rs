//! Edges, indexed by their entities.

use super::Edge;
use crate::index::{EntityIndex, PerEntity, Table};
use std::ops::Range;

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

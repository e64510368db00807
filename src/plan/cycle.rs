//! Cycles: entities that wait for each other.

use super::waits::Waits;
use super::{Edge, EdgeKind};
use crate::index::{EntityIndex, PerEntity, Table};
use crate::node::Node;
use bstr::BString;
use holo_protocol::Asset;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::iter;

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
        asset: edge.asset(nodes).map(|asset| Asset::new(asset.kind, asset.value)),
        origin: nodes[edge.declared_by()].origin.into(),
    };
    CycleError { members: way.iter().map(member).collect() }
}

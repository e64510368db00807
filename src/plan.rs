//! Turns entities and the edges between them into the order in which they are worked on.
//!
//! The order is the given one (configuration order of plugins, then entity ID) wherever no edge says otherwise: always the first entity
//! comes next that waits for nothing any more. So an entity that has to wait is pushed behind what it waits for, and comes right after it;
//! what it waits for is not pulled forward. Of two entities the later one is worked on first only if the earlier one waits for it, or for
//! something that is later still: no script of a late plugin runs before earlier plugins for another entity's sake.
//!
//! Orphans are scrubbed against the direction of edges: an orphan never waits for what it needed but goes before it, a user before its
//! group. What an orphan provides is going away, so it provides it for other orphans only. A living entity that waits for an orphan by
//! name does so: a service is refreshed after the file is gone that it subscribes to. So all edges between orphans and the living have
//! the orphan first, and a cycle is one of the living alone, or of orphans alone, as it was declared.
//!
//! An orphan is *late* if a living entity takes over from it, as it owns by now what the orphan owned, or if it goes after a late one. A
//! late orphan waits for those that take over, and nothing living waits for it: such edges are dropped. So the order has three layers
//! between which no cycle can arise: the other orphans, the living, and the late orphans.

mod cycle;
mod edges;
mod sort;
#[cfg(test)]
mod tests;
mod waits;

pub use cycle::{CycleError, Member};

use crate::assets::Groups;
use crate::index::{EntityIndex, PerEntity, PluginIndex, Table};
use crate::node::Node;
use crate::ownership::{self, Conflict, Ownership, Succession};
use crate::select::Selected;
use bstr::{BStr, BString};
use edges::Declared;
use holo_protocol::{Asset, Receipt};
use std::collections::HashMap;
use waits::Waits;

/// The order of all entities, and why it is so.
#[derive(Clone, Debug)]
pub struct Plan {
    order: Vec<EntityIndex>,
    waits: Waits,
    requirements: PerEntity<Vec<Requirement>>,
    refreshes: PerEntity<Vec<EntityIndex>>,
    /// The values that entities receive, of those that do.
    receptions: HashMap<EntityIndex, Vec<Reception>>,
    /// The names of the values that others receive from entities.
    wanted: HashMap<EntityIndex, Vec<BString>>,
    plugins: PerEntity<PluginIndex>,
    /// For each entity the first one that has its ID.
    namesakes: PerEntity<EntityIndex>,
    conflicts: Vec<Conflict>,
    /// The indexes of the conflicts of each entity that has any.
    conflicts_of: HashMap<EntityIndex, Vec<usize>>,
    /// The living entities that take over from each orphan that has any.
    successors: HashMap<EntityIndex, Vec<EntityIndex>>,
}

/// Says that one entity goes before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Goes first.
    pub from: EntityIndex,
    /// Waits for the other one.
    pub to: EntityIndex,
    /// The kind of the line of a scan report that declares it.
    pub kind: EdgeKind,
    /// True if it was declared the other way round, and reversed because an orphan would have had to wait.
    pub reversed: bool,
}

/// The key of the line that makes an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeKind {
    /// `REQUIRES`.
    Requires,
    /// `SUBSCRIBES`.
    Subscribes,
    /// `NOTIFIES`.
    Notifies,
    /// `NEEDS`: the index of the asset among the needs of the entity that declares the edge.
    Needs(usize),
    /// `RECEIVES`.
    Receives,
    /// `AFTER`.
    After,
    /// `BEFORE`.
    Before,
    /// `OWNS`: the index of the asset among those that the orphan owns from which the other entity takes over.
    Owns(usize),
}

/// A requirement that has to be in its desired state before an entity is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// Another entity.
    Entity(EntityIndex),
    /// An ID that no entity has, or only an orphan: nothing defines it, and after this run it is gone.
    Unknown(BString),
}

/// A value that an entity receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reception {
    /// The entity that sends it; none if there is no such entity, or only an orphan.
    pub sender: Option<EntityIndex>,
    /// The key that it is for, the ID of the sender, and the name by which it is sent.
    pub receipt: Receipt,
}

impl Plan {
    /// Plans all entities that there are. Where no edge says otherwise they keep the order in which they are given.
    ///
    /// # Errors
    /// Entities that are not orphans wait for each other. Among orphans nobody could mend a cycle, as nothing defines them any more:
    /// there, as many edges as needed do not count.
    pub fn new(nodes: &PerEntity<Node<'_>>) -> Result<Plan, CycleError> {
        Plan::with(nodes, |_| true)
    }

    /// Plans all entities but those of cycles and those that wait for them, none of which may be selected.
    ///
    /// # Errors
    /// A selected entity is in a cycle, or waits for one.
    pub fn for_selected(nodes: &PerEntity<Node<'_>>, selected: &Selected) -> Result<Plan, CycleError> {
        Plan::with(nodes, |entity| selected.contains(entity))
    }

    /// Plans entities, all that are needed among them.
    fn with(nodes: &PerEntity<Node<'_>>, is_needed: impl Fn(EntityIndex) -> bool) -> Result<Plan, CycleError> {
        let mut ids = Groups::with_capacity(nodes.len());
        let namesakes: PerEntity<EntityIndex> =
            nodes.entries().map(|(entity, node)| ids.add(node.id, entity)).collect();
        let Ownership { conflicts, successions } = Ownership::new(nodes, &namesakes);
        let Declared { edges, requirements, receptions } = edges::collect(nodes, &ids);
        let wanted = wanted(&receptions);
        let mut successors: HashMap<EntityIndex, Vec<EntityIndex>> = HashMap::new();
        for Succession { orphan, successor, .. } in &successions {
            successors.entry(*orphan).or_default().push(*successor);
        }
        let edges = edges::succeed(nodes, &successions, edges);
        let (order, waits) = sort::sort(nodes, Waits::new(nodes.len(), edges), is_needed)?;
        let refreshes = refreshes(nodes.len(), waits.edges());
        let plugins = nodes.iter().map(|node| node.plugin).collect();
        let conflicts_of = ownership::by_owner(&conflicts);
        Ok(Plan {
            order,
            waits,
            requirements,
            refreshes,
            receptions,
            wanted,
            plugins,
            namesakes,
            conflicts,
            conflicts_of,
            successors,
        })
    }

    /// Returns all entities in their order, but for those that are left out because of a cycle.
    #[must_use]
    pub fn order(&self) -> &[EntityIndex] {
        &self.order
    }

    /// Cuts the selected entities into sets: the longest runs, in their order, of one plugin's entities without an edge between any two.
    /// No set has an ID twice, as answers name entities by their IDs.
    #[must_use]
    pub fn sets(&self, selected: &Selected) -> Vec<Vec<EntityIndex>> {
        let mut sets: Vec<Vec<EntityIndex>> = Vec::new();
        // The number of the set in which an entity is, and an ID: counted from 1.
        let mut set_of: PerEntity<usize> = Table::filled(0, self.plugins.len());
        let mut set_of_id = set_of.clone();
        for &entity in self.order.iter().filter(|&&entity| selected.contains(entity)) {
            let number = sets.len();
            let fits = |set: &Vec<EntityIndex>| {
                // A path through others in the run is made of edges in the run: looking at edges is enough.
                set.first().is_some_and(|&first| self.plugins[first] == self.plugins[entity])
                    && set_of_id[self.namesakes[entity]] != number
                    && self.waits_for(entity).all(|other| set_of[other] != number)
            };
            match sets.last_mut().filter(|set| fits(set)) {
                Some(set) => set.push(entity),
                None => sets.push(vec![entity]),
            }
            set_of[entity] = sets.len();
            set_of_id[self.namesakes[entity]] = sets.len();
        }
        sets
    }

    /// Returns the entities that go before this one because of an edge between the two.
    pub fn waits_for(&self, entity: EntityIndex) -> impl Iterator<Item = EntityIndex> {
        self.waits.of(entity).iter().map(|edge| edge.from)
    }

    /// Returns the requirements of an entity, in the order in which it says so. An orphan requires nothing.
    #[must_use]
    pub fn requirements(&self, entity: EntityIndex) -> &[Requirement] {
        &self.requirements[entity]
    }

    /// Returns the entities that are refreshed when this one changed: it notifies them, or they subscribe to it. Orphans are not refreshed.
    #[must_use]
    pub fn refreshes(&self, entity: EntityIndex) -> &[EntityIndex] {
        &self.refreshes[entity]
    }

    /// Returns the values that an entity receives, in the order in which it says so.
    #[must_use]
    pub fn receptions(&self, entity: EntityIndex) -> &[Reception] {
        self.receptions.get(&entity).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the names of the values that others receive from this entity.
    #[must_use]
    pub fn wanted(&self, entity: EntityIndex) -> &[BString] {
        self.wanted.get(&entity).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns everything that more than one living entity claims.
    #[must_use]
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// Returns the conflicts of this entity with others. It is not to be applied then.
    pub fn conflicts_of(&self, entity: EntityIndex) -> impl Iterator<Item = &Conflict> {
        let indexes = self.conflicts_of.get(&entity).into_iter().flatten();
        indexes.filter_map(|&index| self.conflicts.get(index))
    }

    /// Returns the living entities that take over from this orphan, as they own what it owned. It is to be applied only if they ended well.
    #[must_use]
    pub fn successors(&self, orphan: EntityIndex) -> &[EntityIndex] {
        self.successors.get(&orphan).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns all edges, by the entity that waits. There may be several between the same two entities.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        self.waits.edges()
    }
}

/// Returns for each sender the names of the values that others receive.
fn wanted(receptions: &HashMap<EntityIndex, Vec<Reception>>) -> HashMap<EntityIndex, Vec<BString>> {
    let mut wanted: HashMap<EntityIndex, Vec<BString>> = HashMap::new();
    for Reception { sender, receipt } in receptions.values().flatten() {
        if let Some(sender) = sender {
            wanted.entry(*sender).or_default().push(receipt.name.clone());
        }
    }
    for names in wanted.values_mut() {
        names.sort();
        names.dedup();
    }
    wanted
}

/// Returns for each entity those that its change refreshes. Edges come by the entity that waits.
fn refreshes(entities: usize, edges: &[Edge]) -> PerEntity<Vec<EntityIndex>> {
    let mut refreshes: PerEntity<Vec<EntityIndex>> = Table::filled(Vec::new(), entities);
    for edge in edges.iter().filter(|edge| edge.kind.refreshes() && !edge.reversed) {
        let refreshed = &mut refreshes[edge.from];
        if refreshed.last() != Some(&edge.to) {
            refreshed.push(edge.to);
        }
    }
    refreshes
}

impl Edge {
    /// Returns the entity that declares it.
    #[must_use]
    pub fn declared_by(&self) -> EntityIndex {
        if self.kind.is_declared_first() == self.reversed { self.to } else { self.from }
    }

    /// Returns the asset that is needed, or owned, if that makes the edge.
    #[must_use]
    pub fn asset<'a>(&self, nodes: &PerEntity<Node<'a>>) -> Option<&'a Asset<&'a BStr>> {
        let edges = nodes[self.declared_by()].edges;
        match self.kind {
            EdgeKind::Needs(index) => edges.needs.get(index),
            EdgeKind::Owns(index) => edges.owns.get(index),
            _ => None,
        }
    }
}

impl EdgeKind {
    /// Returns true if a change of one entity refreshes the other one.
    #[must_use]
    pub fn refreshes(self) -> bool {
        matches!(self, EdgeKind::Subscribes | EdgeKind::Notifies)
    }

    /// Returns true if the entity that goes first declares it.
    fn is_declared_first(self) -> bool {
        matches!(self, EdgeKind::Before | EdgeKind::Notifies)
    }

    /// Returns the key.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            EdgeKind::Requires => "REQUIRES",
            EdgeKind::Subscribes => "SUBSCRIBES",
            EdgeKind::Notifies => "NOTIFIES",
            EdgeKind::Needs(_) => "NEEDS",
            EdgeKind::Receives => "RECEIVES",
            EdgeKind::After => "AFTER",
            EdgeKind::Before => "BEFORE",
            EdgeKind::Owns(_) => "OWNS",
        }
    }
}

//! Turns entities and the edges between them into the order in which they are worked on.
//!
//! The given order (plugins as configured, then entity ID) applies wherever no edge says otherwise: the next entity is
//! always the first one that is not waiting for another. So an entity that has to wait is moved to just after what it
//! waits for; what it waits for is not pulled forward. A later entity precedes an earlier one only if the earlier one
//! waits for it, or for an entity that is later still: no script of a late plugin runs before earlier plugins for the
//! sake of another entity. The exception is an entity that comes before all of a type (`BEFORE: TYPE:*`): it is pulled
//! forward to the first of these, unless it has to wait.
//!
//! Orphans are scrubbed against the direction of edges: an orphan never waits for what it needed but precedes it, a
//! user before its group. The assets that an orphan provides are about to disappear, so it provides them to other
//! orphans only. But a living entity that names an orphan does wait for it: a service is refreshed after the file that
//! it subscribes to is gone. So all edges between orphans and living entities put the orphan first, and every cycle
//! consists only of living entities or only of orphans, as declared.
//!
//! An orphan is *late* if a living entity takes over from it because it now owns what the orphan owned, or if the
//! orphan follows a late one. A late orphan waits for the entities that take over, and no living entity waits for it:
//! such edges are dropped. So the order has three layers without cycles between them: the other orphans, the living
//! entities, and the late orphans. Only an entity that edits what a late orphan restores waits for it nevertheless, if
//! the orphan does not wait for that entity.
//!
//! Ordering and refreshes take effect only if both entities exist, so a reference to a missing entity is not an error:
//! it may be absent from this machine on purpose. But a typo would otherwise go unnoticed.

pub(crate) mod assets;
pub mod edges;
pub mod ownership;
pub mod refresh;
pub mod select;
pub mod sent;
mod sort;
#[cfg(test)]
mod tests;

pub use sort::{CycleError, Member};

use crate::entities::Entity;
use crate::entities::node::{EntityIndex, Node, PerEntity, PluginIndex, Table};
use assets::Groups;
use bstr::{BStr, BString, ByteSlice};
use edges::{Declared, Waits};
use holo_definitions::similar;
use holo_protocol::{Asset, Receipt};
use ownership::{Conflict, Ownership, Succession};
use select::Selected;
use std::collections::{HashMap, HashSet};

/// The order of all entities, and the edges that determine it.
#[derive(Clone, Debug)]
pub struct Plan {
    order: Vec<EntityIndex>,
    waits: Waits,
    requirements: PerEntity<Vec<Requirement>>,
    refreshes: PerEntity<Vec<EntityIndex>>,
    /// The values that each entity receives, for those that receive any.
    receptions: HashMap<EntityIndex, Vec<Reception>>,
    /// For each sender, the names of the values that others receive from it.
    wanted: HashMap<EntityIndex, Vec<BString>>,
    plugins: PerEntity<PluginIndex>,
    /// For each entity, the first one with the same ID.
    namesakes: PerEntity<EntityIndex>,
    conflicts: Vec<Conflict>,
    /// The indexes of each entity's conflicts, for those that have any.
    conflicts_of: HashMap<EntityIndex, Vec<usize>>,
    /// For each orphan that has any, the living entities that take over from it.
    successors: HashMap<EntityIndex, Vec<EntityIndex>>,
    /// For each entity that has any, the orphans that restore what it edits.
    restored_by: HashMap<EntityIndex, Vec<EntityIndex>>,
}

/// An ordering constraint between two entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The entity that goes first.
    pub from: EntityIndex,
    /// The entity that waits.
    pub to: EntityIndex,
    /// The kind of the scan report line that declares it.
    pub kind: EdgeKind,
    /// Whether the edge was declared in the other direction, and reversed because an orphan would have had to wait.
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
    /// `NEEDS`, with the index of the asset among the needs of the declaring entity.
    Needs(usize),
    /// `RECEIVES`.
    Receives,
    /// `AFTER`.
    After,
    /// `BEFORE`.
    Before,
    /// `OWNS`, with the index of the asset among those of the waiting entity: an orphan whose asset the other entity takes over, or an
    /// entity that edits what the other one, an orphan, restores.
    Owns(usize),
}

/// A requirement that must be in its desired state before an entity is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// Another entity.
    Entity(EntityIndex),
    /// An ID that no entity has, or only an orphan, which has no definition and is gone after this run.
    Unknown(BString),
}

/// A value that an entity receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reception {
    /// The entity that sends it; `None` if there is no such entity, or only an orphan.
    pub sender: Option<EntityIndex>,
    /// The receiving key, the sender's ID, and the name of the value.
    pub receipt: Receipt,
}

impl Plan {
    /// Plans all entities. Where no edge says otherwise, they keep the given order.
    ///
    /// # Errors
    /// If living entities wait for each other in a cycle. A cycle among orphans is not an error, because there is no
    /// definition left that could be fixed; as many edges as needed are ignored there.
    pub fn new(nodes: &PerEntity<Node<'_>>) -> Result<Plan, CycleError> {
        Plan::with(nodes, |_| true)
    }

    /// Plans all entities except those that are blocked by a cycle, none of which may be selected.
    ///
    /// # Errors
    /// If a selected entity is in a cycle, or waits for one.
    pub fn for_selected(nodes: &PerEntity<Node<'_>>, selected: &Selected) -> Result<Plan, CycleError> {
        Plan::with(nodes, |entity| selected.contains(entity))
    }

    /// Plans entities; those for which `is_needed` returns true must not be blocked by a cycle.
    fn with(nodes: &PerEntity<Node<'_>>, is_needed: impl Fn(EntityIndex) -> bool) -> Result<Plan, CycleError> {
        let mut ids = Groups::with_capacity(nodes.len());
        let namesakes: PerEntity<EntityIndex> =
            nodes.entries().map(|(entity, node)| ids.add(node.id, entity)).collect();
        let Ownership { conflicts, successions, restorations } = Ownership::new(nodes, &namesakes);
        let Declared { edges, requirements, receptions } = edges::collect(nodes, &ids);
        let wanted = wanted(&receptions);
        let mut successors: HashMap<EntityIndex, Vec<EntityIndex>> = HashMap::new();
        for Succession { orphan, successor, .. } in &successions {
            successors.entry(*orphan).or_default().push(*successor);
        }
        let edges = edges::succeed(nodes, &successions, edges);
        let (edges, restored_by) = edges::restore(nodes, &restorations, &successions, edges);
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
            restored_by,
        })
    }

    /// Returns all entities in order, except for those that are left out because of a cycle.
    #[must_use]
    pub fn order(&self) -> &[EntityIndex] {
        &self.order
    }

    /// Splits the selected entities into sets: the longest runs, in order, of one plugin's entities without an edge
    /// between any two of them. An ID occurs once per set, because plugins' answers name entities by ID.
    #[must_use]
    pub fn sets(&self, selected: &Selected) -> Vec<Vec<EntityIndex>> {
        let mut sets: Vec<Vec<EntityIndex>> = Vec::new();
        // The number of the set that contains an entity, or an ID; counted from 1.
        let mut set_of: PerEntity<usize> = Table::filled(0, self.plugins.len());
        let mut set_of_id = set_of.clone();
        for &entity in self.order.iter().filter(|&&entity| selected.contains(entity)) {
            let number = sets.len();
            let fits = |set: &Vec<EntityIndex>| {
                // Looking at direct edges is enough: a path between two entities of the run goes through edges of the
                // run.
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

    /// Returns the entities that have an edge to this one, and precede it.
    pub fn waits_for(&self, entity: EntityIndex) -> impl Iterator<Item = EntityIndex> {
        self.waits.of(entity).iter().map(|edge| edge.from)
    }

    /// Returns the requirements of an entity, in declaration order. Orphans have none.
    #[must_use]
    pub fn requirements(&self, entity: EntityIndex) -> &[Requirement] {
        &self.requirements[entity]
    }

    /// Returns the entities that are refreshed when this one changes, because it notifies them or they subscribe to it.
    /// Orphans are not refreshed.
    #[must_use]
    pub fn refreshes(&self, entity: EntityIndex) -> &[EntityIndex] {
        &self.refreshes[entity]
    }

    /// Returns the values that an entity receives, in declaration order.
    #[must_use]
    pub fn receptions(&self, entity: EntityIndex) -> &[Reception] {
        self.receptions.get(&entity).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the names of the values that others receive from this entity.
    #[must_use]
    pub fn wanted(&self, entity: EntityIndex) -> &[BString] {
        self.wanted.get(&entity).map(Vec::as_slice).unwrap_or_default()
    }

    /// Adds conflicts that the claims of entities do not show.
    pub fn add_conflicts(&mut self, conflicts: Vec<Conflict>) {
        self.conflicts.extend(conflicts);
        self.conflicts_of = ownership::by_owner(&self.conflicts);
    }

    /// Returns all conflicts of entities.
    #[must_use]
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// Returns the conflicts of this entity. If there are any, it must not be applied.
    pub fn conflicts_of(&self, entity: EntityIndex) -> impl Iterator<Item = &Conflict> {
        let indexes = self.conflicts_of.get(&entity).into_iter().flatten();
        indexes.filter_map(|&index| self.conflicts.get(index))
    }

    /// Returns the living entities that take over from this orphan because they own what it owned. It must be applied
    /// only if they succeeded.
    #[must_use]
    pub fn successors(&self, orphan: EntityIndex) -> &[EntityIndex] {
        self.successors.get(&orphan).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the orphans that restore what this entity edits. It must be applied only if they succeeded.
    #[must_use]
    pub fn restored_by(&self, entity: EntityIndex) -> &[EntityIndex] {
        self.restored_by.get(&entity).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns all edges, sorted by the waiting entity. There may be several between the same two entities.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        self.waits.edges()
    }
}

/// Maps each sender to the names of the values that others receive from it.
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

/// Maps each entity to those that its change refreshes. The edges are sorted by the waiting entity.
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
    /// Returns the entity that declares the edge.
    #[must_use]
    pub fn declared_by(&self) -> EntityIndex {
        if self.kind.is_declared_first() == self.reversed { self.to } else { self.from }
    }

    /// Returns the needed or owned asset that causes the edge, if any.
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
    /// Returns true if a change of one entity refreshes the other.
    #[must_use]
    pub fn refreshes(self) -> bool {
        matches!(self, EdgeKind::Subscribes | EdgeKind::Notifies)
    }

    /// Returns true if the preceding entity declares the edge.
    fn is_declared_first(self) -> bool {
        matches!(self, EdgeKind::Before | EdgeKind::Notifies)
    }

    /// Returns the key of the line, such as `REQUIRES`.
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

/// A reference to an entity that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dangling {
    /// The entity with the reference.
    pub entity: EntityIndex,
    /// The location of the reference.
    pub location: BString,
    /// The relation to the missing entity, as the words that precede its name in a message.
    relation: &'static str,
    /// The ID of the missing entity.
    pub id: BString,
}

/// Returns all references in definitions to entities that do not exist, not even as orphans.
#[must_use]
pub fn dangling(nodes: &PerEntity<Node<'_>>) -> Vec<Dangling> {
    // The location of an entity's own definition is not a reference.
    let names_others = |node: &Node<'_>| node.edges.written.iter().any(|name| name.id != node.id);
    let mut written = nodes.entries().filter(|(_, node)| names_others(node)).peekable();
    if written.peek().is_none() {
        return Vec::new();
    }
    let ids: HashSet<&BStr> = nodes.iter().map(|node| node.id).collect();
    let mut dangling = Vec::new();
    for (entity, node) in written {
        for name in node.edges.written.iter().filter(|name| !ids.contains(name.id.as_bstr())) {
            let edges = node.edges;
            let relations = [
                ("subscribes to", &edges.subscribes),
                ("notifies", &edges.notifies),
                ("comes after", &edges.after),
                ("comes before", &edges.before),
            ];
            let relation =
                relations.into_iter().find(|(_, list)| list.contains(&name.id)).map(|(relation, _)| relation);
            // A missing requirement is reported as an error of the entity.
            if let Some(relation) = relation.filter(|_| !edges.requires.contains(&name.id)) {
                let (location, id) = (name.location.to_owned(), name.id.to_owned());
                dangling.push(Dangling { entity, location, relation, id });
            }
        }
    }
    dangling
}

impl Dangling {
    /// Returns the warning, which suggests the most similar existing ID.
    #[must_use]
    pub fn describe(&self, entities: &PerEntity<Entity>) -> String {
        let Dangling { location, relation, id, .. } = self;
        let who = entities[self.entity].id();
        let others =
            entities.iter().map(Entity::id).filter(|other| *other != who).filter_map(|other| other.to_str().ok());
        let meant = id.to_str().ok().and_then(|id| similar(id, others));
        let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        format!("{location}: {who}: {relation} {id}, which does not exist{meant}")
    }
}

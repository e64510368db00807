//! Turns entities and the edges between them into the order in which they are worked on.
//!
//! The order is the given one (configuration order of plugins, then entity ID) wherever no edge says otherwise: always the first entity
//! comes next that waits for nothing any more. So an entity that has to wait is pushed behind what it waits for, and stands right there;
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

use crate::assets::{Groups, Providers};
use crate::node::Node;
use crate::ownership::{self, Conflict, Ownership, Succession};
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::{Asset, Edges};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::mem;

/// The order of all entities, and why it is so. Entities are numbers: their places among the nodes of which the plan was made.
#[derive(Clone, Debug)]
pub struct Plan {
    order: Vec<usize>,
    waits: Waits,
    requirements: Vec<Vec<Requirement>>,
    refreshes: Vec<Vec<usize>>,
    plugins: Vec<usize>,
    /// For each entity the first one that has its ID.
    namesakes: Vec<usize>,
    conflicts: Vec<Conflict>,
    /// The conflicts of each entity that has any.
    conflicts_of: HashMap<usize, Vec<usize>>,
    /// The living entities that take over from each orphan that has any.
    successors: HashMap<usize, Vec<usize>>,
}

/// Says that one entity goes before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Goes first.
    pub from: usize,
    /// Waits for the other one.
    pub to: usize,
    /// The kind of the line of a scan report that declares it.
    pub kind: EdgeKind,
    /// True if it was declared the other way round, and turned because an orphan would have had to wait.
    pub turned: bool,
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
    /// `NEEDS`: the place of the asset among the needs of the entity that declares the edge.
    Needs(usize),
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
    Entity(usize),
    /// An ID that no entity has, or only an orphan: nothing defines it, and after this run it is gone.
    Unknown(BString),
}

/// Entities that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Each waits for the next one, and the last one for the first.
    pub members: Vec<Member>,
}

/// An entity in a cycle, and why it waits for the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its ID.
    pub id: BString,
    /// The key of the line that says so.
    pub kind: EdgeKind,
    /// The asset that it needs of the next one, if that is the reason.
    pub asset: Option<Asset>,
    /// The file where it, or the next one, declares that; may be empty.
    pub origin: BString,
}

impl Plan {
    /// Plans all entities that there are. Where no edge says otherwise they keep the order in which they are given.
    ///
    /// # Errors
    /// Entities that are no orphans wait for each other. Among orphans nobody could mend a cycle, as nothing defines them any more:
    /// there, as many edges as needed do not count.
    pub fn new(nodes: &[Node<'_>]) -> Result<Plan, Cycle> {
        Plan::with(nodes, |_| true)
    }

    /// The same, without the entities of cycles and those that wait for them, none of which is selected.
    ///
    /// # Errors
    /// A selected entity is in a cycle, or waits for one.
    pub fn of_selected(nodes: &[Node<'_>], selected: &[bool]) -> Result<Plan, Cycle> {
        Plan::with(nodes, |entity| selected.get(entity) == Some(&true))
    }

    /// Plans entities, all that are needed among them.
    fn with(nodes: &[Node<'_>], is_needed: impl Fn(usize) -> bool) -> Result<Plan, Cycle> {
        let mut ids = Groups::new();
        let namesakes: Vec<usize> = nodes.iter().enumerate().map(|(entity, node)| ids.add(node.id, entity)).collect();
        let Ownership { conflicts, successions } = Ownership::new(nodes, &namesakes);
        let (mut edges, requirements) = collect(nodes, &ids);
        let mut successors: HashMap<usize, Vec<usize>> = HashMap::new();
        for Succession { orphan, successor, .. } in &successions {
            successors.entry(*orphan).or_default().push(*successor);
        }
        succeed(nodes, &successions, &mut edges);
        let mut waits = Waits::new(nodes.len(), edges);
        let order = sort(nodes, &mut waits, is_needed)?;
        let mut refreshes = vec![Vec::new(); nodes.len()];
        for edge in waits.edges.iter().filter(|edge| edge.kind.refreshes() && !edge.turned) {
            let refreshed: &mut Vec<usize> = &mut refreshes[edge.from];
            if refreshed.last() != Some(&edge.to) {
                refreshed.push(edge.to);
            }
        }
        let plugins = nodes.iter().map(|node| node.plugin).collect();
        let conflicts_of = ownership::by_owner(&conflicts);
        Ok(Plan { order, waits, requirements, refreshes, plugins, namesakes, conflicts, conflicts_of, successors })
    }

    /// All entities in their order, but for those that are left out because of a cycle.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Cuts the selected entities into sets: the longest runs, in their order, of one plugin's entities without an edge between any two.
    /// No set has an ID twice, as answers name entities by their IDs.
    #[must_use]
    pub fn sets(&self, selected: &[bool]) -> Vec<Vec<usize>> {
        let mut sets: Vec<Vec<usize>> = Vec::new();
        // In which set an entity is, and an ID: counted from 1.
        let mut set_of = vec![0; self.plugins.len()];
        let mut set_of_id = vec![0; self.plugins.len()];
        for &entity in self.order.iter().filter(|&&entity| selected.get(entity) == Some(&true)) {
            let number = sets.len();
            let fits = |set: &Vec<usize>| {
                // A path through others in the run is made of edges in the run: looking at edges is enough.
                set.first().is_some_and(|&first| self.plugins[first] == self.plugins[entity])
                    && set_of_id[self.namesakes[entity]] != number
                    && self.waits.of(entity).iter().all(|edge| set_of[edge.from] != number)
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

    /// The entities that go before this one because of an edge between the two.
    pub fn waits_for(&self, entity: usize) -> impl Iterator<Item = usize> {
        self.waits.of(entity).iter().map(|edge| edge.from)
    }

    /// Returns the requirements of an entity, in the order in which it says so. An orphan requires nothing.
    #[must_use]
    pub fn requirements(&self, entity: usize) -> &[Requirement] {
        &self.requirements[entity]
    }

    /// Returns the entities that are refreshed when this one changed: it notifies them, or they subscribe to it. Orphans are not refreshed.
    #[must_use]
    pub fn refreshes(&self, entity: usize) -> &[usize] {
        &self.refreshes[entity]
    }

    /// Everything that more than one living entity claims.
    #[must_use]
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// Returns the conflicts of this entity with others. It is not to be applied then.
    pub fn conflicts_of(&self, entity: usize) -> impl Iterator<Item = &Conflict> {
        self.conflicts_of.get(&entity).into_iter().flatten().map(|&index| &self.conflicts[index])
    }

    /// The living entities that take over from this orphan, as they own what it owned. It is to be applied only if they ended well.
    #[must_use]
    pub fn successors(&self, orphan: usize) -> &[usize] {
        self.successors.get(&orphan).map(Vec::as_slice).unwrap_or_default()
    }

    /// All edges, by the entity that waits. There may be several between the same two entities.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        &self.waits.edges
    }
}

impl Edge {
    /// The entity that declares it.
    #[must_use]
    pub fn declared_by(&self) -> usize {
        let by_the_first = matches!(self.kind, EdgeKind::Before | EdgeKind::Notifies);
        if by_the_first == self.turned { self.to } else { self.from }
    }

    /// Returns the asset that is needed, or owned, if that makes the edge.
    #[must_use]
    pub fn asset<'a>(&self, nodes: &[Node<'a>]) -> Option<&'a Asset> {
        let edges = nodes.get(self.declared_by())?.edges;
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

    fn key(self) -> &'static str {
        match self {
            EdgeKind::Requires => "REQUIRES",
            EdgeKind::Subscribes => "SUBSCRIBES",
            EdgeKind::Notifies => "NOTIFIES",
            EdgeKind::Needs(_) => "NEEDS",
            EdgeKind::After => "AFTER",
            EdgeKind::Before => "BEFORE",
            EdgeKind::Owns(_) => "OWNS",
        }
    }
}

impl fmt::Display for Cycle {
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

impl std::error::Error for Cycle {}

/// All edges, and what each entity requires.
fn collect(nodes: &[Node<'_>], ids: &Groups<&BStr>) -> (Vec<Edge>, Vec<Vec<Requirement>>) {
    let mut edges = Vec::new();
    let mut link = |from: usize, to: usize, kind: EdgeKind| {
        let turned = nodes[to].edges.orphan;
        let (from, to) = if turned { (to, from) } else { (from, to) };
        edges.push(Edge { from, to, kind, turned });
    };
    let mut requirements = vec![Vec::new(); nodes.len()];
    let providers = Providers::new(nodes);
    for (entity, node) in nodes.iter().enumerate() {
        let Edges { after, before, requires, subscribes, notifies, needs, orphan, .. } = node.edges;
        let lists = [
            (EdgeKind::Requires, requires),
            (EdgeKind::Subscribes, subscribes),
            (EdgeKind::Notifies, notifies),
            (EdgeKind::After, after),
            (EdgeKind::Before, before),
        ];
        for (kind, list) in lists {
            for id in list.iter().filter(|id| *id != node.id) {
                for other in ids.get(id.as_bstr()) {
                    let declared_first = matches!(kind, EdgeKind::Notifies | EdgeKind::Before);
                    let (from, to) = if declared_first { (entity, other) } else { (other, entity) };
                    link(from, to, kind);
                }
            }
        }
        for (index, asset) in needs.iter().enumerate() {
            let found = providers.of(asset, |&provider| *orphan || !nodes[provider].edges.orphan);
            if !found.contains(&entity) {
                found.into_iter().for_each(|provider| link(provider, entity, EdgeKind::Needs(index)));
            }
        }
        if !*orphan {
            // An entity that requires itself waits for ever, and the user has to hear of it.
            requires.iter().filter(|id| *id == node.id).for_each(|_| link(entity, entity, EdgeKind::Requires));
            for id in requires {
                let known = requirements[entity].len();
                let living = ids.get(id.as_bstr()).filter(|&other| !nodes[other].edges.orphan);
                requirements[entity].extend(living.map(Requirement::Entity));
                if requirements[entity].len() == known {
                    requirements[entity].push(Requirement::Unknown(id.clone()));
                }
            }
        }
    }
    (edges, requirements)
}

/// Has each orphan wait for those that take over from it, and nothing living wait for an orphan that goes late because of that.
fn succeed(nodes: &[Node<'_>], successions: &[Succession], edges: &mut Vec<Edge>) {
    if successions.is_empty() {
        return;
    }
    let mut is_late = vec![false; nodes.len()];
    let mut late: Vec<usize> = successions.iter().map(|succession| succession.orphan).collect();
    late.iter().for_each(|&orphan| is_late[orphan] = true);
    let waits = Waits::new(nodes.len(), mem::take(edges));
    let waiting = Waiting::new(&waits);
    while let Some(orphan) = late.pop() {
        for &other in waiting.of(orphan).iter().filter(|&&other| nodes[other].edges.orphan) {
            if !mem::replace(&mut is_late[other], true) {
                late.push(other);
            }
        }
    }
    *edges = waits.edges;
    edges.retain(|edge| !is_late[edge.from] || nodes[edge.to].edges.orphan);
    edges.extend(successions.iter().map(|&Succession { orphan, successor, owned }| Edge {
        from: successor,
        to: orphan,
        kind: EdgeKind::Owns(owned),
        turned: false,
    }));
}

/// Edges by the entity that waits, and in the order in which they were found.
#[derive(Clone, Debug)]
struct Waits {
    edges: Vec<Edge>,
    /// The index at which the edges of each entity begin, and at which the last one's end.
    begins: Vec<usize>,
}

impl Waits {
    fn new(entities: usize, mut edges: Vec<Edge>) -> Waits {
        edges.sort_by_key(|edge| edge.to);
        let begins = begins(entities, edges.iter().map(|edge| edge.to));
        Waits { edges, begins }
    }

    fn of(&self, entity: usize) -> &[Edge] {
        &self.edges[self.begins[entity]..self.begins[entity + 1]]
    }
}

/// For each entity those that wait for it.
struct Waiting {
    entities: Vec<usize>,
    begins: Vec<usize>,
}

impl Waiting {
    fn new(waits: &Waits) -> Waiting {
        let begins = begins(waits.begins.len() - 1, waits.edges.iter().map(|edge| edge.from));
        let mut next = begins.clone();
        let mut entities = vec![0; waits.edges.len()];
        for edge in &waits.edges {
            entities[next[edge.from]] = edge.to;
            next[edge.from] += 1;
        }
        Waiting { entities, begins }
    }

    fn of(&self, entity: usize) -> &[usize] {
        &self.entities[self.begins[entity]..self.begins[entity + 1]]
    }
}

/// Returns the index at which each entity's items begin if items are sorted by entity, and at which the last one's end.
fn begins(entities: usize, items: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut begins = vec![0; entities + 1];
    items.for_each(|entity| begins[entity + 1] += 1);
    for entity in 0..entities {
        begins[entity + 1] += begins[entity];
    }
    begins
}

/// Takes always the first entity that waits for nothing any more. Edges among orphans that cannot hold are dropped, and so are entities
/// that would wait for ever and are not needed.
fn sort(nodes: &[Node<'_>], waits: &mut Waits, is_needed: impl Fn(usize) -> bool) -> Result<Vec<usize>, Cycle> {
    let dropped = stuck_orphans(nodes, waits);
    if !dropped.is_empty() {
        let mut edges = mem::take(&mut waits.edges);
        edges.retain(|edge| !dropped.contains(&(edge.from, edge.to)));
        *waits = Waits::new(nodes.len(), edges);
    }
    let mut queue = Queue::new(nodes.len(), waits, |_| true);
    queue.take_all();
    let Queue { planned, order, .. } = queue;
    if let Some(stuck) = (0..nodes.len()).find(|&entity| !planned[entity] && is_needed(entity)) {
        // There is no cycle of orphans left. A late orphan waits for what is stuck, so the walk leads from there into the cycle.
        let (_, start) = in_a_cycle(stuck, waits, |from, _| !planned[from]);
        return Err(shortest_cycle(start, nodes, waits, &planned));
    }
    Ok(order)
}

/// The edges that have to be dropped so that no orphans wait for each other. Only edges among orphans make such a cycle.
fn stuck_orphans(nodes: &[Node<'_>], waits: &Waits) -> HashSet<(usize, usize)> {
    let orphans: Vec<usize> = (0..nodes.len()).filter(|&entity| nodes[entity].edges.orphan).collect();
    if orphans.is_empty() {
        return HashSet::new();
    }
    let is_orphan = |entity: usize| nodes[entity].edges.orphan;
    let mut queue = Queue::new(nodes.len(), waits, is_orphan);
    let mut orphans = orphans.into_iter().peekable();
    loop {
        queue.take_all();
        while orphans.next_if(|&orphan| queue.planned[orphan]).is_some() {}
        let Some(&orphan) = orphans.peek() else { return queue.dropped };
        let counts =
            |from: usize, to: usize| is_orphan(from) && !queue.planned[from] && !queue.dropped.contains(&(from, to));
        let (from, to) = in_a_cycle(orphan, waits, counts);
        queue.drop_edge(from, to);
    }
}

/// Entities that are taken one after the other, always the first one that waits for nothing any more.
struct Queue<'a> {
    waits: &'a Waits,
    waiting: Waiting,
    counts: Vec<bool>,
    /// The number of edges that each entity still waits for, of those that count.
    open: Vec<usize>,
    ready: BinaryHeap<Reverse<usize>>,
    dropped: HashSet<(usize, usize)>,
    planned: Vec<bool>,
    order: Vec<usize>,
}

impl<'a> Queue<'a> {
    /// A queue of those entities that count, and of the edges among them.
    fn new(entities: usize, waits: &'a Waits, counts: impl Fn(usize) -> bool) -> Queue<'a> {
        let counts: Vec<bool> = (0..entities).map(counts).collect();
        let open_edges = |entity: usize| waits.of(entity).iter().filter(|edge| counts[edge.from]).count();
        let open: Vec<usize> = (0..entities).map(open_edges).collect();
        let ready = (0..entities).filter(|&entity| counts[entity] && open[entity] == 0).map(Reverse).collect();
        let (planned, order, waiting) = (vec![false; entities], Vec::with_capacity(entities), Waiting::new(waits));
        Queue { waits, waiting, counts, open, ready, dropped: HashSet::new(), planned, order }
    }

    /// Takes all that are ready, and those that become so.
    fn take_all(&mut self) {
        while let Some(Reverse(entity)) = self.ready.pop() {
            self.planned[entity] = true;
            self.order.push(entity);
            let counts = |other: usize| self.counts[other] && !self.dropped.contains(&(entity, other));
            for &other in self.waiting.of(entity).iter().filter(|&&other| counts(other)) {
                self.open[other] -= 1;
                if self.open[other] == 0 {
                    self.ready.push(Reverse(other));
                }
            }
        }
    }

    /// Lets an entity not wait for another one any more, which has not been taken.
    fn drop_edge(&mut self, from: usize, to: usize) {
        self.dropped.insert((from, to));
        self.open[to] -= self.waits.of(to).iter().filter(|edge| edge.from == from).count();
        if self.open[to] == 0 {
            self.ready.push(Reverse(to));
        }
    }
}

/// Finds an edge of a cycle, from what goes first to what waits, by walking from an entity to what it waits for until the walk comes by
/// somewhere for the second time. Only edges that count are walked, and wherever the walk comes there has to be one.
fn in_a_cycle(start: usize, waits: &Waits, counts: impl Fn(usize, usize) -> bool) -> (usize, usize) {
    let next = |to: usize| waits.of(to).iter().map(|edge| edge.from).find(|&from| counts(from, to)).unwrap_or(to);
    let mut seen = HashSet::new();
    let mut entity = start;
    while seen.insert(entity) {
        entity = next(entity);
    }
    (next(entity), entity)
}

/// The shortest way from an entity back to itself.
fn shortest_cycle(start: usize, nodes: &[Node<'_>], waits: &Waits, planned: &[bool]) -> Cycle {
    // The edge over which an entity was found: a step nearer to the start.
    let mut found_over: Vec<Option<Edge>> = vec![None; nodes.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(entity) = queue.pop_front().filter(|_| found_over[start].is_none()) {
        for &edge in waits.of(entity).iter().filter(|edge| !planned[edge.from]) {
            if found_over[edge.from].is_none() {
                found_over[edge.from] = Some(edge);
                queue.push_back(edge.from);
            }
        }
    }
    let mut way = Vec::new();
    let mut entity = start;
    while let Some(edge) = found_over[entity] {
        way.push(edge);
        entity = edge.to;
        if entity == start {
            break;
        }
    }
    way.reverse();
    let first = (0..way.len()).min_by_key(|&index| way[index].to).unwrap_or(0);
    way.rotate_left(first);
    let member = |edge: &Edge| Member {
        id: nodes[edge.to].id.into(),
        kind: edge.kind,
        asset: edge.asset(nodes).cloned(),
        origin: nodes[edge.declared_by()].origin.into(),
    };
    Cycle { members: way.iter().map(member).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::Contested;
    use holo_protocol::EntityReport;

    fn parse(report: &str) -> Vec<EntityReport> {
        EntityReport::parse_all(report.as_bytes(), 4).unwrap()
    }

    /// One plugin for each first letter of an ID, and a source for each entity.
    fn nodes(reports: &[EntityReport]) -> Vec<Node<'_>> {
        reports
            .iter()
            .map(|report| Node {
                id: report.id.as_ref(),
                plugin: usize::from(report.id[0]),
                edges: &report.edges,
                origin: report.sources.first().map(BString::as_ref).unwrap_or_default(),
            })
            .collect()
    }

    /// The IDs in the order of the plan, sets in brackets.
    #[track_caller]
    fn check(report: &str, expected: &str) {
        let reports = parse(report);
        let plan = Plan::new(&nodes(&reports)).unwrap();
        let sets = plan.sets(&vec![true; reports.len()]);
        let show = |set: &Vec<usize>| {
            format!("[{}]", set.iter().map(|&e| reports[e].id.to_string()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(sets.iter().map(show).collect::<Vec<_>>().join(" "), expected);
        assert_eq!(sets.concat(), plan.order());
    }

    #[track_caller]
    fn check_cycle(report: &str, expected: &str) {
        let reports = parse(report);
        let message = Plan::new(&nodes(&reports)).unwrap_err().to_string();
        assert_eq!(message, format!("cycle, each waiting for the next: {expected}"));
    }

    #[test]
    fn without_edges_the_order_is_the_given_one() {
        check("", "");
        check("ENTITY: b1\nENTITY: b0\nENTITY: a\nENTITY: b2\n", "[b1 b0] [a] [b2]");
    }

    #[test]
    fn who_waits_stands_right_behind_what_it_waits_for() {
        check("ENTITY: a1\nAFTER: a3\nENTITY: a2\nENTITY: a3\nENTITY: a4\n", "[a2 a3] [a1 a4]");
        check("ENTITY: a1\nENTITY: b2\nENTITY: c3\nBEFORE: a1\nENTITY: d4\n", "[b2] [c3] [a1] [d4]");
        check("ENTITY: a1\nREQUIRES: a2\nENTITY: a2\nREQUIRES: a4\nENTITY: a3\nENTITY: a4\n", "[a3 a4] [a2] [a1]");
        check("ENTITY: a1\nSUBSCRIBES: a2\nENTITY: a2\nENTITY: a3\nNOTIFIES: a2\n", "[a3] [a2] [a1]");
    }

    #[test]
    fn edges_that_hold_already_only_cut_sets() {
        check("ENTITY: a1\nENTITY: a2\nENTITY: a3\nAFTER: a2\nENTITY: a4\nAFTER: a1\n", "[a1 a2] [a3 a4]");
    }

    #[test]
    fn only_what_is_selected_is_in_sets() {
        let reports = parse("ENTITY: a1\nENTITY: b2\nAFTER: a1\nENTITY: a3\nAFTER: b2\nENTITY: a4\nAFTER: a1\n");
        let plan = Plan::new(&nodes(&reports)).unwrap();
        assert_eq!(plan.sets(&[true, false, true, true]), [vec![0, 2], vec![3]]);
        assert!(plan.sets(&[]).is_empty());
    }

    #[test]
    fn unknown_ids_matter_to_requirements_only() {
        let report = "ENTITY: a\nAFTER: x\nBEFORE: x\nSUBSCRIBES: x\nNOTIFIES: x\nNEEDS: user x\nREQUIRES: b\nREQUIRES: y\n\
                      ENTITY: b\n";
        let reports = parse(report);
        let plan = Plan::new(&nodes(&reports)).unwrap();
        assert_eq!(plan.order(), [1, 0]);
        assert_eq!(plan.requirements(0), [Requirement::Entity(1), Requirement::Unknown("y".into())]);
        assert!(plan.requirements(1).is_empty());
    }

    #[test]
    fn assets_order_only() {
        check(
            "ENTITY: a\nNEEDS: user x\nNEEDS: user y\nENTITY: b\nPROVIDES: user x\nENTITY: c\nPROVIDES: group y\n",
            "[b] [a] [c]",
        );
        let reports =
            parse("ENTITY: a\nNEEDS: user x y\nENTITY: b\nPROVIDES: user x y\nENTITY: c\nPROVIDES: user x y\n");
        let nodes = nodes(&reports);
        let plan = Plan::new(&nodes).unwrap();
        assert_eq!(plan.order(), [1, 2, 0]);
        assert!(plan.requirements(0).is_empty());
        assert_eq!(plan.edges()[0].asset(&nodes), Some(&Asset::new("user", "x y")));
    }

    #[test]
    fn paths_are_provided_by_the_nearest_ancestor() {
        let paths = "ENTITY: c\nPROVIDES: path /a\nENTITY: d\nPROVIDES: path /a/./b/\n\
                     ENTITY: e\nPROVIDES: path /a/bc\nENTITY: f\nPROVIDES: path /\n";
        let after = |needed: &str| {
            let reports = parse(&format!("ENTITY: a\nNEEDS: path {needed}\n{paths}"));
            let plan = Plan::new(&nodes(&reports)).unwrap();
            plan.edges().iter().map(|edge| reports[edge.from].id.to_string()).collect::<String>()
        };
        assert_eq!(after("/a/b"), "d");
        assert_eq!(after("/a//b/c/d/../e"), "d");
        assert_eq!(after("/a/b/.."), "c");
        assert_eq!(after("/a/bcd"), "c");
        assert_eq!(after("/b"), "f");
        assert_eq!(after("/"), "f");
        assert_eq!(after("a/b"), "");
    }

    #[test]
    fn who_provides_what_it_needs_waits_for_nobody() {
        check(
            "ENTITY: a\nNEEDS: path /x/y\nPROVIDES: path /x\nENTITY: b\nPROVIDES: path /x\nENTITY: c\nPROVIDES: path /\n",
            "[a] [b] [c]",
        );
        check("ENTITY: a\nAFTER: a\nNOTIFIES: a\nSUBSCRIBES: a\nENTITY: b\n", "[a] [b]");
    }

    #[test]
    fn an_id_stands_for_all_that_have_it() {
        check("ENTITY: a\nREQUIRES: b\nENTITY: b\nENTITY: b\nENTITY: c\n", "[b] [b] [a] [c]");
        check("ENTITY: b\nENTITY: b\nBEFORE: a\nENTITY: a\n", "[b] [b] [a]");
    }

    #[test]
    fn changes_refresh_those_that_want_it() {
        let reports = parse(
            "ENTITY: a\nNOTIFIES: c\nNOTIFIES: c\nENTITY: b\nSUBSCRIBES: a\nENTITY: c\nSUBSCRIBES: a\nAFTER: b\n",
        );
        let plan = Plan::new(&nodes(&reports)).unwrap();
        assert_eq!(plan.refreshes(0), [1, 2]);
        assert!(plan.refreshes(1).is_empty());
    }

    #[test]
    fn orphans_go_before_what_they_needed() {
        let orphan = "ORPHAN: yes\n";
        check(&format!("ENTITY: g\n{orphan}PROVIDES: group x\nENTITY: u\n{orphan}NEEDS: group x\n"), "[u] [g]");
        check(&format!("ENTITY: g\n{orphan}BEFORE: u\nENTITY: u\n{orphan}\n"), "[u] [g]");
        check(&format!("ENTITY: p\nENTITY: u\n{orphan}REQUIRES: p\nREQUIRES: x\n"), "[u] [p]");
    }

    #[test]
    fn orphans_provide_nothing_for_the_living() {
        let report = "ENTITY: a\nNEEDS: path /x/y\nREQUIRES: b\nENTITY: b\nORPHAN: yes\nPROVIDES: path /x/y\n\
                      ENTITY: c\nPROVIDES: path /x\n";
        let reports = parse(report);
        let plan = Plan::new(&nodes(&reports)).unwrap();
        assert_eq!(plan.order(), [1, 2, 0]);
        assert_eq!(
            plan.edges().iter().map(|edge| (edge.from, edge.kind)).collect::<Vec<_>>(),
            [(1, EdgeKind::Requires), (2, EdgeKind::Needs(0))]
        );
        assert_eq!(plan.requirements(0), [Requirement::Unknown("b".into())]);
        assert!(plan.requirements(1).is_empty());
    }

    #[test]
    fn an_orphan_refreshes_the_living_and_is_not_refreshed() {
        let orphan = "ENTITY: f\nORPHAN: yes\n";
        let refreshes = |report: &str| {
            let reports = parse(report);
            let plan = Plan::new(&nodes(&reports)).unwrap();
            (plan.order().to_vec(), plan.refreshes(0).to_vec(), plan.refreshes(1).to_vec())
        };
        assert_eq!(
            refreshes(&format!("ENTITY: s\nSUBSCRIBES: f\nREQUIRES: f\n{orphan}")),
            (vec![1, 0], vec![], vec![0])
        );
        assert_eq!(refreshes(&format!("ENTITY: s\n{orphan}NOTIFIES: s\n")), (vec![1, 0], vec![], vec![0]));
        assert_eq!(
            refreshes(&format!("ENTITY: s\nNOTIFIES: f\n{orphan}SUBSCRIBES: s\n")),
            (vec![1, 0], vec![], vec![])
        );
    }

    #[test]
    fn an_orphan_between_two_that_live_makes_no_cycle() {
        // A directory that nothing defines any more, with a file that is still wanted: both of one owner.
        let owner = "ENTITY: u\nPROVIDES: user x\n";
        let file = "ENTITY: f\nNEEDS: user x\nNEEDS: path /d/f\nAFTER: d\n";
        check(&format!("{owner}{file}ENTITY: d\nORPHAN: yes\nNEEDS: user x\nPROVIDES: path /d\n"), "[d] [u] [f]");
    }

    #[test]
    fn who_takes_over_from_an_orphan_goes_first() {
        let orphan = "ORPHAN: yes\nOWNS: unit x\n";
        check(&format!("ENTITY: a\n{orphan}ENTITY: b\nOWNS: unit x\n"), "[b] [a]");
        // Nothing is taken over: the living is after the orphan that it names.
        check(&format!("ENTITY: b\nOWNS: unit y\nAFTER: a\nENTITY: a\n{orphan}"), "[a] [b]");
        // It would be a cycle if the one that lives waited for the orphan, by itself or over others.
        let over = "ENTITY: b\nOWNS: unit x\nAFTER: a\nAFTER: c\nENTITY: c\nSUBSCRIBES: d\nENTITY: d\nORPHAN: yes\nREQUIRES: a\n";
        check(&format!("ENTITY: a\n{orphan}{over}"), "[d] [c] [b] [a]");
        let over = over.replace("REQUIRES: a", "BEFORE: a");
        check(&format!("ENTITY: a\n{orphan}{over}"), "[c] [b] [a] [d]");
    }

    #[test]
    fn an_edge_says_what_is_taken_over() {
        let reports = parse("ENTITY: a\nORPHAN: yes\nOWNS: unit y\nOWNS: path /a/b\nENTITY: b\nOWNS: path-tree /a\n");
        let nodes = nodes(&reports);
        let plan = Plan::new(&nodes).unwrap();
        assert_eq!((plan.successors(0), plan.successors(1)), (&[1][..], &[][..]));
        assert_eq!(plan.edges()[0].asset(&nodes), Some(&Asset::new("path", "/a/b")));
        assert_eq!((plan.edges()[0].from, plan.edges()[0].declared_by()), (1, 0));
    }

    #[test]
    fn a_cycle_of_the_living_is_found_from_a_late_orphan() {
        let report = "ENTITY: a\nORPHAN: yes\nOWNS: unit x\nENTITY: b\nOWNS: unit x\nAFTER: c\nENTITY: c\nAFTER: b\n";
        check_cycle(report, "b → c (AFTER) → b (AFTER)");
    }

    #[test]
    fn conflicts_are_of_the_living_and_of_several() {
        let conflicts = |report: &str| {
            let reports = parse(report);
            let conflicts = Plan::new(&nodes(&reports)).unwrap().conflicts;
            conflicts.into_iter().map(|conflict| (conflict.about, conflict.owners)).collect::<Vec<_>>()
        };
        let unit = || Contested::Asset(Asset::new("unit", "x"));
        let tree = |path: &str| Contested::Tree(path.into());
        assert_eq!(conflicts("ENTITY: a\nOWNS: unit x\nOWNS: unit x\nENTITY: b\nOWNS: path x\nENTITY: c\n"), []);
        let three = "ENTITY: a\nOWNS: unit x\nENTITY: b\nOWNS: unit x\nOWNS: unit x\nENTITY: c\nOWNS: unit x\n";
        assert_eq!(conflicts(three), [(unit(), vec![0, 1, 2])]);
        assert_eq!(conflicts(&three.replace("ENTITY: b", "ENTITY: b\nORPHAN: yes")), [(unit(), vec![0, 2])]);
        let path = "ENTITY: a\nOWNS: path /x/./y/\nENTITY: b\nOWNS: path /x//y\nENTITY: c\nOWNS: path-tree /x\n";
        assert_eq!(conflicts(path), [(Contested::Asset(Asset::new("path", "/x/y")), vec![0, 1])]);
        let trees = "ENTITY: a\nOWNS: path-tree /x/y\nENTITY: b\nOWNS: path-tree /xy\nENTITY: c\nOWNS: path-tree /x\n\
                     ENTITY: d\nOWNS: path-tree /x/y/z\nENTITY: e\nOWNS: path-tree /xyz\n";
        assert_eq!(conflicts(trees), [(tree("/x/y"), vec![0, 2]), (tree("/x/y/z"), vec![0, 3])]);
        assert_eq!(conflicts("ENTITY: a\nOWNS: path-tree /x\nOWNS: path-tree /x/y\n"), []);
        // The first letter is the plugin.
        assert_eq!(conflicts("ENTITY: a\nENTITY: a\n"), []);
    }

    #[test]
    fn cycles_name_their_members_and_files() {
        let report = "ENTITY: a\nENTITY: b\nSOURCE: /b\nREQUIRES: d\nENTITY: c\nSOURCE: /c\nSOURCE: /no\nBEFORE: d\nNEEDS: path /x/y\n\
                      ENTITY: d\nENTITY: e\nSOURCE: /e\nNOTIFIES: d\nPROVIDES: path /x\nSUBSCRIBES: b\n";
        check_cycle(report, "b → d (REQUIRES in /b) → e (NOTIFIES in /e) → b (SUBSCRIBES in /e)");
        let report =
            "ENTITY: a\nAFTER: b\nENTITY: b\nNEEDS: path /x/y\nSOURCE: /b\nENTITY: c\nPROVIDES: path /x\nAFTER: b\n";
        check_cycle(report, "b → c (NEEDS: path /x/y in /b) → b (AFTER)");
        check_cycle("ENTITY: a\nREQUIRES: a\nSOURCE: /a\n", "a → a (REQUIRES in /a)");
    }

    #[test]
    fn a_short_cycle_is_preferred() {
        let report = "ENTITY: a\nAFTER: b\nENTITY: b\nAFTER: c\nENTITY: c\nAFTER: d\nAFTER: b\nENTITY: d\nAFTER: a\n";
        check_cycle(report, "a → b (AFTER) → c (AFTER) → d (AFTER) → a (AFTER)");
        check_cycle(&report.replace("AFTER: d\nAFTER: b\n", "AFTER: b\nAFTER: d\n"), "b → c (AFTER) → b (AFTER)");
    }

    #[test]
    fn orphans_that_wait_for_each_other_are_scrubbed_all_the_same() {
        let report = "ENTITY: a\nORPHAN: yes\nAFTER: b\nREQUIRES: a\nENTITY: b\nORPHAN: yes\nAFTER: a\nENTITY: c\nAFTER: a\n\
                      ENTITY: d\nORPHAN: yes\nAFTER: b\n";
        let reports = parse(report);
        let plan = Plan::new(&nodes(&reports)).unwrap();
        assert_eq!(plan.order(), [0, 2, 3, 1]);
        assert_eq!(plan.edges().len(), 3);
    }

    #[test]
    fn long_chains_and_cycles_do_not_exhaust_the_stack() {
        let mut reports: Vec<EntityReport> = (0..100_000).map(|number| EntityReport::new(number.to_string())).collect();
        for number in 1..reports.len() {
            reports[number - 1].edges.requires = vec![number.to_string().into()];
        }
        let plan = Plan::new(&nodes(&reports)).unwrap();
        assert!(plan.order().iter().rev().copied().eq(0..reports.len()));
        reports[99_999].edges.requires = vec!["0".into()];
        assert_eq!(Plan::new(&nodes(&reports)).unwrap_err().members.len(), reports.len());
    }
}

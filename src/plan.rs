//! Turns entities and the edges between them into the order in which they are worked on.
//!
//! The order is the given one (configuration order of plugins, then entity ID) wherever no edge says otherwise: always the first entity
//! comes next that waits for nothing any more. So an entity that has to wait is pushed behind what it waits for, and stands right there;
//! what it waits for is not pulled forward. Of two entities the later one is worked on first only if the earlier one waits for it, or for
//! something that is later still: no script of a late plugin runs before earlier plugins for somebody else's sake.
//!
//! Orphans are scrubbed against the direction of edges: an orphan never waits for what it needed but goes before it, a user before its
//! group. What an orphan provides is going away, so it provides it for other orphans only. A living entity that waits for an orphan by
//! name does so: a service is refreshed after the file is gone that it subscribes to. So all edges between orphans and the living have
//! the orphan first, and a cycle is one of the living alone, or of orphans alone, as it was declared.

use crate::root::clean;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::{Asset, Edges};
use std::borrow::{Borrow, Cow};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::hash::Hash;
use std::iter;
use std::mem;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// What a plan has to know of an entity.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// Its ID, which another entity may have too.
    pub id: &'a BStr,
    /// The place of its plugin in the configuration.
    pub plugin: usize,
    /// What it declares.
    pub edges: &'a Edges,
    /// The file where it declares it, for messages; empty if there is none.
    pub origin: &'a BStr,
}

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
}

/// Says that one entity goes before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Goes first.
    pub from: usize,
    /// Waits for the other one.
    pub to: usize,
    /// Which line of a scan report says so.
    pub kind: EdgeKind,
    /// Whether it was declared the other way round, and turned because an orphan would have had to wait.
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
}

/// What has to be in its desired state before an entity is applied.
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
    /// What it needs of the next one, if that is why.
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
        let mut ids = Groups::new();
        let namesakes = nodes.iter().enumerate().map(|(entity, node)| ids.add(node.id, entity)).collect();
        let (edges, requirements) = collect(nodes, &ids);
        let mut waits = Waits::new(nodes.len(), edges);
        let order = sort(nodes, &mut waits)?;
        let mut refreshes = vec![Vec::new(); nodes.len()];
        for edge in waits.edges.iter().filter(|edge| edge.kind.refreshes() && !edge.turned) {
            let refreshed: &mut Vec<usize> = &mut refreshes[edge.from];
            if refreshed.last() != Some(&edge.to) {
                refreshed.push(edge.to);
            }
        }
        let plugins = nodes.iter().map(|node| node.plugin).collect();
        Ok(Plan { order, waits, requirements, refreshes, plugins, namesakes })
    }

    /// All entities in their order.
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
        let mut set_of = vec![0; self.order.len()];
        let mut set_of_id = vec![0; self.order.len()];
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

    /// What an entity requires, in the order in which it says so. An orphan requires nothing.
    #[must_use]
    pub fn requirements(&self, entity: usize) -> &[Requirement] {
        &self.requirements[entity]
    }

    /// Which entities are refreshed when this one changed: it notifies them, or they subscribe to it. Orphans are not refreshed.
    #[must_use]
    pub fn refreshes(&self, entity: usize) -> &[usize] {
        &self.refreshes[entity]
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

    /// What is needed, if that is what makes the edge.
    #[must_use]
    pub fn asset<'a>(&self, nodes: &[Node<'a>]) -> Option<&'a Asset> {
        match self.kind {
            EdgeKind::Needs(place) => nodes.get(self.declared_by())?.edges.needs.get(place),
            _ => None,
        }
    }
}

impl EdgeKind {
    /// Whether a change of one entity refreshes the other one.
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
        }
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cycle, each waiting for the next: ")?;
        let next = self.members.iter().cycle().skip(1);
        for (place, (member, next)) in self.members.iter().zip(next).enumerate() {
            if place == 0 {
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

/// Entities by a key that several of them may share. There are many keys, so no list is allocated for each.
struct Groups<K> {
    /// The places of the first and the last item of each key.
    ends: HashMap<K, (usize, usize)>,
    /// Entities, each with the place of the next item of its key.
    items: Vec<(usize, Option<usize>)>,
}

impl<K: Eq + Hash> Groups<K> {
    fn new() -> Groups<K> {
        Groups { ends: HashMap::new(), items: Vec::new() }
    }

    /// Adds an entity, and gives the first one of its key.
    fn add(&mut self, key: K, entity: usize) -> usize {
        let new = self.items.len();
        self.items.push((entity, None));
        let (first, last) = self.ends.entry(key).or_insert((new, new));
        if *last != new {
            self.items[*last].1 = Some(new);
            *last = new;
        }
        self.items[*first].0
    }

    fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> impl Iterator<Item = usize>
    where
        K: Borrow<Q>,
    {
        let first = self.ends.get(key).map(|(first, _)| self.items[*first]);
        iter::successors(first, |(_, next)| next.map(|next| self.items[next])).map(|(entity, _)| entity)
    }
}

/// Which entities provide an asset.
struct Providers<'a> {
    paths: Groups<Cow<'a, [u8]>>,
    others: Groups<&'a Asset>,
}

impl<'a> Providers<'a> {
    fn new(nodes: &[Node<'a>]) -> Providers<'a> {
        let mut providers = Providers { paths: Groups::new(), others: Groups::new() };
        for (entity, node) in nodes.iter().enumerate() {
            for asset in &node.edges.provides {
                match path(asset) {
                    Some(path) => providers.paths.add(path, entity),
                    None => providers.others.add(asset, entity),
                };
            }
        }
        providers
    }

    /// All entities that provide an asset and count, which for a path means its nearest ancestor that any such entity provides.
    fn of(&self, asset: &Asset, counts: impl Fn(&usize) -> bool) -> Vec<usize> {
        let Some(path) = path(asset) else { return self.others.get(asset).filter(counts).collect() };
        let nearest_first = iter::successors(Some(&*path), |path| parent(path));
        let mut providers = nearest_first.map(|path| self.paths.get(path).filter(&counts).collect::<Vec<_>>());
        providers.find(|providers| !providers.is_empty()).unwrap_or_default()
    }
}

/// The cleaned path that an asset is, if it is one.
fn path(asset: &Asset) -> Option<Cow<'_, [u8]>> {
    if asset.kind != "path" {
        return None;
    }
    let path = &asset.value[..];
    // Nearly all are clean, and there are many.
    let is_clean =
        path.starts_with(b"/") && !path.ends_with(b"/") && !path.contains_str("//") && !path.contains_str("/.");
    let cleaned = || clean(Path::new(OsStr::from_bytes(path))).into_os_string().into_vec();
    Some(if is_clean { Cow::Borrowed(path) } else { Cow::Owned(cleaned()) })
}

/// The parent of a cleaned path.
fn parent(path: &[u8]) -> Option<&[u8]> {
    match path.rfind_byte(b'/')? {
        0 if path.len() > 1 => Some(b"/"),
        0 => None,
        slash => Some(&path[..slash]),
    }
}

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
        for (place, asset) in needs.iter().enumerate() {
            let found = providers.of(asset, |&provider| *orphan || !nodes[provider].edges.orphan);
            if !found.contains(&entity) {
                found.into_iter().for_each(|provider| link(provider, entity, EdgeKind::Needs(place)));
            }
        }
        if !*orphan {
            // Whoever requires itself waits for ever, and has to hear of it.
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

/// Edges by the entity that waits, and in the order in which they were found.
#[derive(Clone, Debug)]
struct Waits {
    edges: Vec<Edge>,
    /// Where the edges of each entity begin, and where the last one's end.
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

/// Where each entity's items begin if items are sorted by entity, and where the last one's end.
fn begins(entities: usize, items: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut begins = vec![0; entities + 1];
    items.for_each(|entity| begins[entity + 1] += 1);
    for entity in 0..entities {
        begins[entity + 1] += begins[entity];
    }
    begins
}

/// Takes always the first entity that waits for nothing any more. Edges among orphans that cannot hold are dropped.
fn sort(nodes: &[Node<'_>], waits: &mut Waits) -> Result<Vec<usize>, Cycle> {
    let waiting = Waiting::new(waits);
    let mut open: Vec<usize> = (0..nodes.len()).map(|entity| waits.of(entity).len()).collect();
    let mut ready: BinaryHeap<Reverse<usize>> = (0..nodes.len()).filter(|&e| open[e] == 0).map(Reverse).collect();
    let mut orphans = (0..nodes.len()).filter(|&entity| nodes[entity].edges.orphan).peekable();
    let mut planned = vec![false; nodes.len()];
    let mut order = Vec::with_capacity(nodes.len());
    let mut dropped: HashSet<(usize, usize)> = HashSet::new();
    loop {
        while let Some(Reverse(entity)) = ready.pop() {
            planned[entity] = true;
            order.push(entity);
            for &other in waiting.of(entity).iter().filter(|&&other| !dropped.contains(&(entity, other))) {
                open[other] -= 1;
                if open[other] == 0 {
                    ready.push(Reverse(other));
                }
            }
        }
        while orphans.next_if(|&orphan| planned[orphan]).is_some() {}
        let Some(&orphan) = orphans.peek() else { break };
        // Orphans wait for orphans only.
        let (from, to) = in_a_cycle(orphan, waits, |from, to| !planned[from] && !dropped.contains(&(from, to)));
        dropped.insert((from, to));
        open[to] -= waits.of(to).iter().filter(|edge| edge.from == from).count();
        if open[to] == 0 {
            ready.push(Reverse(to));
        }
    }
    if let Some(stuck) = planned.iter().position(|planned| !planned) {
        let (_, start) = in_a_cycle(stuck, waits, |from, _| !planned[from]);
        return Err(shortest_cycle(start, nodes, waits, &planned));
    }
    if !dropped.is_empty() {
        let mut edges = mem::take(&mut waits.edges);
        edges.retain(|edge| !dropped.contains(&(edge.from, edge.to)));
        *waits = Waits::new(nodes.len(), edges);
    }
    Ok(order)
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
    let first = (0..way.len()).min_by_key(|&place| way[place].to).unwrap_or(0);
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
        // A directory that nothing defines any more, with a file that somebody still wants: both of one owner.
        let owner = "ENTITY: u\nPROVIDES: user x\n";
        let file = "ENTITY: f\nNEEDS: user x\nNEEDS: path /d/f\nAFTER: d\n";
        check(&format!("{owner}{file}ENTITY: d\nORPHAN: yes\nNEEDS: user x\nPROVIDES: path /d\n"), "[d] [u] [f]");
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
        assert_eq!(plan.order(), [3, 0, 1, 2]);
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

//! Turns entities and the edges between them into the order in which they are worked on.
//!
//! The order is the given one (configuration order of plugins, then entity ID) wherever no edge says otherwise: always the first entity
//! comes next that waits for nothing any more. So an entity that has to wait is pushed behind what it waits for, and stands right there;
//! what it waits for is not pulled forward. Of two entities the later one is worked on first only if the earlier one waits for it, or for
//! something that is later still: no script of a late plugin runs before earlier plugins for somebody else's sake.
//!
//! Orphans are scrubbed against the direction of edges: an orphan never waits for what it needed but goes before it, a user before its
//! group. What an orphan provides is going away, so it provides it for other orphans only. A living entity that names an orphan keeps its
//! place relative to it: a service is refreshed after the file is gone that it subscribes to. All edges between orphans and the living
//! have the orphan first, then, and no cycle arises that was not in what one of both sides declares.

use crate::entity::Entity;
use crate::root::clean;
use bstr::{BStr, BString};
use holo_protocol::{Asset, Edges};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

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

impl<'a> From<&'a Entity> for Node<'a> {
    fn from(entity: &'a Entity) -> Node<'a> {
        let origin = entity.report.sources.first().map(BString::as_ref).unwrap_or_default();
        Node { id: entity.id(), plugin: entity.plugin, edges: &entity.report.edges, origin }
    }
}

impl Plan {
    /// Plans all entities that there are. Where no edge says otherwise they keep the order in which they are given.
    ///
    /// # Errors
    /// Entities that are no orphans wait for each other. Among orphans nobody could mend a cycle, as nothing defines them any more:
    /// there, as many edges as needed do not count.
    pub fn new(nodes: &[Node<'_>]) -> Result<Plan, Cycle> {
        let ids = Ids::new(nodes);
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
        let namesakes = nodes.iter().enumerate().map(|(entity, node)| ids.first(node.id).unwrap_or(entity)).collect();
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

/// Which entities have an ID: usually one.
struct Ids<'a>(HashMap<&'a BStr, Vec<usize>>);

impl<'a> Ids<'a> {
    fn new(nodes: &[Node<'a>]) -> Ids<'a> {
        let mut ids: HashMap<&BStr, Vec<usize>> = HashMap::with_capacity(nodes.len());
        for (entity, node) in nodes.iter().enumerate() {
            ids.entry(node.id).or_default().push(entity);
        }
        Ids(ids)
    }

    fn all(&self, id: &BStr) -> &[usize] {
        self.0.get(id).map_or(&[], Vec::as_slice)
    }

    fn first(&self, id: &BStr) -> Option<usize> {
        self.all(id).first().copied()
    }
}

/// Which entities provide an asset.
struct Providers<'a> {
    paths: HashMap<PathBuf, Vec<usize>>,
    others: HashMap<&'a Asset, Vec<usize>>,
}

impl<'a> Providers<'a> {
    fn new(nodes: &[Node<'a>]) -> Providers<'a> {
        let mut providers = Providers { paths: HashMap::new(), others: HashMap::new() };
        for (entity, node) in nodes.iter().enumerate() {
            for asset in &node.edges.provides {
                let entities = match path(asset) {
                    Some(path) => providers.paths.entry(path).or_default(),
                    None => providers.others.entry(asset).or_default(),
                };
                entities.push(entity);
            }
        }
        providers
    }

    /// All entities that provide an asset and count, which for a path means its nearest ancestor that any such entity provides.
    fn of(&self, asset: &Asset, counts: impl Fn(usize) -> bool) -> Vec<usize> {
        let counting = |entities: Option<&Vec<usize>>| -> Vec<usize> {
            entities.into_iter().flatten().copied().filter(|&entity| counts(entity)).collect()
        };
        match path(asset) {
            Some(path) => {
                let mut nearest_first = path.ancestors().map(|path| counting(self.paths.get(path)));
                nearest_first.find(|entities| !entities.is_empty()).unwrap_or_default()
            }
            None => counting(self.others.get(asset)),
        }
    }
}

/// The cleaned path that an asset is, if it is one.
fn path(asset: &Asset) -> Option<PathBuf> {
    (asset.kind == "path").then(|| clean(Path::new(OsStr::from_bytes(&asset.value))))
}

/// All edges, and what each entity requires.
fn collect(nodes: &[Node<'_>], ids: &Ids<'_>) -> (Vec<Edge>, Vec<Vec<Requirement>>) {
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
                for &other in ids.all(id.as_ref()) {
                    let declared_first = matches!(kind, EdgeKind::Notifies | EdgeKind::Before);
                    let (from, to) = if declared_first { (entity, other) } else { (other, entity) };
                    link(from, to, kind);
                }
            }
        }
        for (place, asset) in needs.iter().enumerate() {
            let found = providers.of(asset, |provider| *orphan || !nodes[provider].edges.orphan);
            if !found.contains(&entity) {
                found.into_iter().for_each(|provider| link(provider, entity, EdgeKind::Needs(place)));
            }
        }
        if !*orphan {
            // Whoever requires itself waits for ever, and has to hear of it.
            requires.iter().filter(|id| *id == node.id).for_each(|_| link(entity, entity, EdgeKind::Requires));
            requirements[entity] = requires.iter().flat_map(|id| required(id, nodes, ids)).collect();
        }
    }
    (edges, requirements)
}

/// The entities that an ID stands for where it is required.
fn required(id: &BString, nodes: &[Node<'_>], ids: &Ids<'_>) -> Vec<Requirement> {
    let living = ids.all(id.as_ref()).iter().filter(|&&entity| !nodes[entity].edges.orphan);
    let living: Vec<Requirement> = living.map(|&entity| Requirement::Entity(entity)).collect();
    if living.is_empty() { vec![Requirement::Unknown(id.clone())] } else { living }
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
    let mut broken = false;
    loop {
        let entity = match ready.pop() {
            Some(Reverse(entity)) => entity,
            None => {
                while orphans.next_if(|&orphan| planned[orphan]).is_some() {}
                let Some(&orphan) = orphans.peek() else { break };
                broken = true;
                somewhere_in_a_cycle(orphan, waits, &planned)
            }
        };
        // An orphan that was taken from a cycle is ready once more when what it waited for is done.
        if mem::replace(&mut planned[entity], true) {
            continue;
        }
        order.push(entity);
        for &other in waiting.of(entity) {
            open[other] -= 1;
            if open[other] == 0 {
                ready.push(Reverse(other));
            }
        }
    }
    if let Some(stuck) = planned.iter().position(|planned| !planned) {
        return Err(shortest_cycle(somewhere_in_a_cycle(stuck, waits, &planned), nodes, waits, &planned));
    }
    if broken {
        let mut places = vec![0; nodes.len()];
        order.iter().enumerate().for_each(|(place, &entity)| places[entity] = place);
        let mut edges = mem::take(&mut waits.edges);
        edges.retain(|edge| places[edge.from] < places[edge.to]);
        *waits = Waits::new(nodes.len(), edges);
    }
    Ok(order)
}

/// Walks from an entity that is not planned to what it waits for, until it comes by for the second time.
fn somewhere_in_a_cycle(start: usize, waits: &Waits, planned: &[bool]) -> usize {
    let mut seen = HashSet::new();
    let mut entity = start;
    while seen.insert(entity) {
        // What is not planned waits for something that is not planned either.
        entity = waits.of(entity).iter().map(|edge| edge.from).find(|&from| !planned[from]).unwrap_or(entity);
    }
    entity
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

//! Plans random graphs, and compares what comes out with plain definitions of what it should be.

use bstr::{BStr, ByteSlice};
use holo::plan::{Cycle, EdgeKind, Node, Plan, Requirement};
use holo_protocol::{Asset, EntityReport};
use std::collections::BTreeSet;

const GRAPHS: u64 = 400;

/// Numbers that look random and are the same each time: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % bound
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..count).collect();
        (1..count).rev().for_each(|last| numbers.swap(last, self.below(last + 1)));
        numbers
    }
}

/// Entities whose IDs are their places.
struct Graph {
    reports: Vec<EntityReport>,
    plugins: Vec<usize>,
}

impl Graph {
    /// Entities of three plugins, one after the other.
    fn without_edges(random: &mut Random) -> Graph {
        let count = 1 + random.below(30);
        let mut plugins: Vec<usize> = (0..count).map(|_| random.below(3)).collect();
        plugins.sort_unstable();
        let reports = (0..count).map(|number| EntityReport::new(number.to_string())).collect();
        Graph { reports, plugins }
    }

    /// Edges of all kinds that all agree with some order.
    fn without_cycles(random: &mut Random) -> Graph {
        let mut graph = Graph::without_edges(random);
        let rank = random.shuffled(graph.reports.len());
        for _ in 0..random.below(2 * rank.len()) {
            let (a, b) = (random.below(rank.len()), random.below(rank.len()));
            if rank[a] < rank[b] {
                graph.link(a, b, random.below(6));
            }
        }
        graph
    }

    fn with_edges(random: &mut Random) -> Graph {
        let mut graph = Graph::without_edges(random);
        let count = graph.reports.len();
        for _ in 0..random.below(2 * count) {
            graph.link(random.below(count), random.below(count), random.below(6));
        }
        graph
    }

    fn with_orphans(mut self, random: &mut Random) -> Graph {
        self.reports.iter_mut().for_each(|report| report.edges.orphan = random.chance(40));
        self
    }

    /// Has one entity go before another one.
    fn link(&mut self, from: usize, to: usize, kind: usize) {
        let id = |number: usize| number.to_string().into();
        match kind {
            0 => self.reports[to].edges.after.push(id(from)),
            1 => self.reports[from].edges.before.push(id(to)),
            2 => self.reports[to].edges.requires.push(id(from)),
            3 => self.reports[to].edges.subscribes.push(id(from)),
            4 => self.reports[from].edges.notifies.push(id(to)),
            _ => {
                self.reports[from].edges.provides.push(Asset::new("unit", id(from)));
                self.reports[to].edges.needs.push(Asset::new("unit", id(from)));
            }
        }
    }

    fn nodes(&self) -> Vec<Node<'_>> {
        std::iter::zip(&self.reports, &self.plugins)
            .map(|(report, &plugin)| Node {
                id: report.id.as_ref(),
                plugin,
                edges: &report.edges,
                origin: BStr::new(""),
            })
            .collect()
    }

    fn plan(&self) -> Result<Plan, Cycle> {
        Plan::new(&self.nodes())
    }

    fn orphan(&self, number: usize) -> bool {
        self.reports[number].edges.orphan
    }

    /// Which entities go before which others, as they should.
    fn pairs(&self) -> BTreeSet<(usize, usize)> {
        let mut pairs = BTreeSet::new();
        for from in 0..self.reports.len() {
            for to in 0..self.reports.len() {
                if self.declares(from, to) && (from != to || self.requires_itself(to)) {
                    pairs.insert(if self.orphan(to) { (to, from) } else { (from, to) });
                }
            }
        }
        pairs
    }

    fn declares(&self, from: usize, to: usize) -> bool {
        let (first, then) = (&self.reports[from], &self.reports[to]);
        let (a, b) = (&first.edges, &then.edges);
        let by_id = [&b.after, &b.requires, &b.subscribes].iter().any(|ids| ids.contains(&first.id))
            || [&a.before, &a.notifies].iter().any(|ids| ids.contains(&then.id));
        let provided = b.needs.iter().any(|asset| a.provides.contains(asset) && !b.provides.contains(asset));
        by_id || (provided && (b.orphan || !a.orphan))
    }

    fn requires_itself(&self, number: usize) -> bool {
        !self.orphan(number) && self.reports[number].edges.requires.contains(&self.reports[number].id)
    }
}

/// Whether a way leads from each entity to each other one.
fn ways(count: usize, pairs: &BTreeSet<(usize, usize)>) -> Vec<Vec<bool>> {
    let mut ways = vec![vec![false; count]; count];
    pairs.iter().for_each(|&(from, to)| ways[from][to] = true);
    for over in 0..count {
        for from in 0..count {
            for to in 0..count {
                ways[from][to] |= ways[from][over] && ways[over][to];
            }
        }
    }
    ways
}

fn places(order: &[usize]) -> Vec<usize> {
    let mut places = vec![usize::MAX; order.len()];
    order.iter().enumerate().for_each(|(place, &number)| places[number] = place);
    assert!(!places.contains(&usize::MAX), "{order:?} leaves something out");
    places
}

/// Calls a check with many graphs, and says which one it failed for.
#[track_caller]
fn for_many(make: impl Fn(&mut Random) -> Graph, check: impl Fn(&Graph, &mut Random)) {
    for seed in 0..GRAPHS {
        let mut random = Random(seed);
        let graph = make(&mut random);
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&graph, &mut random)));
        assert!(checked.is_ok(), "failed for seed {seed}");
    }
}

fn living_and_orphans(random: &mut Random) -> Graph {
    Graph::without_cycles(random).with_orphans(random)
}

#[test]
fn no_edges_change_nothing() {
    for_many(Graph::without_edges, |graph, _| {
        assert!(graph.plan().unwrap().order().iter().copied().eq(0..graph.reports.len()));
    });
}

#[test]
fn the_order_is_a_permutation_that_respects_all_edges() {
    for_many(living_and_orphans, |graph, _| {
        let plan = graph.plan().unwrap();
        let places = places(plan.order());
        for (from, to) in graph.pairs() {
            assert!(places[from] < places[to], "{to} does not wait for {from}");
        }
    });
}

#[test]
fn the_edges_are_those_that_are_declared() {
    for_many(living_and_orphans, |graph, _| {
        let plan = graph.plan().unwrap();
        let edges: BTreeSet<(usize, usize)> = plan.edges().iter().map(|edge| (edge.from, edge.to)).collect();
        assert_eq!(edges, graph.pairs());
        for edge in plan.edges() {
            assert_eq!(edge.turned, graph.orphan(edge.from) && says_the_opposite(graph, edge.from, edge.to, edge.kind));
        }
    });
}

/// Whether the line that makes an edge says the opposite of it.
fn says_the_opposite(graph: &Graph, from: usize, to: usize, kind: EdgeKind) -> bool {
    let (first, then) = (&graph.reports[from], &graph.reports[to]);
    let (a, b) = (&first.edges, &then.edges);
    match kind {
        EdgeKind::After => a.after.contains(&then.id),
        EdgeKind::Requires => a.requires.contains(&then.id),
        EdgeKind::Subscribes => a.subscribes.contains(&then.id),
        EdgeKind::Before => b.before.contains(&first.id),
        EdgeKind::Notifies => b.notifies.contains(&first.id),
        EdgeKind::Needs(_) => a.needs.iter().any(|asset| b.provides.contains(asset)),
    }
}

#[test]
fn nothing_overtakes_what_need_not_wait() {
    for_many(living_and_orphans, |graph, _| {
        let plan = graph.plan().unwrap();
        let places = places(plan.order());
        let count = graph.reports.len();
        let ways = ways(count, &graph.pairs());
        for late in 0..count {
            for early in (0..late).filter(|&early| places[late] < places[early]) {
                let has_to_wait = (late..count).any(|other| ways[other][early]);
                assert!(has_to_wait, "{late} goes before {early} without need");
            }
        }
    });
}

#[test]
fn an_edge_that_holds_already_changes_nothing() {
    for_many(Graph::without_cycles, |graph, random| {
        let order = graph.plan().unwrap().order().to_vec();
        let (a, b) = (random.below(order.len()), random.below(order.len()));
        if a < b {
            let mut more = Graph { reports: graph.reports.clone(), plugins: graph.plugins.clone() };
            more.link(order[a], order[b], random.below(6));
            assert_eq!(more.plan().unwrap().order(), order);
        }
    });
}

#[test]
fn sets_are_the_longest_runs_without_edges() {
    for_many(living_and_orphans, |graph, random| {
        let plan = graph.plan().unwrap();
        let selected: Vec<bool> = graph.reports.iter().map(|_| random.chance(70)).collect();
        let sets = plan.sets(&selected);
        let expected: Vec<usize> = plan.order().iter().copied().filter(|&number| selected[number]).collect();
        assert_eq!(sets.concat(), expected);
        let pairs = graph.pairs();
        for set in &sets {
            let within = pairs.iter().copied().filter(|(from, to)| set.contains(from) && set.contains(to)).collect();
            let ways = ways(graph.reports.len(), &within);
            assert!(!set.is_empty() && ways.iter().flatten().all(|way| !way), "{set:?} depends on itself");
            assert!(set.iter().all(|&number| graph.plugins[number] == graph.plugins[set[0]]));
        }
        for (set, next) in sets.iter().zip(sets.iter().skip(1)) {
            let depends = set.iter().any(|&number| pairs.contains(&(number, next[0])));
            assert!(depends || graph.plugins[set[0]] != graph.plugins[next[0]], "{set:?} and {next:?} could be one");
        }
    });
}

#[test]
fn cycles_are_found_if_there_are_any_and_are_real() {
    let found = std::cell::Cell::new(0);
    for_many(Graph::with_edges, |graph, _| {
        let count = graph.reports.len();
        let ways = ways(count, &graph.pairs());
        let Err(cycle) = graph.plan() else {
            assert!((0..count).all(|number| !ways[number][number]), "a cycle was overlooked");
            return;
        };
        found.set(found.get() + 1);
        let ids: BTreeSet<&BStr> = cycle.members.iter().map(|member| member.id.as_bstr()).collect();
        assert_eq!(ids.len(), cycle.members.len(), "{cycle} goes somewhere twice");
        let number = |id: &BStr| id.to_str().unwrap().parse::<usize>().unwrap();
        let next = cycle.members.iter().cycle().skip(1);
        for (member, next) in cycle.members.iter().zip(next) {
            let pair = (number(next.id.as_ref()), number(member.id.as_ref()));
            assert!(graph.pairs().contains(&pair), "{cycle} is none");
        }
    });
    assert!((GRAPHS / 10..GRAPHS).contains(&found.get()));
}

#[test]
fn orphans_are_never_stuck() {
    let orphans_only = |random: &mut Random| {
        let mut graph = Graph::with_edges(random);
        graph.reports.iter_mut().for_each(|report| report.edges.orphan = true);
        graph
    };
    for_many(orphans_only, |graph, _| {
        let plan = graph.plan().unwrap();
        let places = places(plan.order());
        let pairs = graph.pairs();
        let edges: BTreeSet<(usize, usize)> = plan.edges().iter().map(|edge| (edge.from, edge.to)).collect();
        assert!(edges.iter().all(|&(from, to)| places[from] < places[to]));
        // What does not hold was in a cycle.
        let ways = ways(graph.reports.len(), &pairs);
        for (from, to) in pairs.difference(&edges) {
            assert!(ways[*to][*from], "{to} should wait for {from}");
        }
    });
}

#[test]
fn requirements_and_refreshes_are_those_that_are_declared() {
    for_many(living_and_orphans, |graph, _| {
        let plan = graph.plan().unwrap();
        let places = places(plan.order());
        for (number, report) in graph.reports.iter().enumerate() {
            let edges = &report.edges;
            assert_eq!(plan.requirements(number).len(), if edges.orphan { 0 } else { edges.requires.len() });
            for (id, requirement) in edges.requires.iter().zip(plan.requirements(number)) {
                match requirement {
                    Requirement::Entity(other) => {
                        assert_eq!(graph.reports[*other].id, *id);
                        assert!(!graph.orphan(*other) && places[*other] < places[number]);
                    }
                    Requirement::Unknown(unknown) => {
                        assert_eq!(unknown, id);
                        assert!(graph.reports.iter().any(|other| other.id == *id && other.edges.orphan));
                    }
                }
            }
            let expected: Vec<usize> = (0..graph.reports.len())
                .filter(|&other| {
                    let Graph { reports, .. } = graph;
                    let wanted = reports[other].edges.subscribes.contains(&report.id)
                        || edges.notifies.contains(&reports[other].id);
                    wanted && !graph.orphan(other)
                })
                .collect();
            assert_eq!(plan.refreshes(number), expected);
        }
    });
}

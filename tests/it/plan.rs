//! Plans random graphs, and compares the results with straightforward definitions.

use bstr::{BStr, ByteSlice};
use holo::entities::node::Node;
use holo::entities::node::{EntityIndex, PerEntity};
use holo::plan::{CycleError, Edge, EdgeKind, Plan, Requirement};
use holo_protocol::{Asset, EntityReport, Receipt};
use holo_testing::Random;
use holo_testing::random::{self, cases};
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        without_edges_the_order_is_unchanged,
        order_is_a_permutation_that_respects_all_edges,
        edges_match_the_declarations,
        no_entity_overtakes_without_a_reason,
        satisfied_edge_does_not_change_the_order,
        sets_are_maximal_runs_without_edges,
        reported_cycles_are_real_and_complete,
        cycle_does_not_block_unrelated_entities,
        orphans_are_never_blocked,
        requirements_and_refreshes_match_the_declarations,
        successors_go_first_and_no_living_entity_waits_for_late_orphans,
        cycles_consist_of_living_entities,
        all_claimants_of_an_asset_are_in_conflict,
    ]
}

const GRAPHS: u64 = 400;

/// Entities whose IDs are their indexes.
struct Graph {
    reports: Vec<EntityReport>,
    plugins: Vec<usize>,
}

impl Graph {
    /// Returns entities of three plugins, one after the other.
    fn without_edges(random: &mut Random) -> Graph {
        let count = 1 + random.below(30);
        let mut plugins: Vec<usize> = (0..count).map(|_| random.below(3)).collect();
        plugins.sort_unstable();
        let reports = (0..count).map(|number| EntityReport::new(number.to_string())).collect();
        Graph { reports, plugins }
    }

    /// Returns a graph with edges of all kinds that are consistent with some order.
    fn without_cycles(random: &mut Random) -> Graph {
        let mut graph = Graph::without_edges(random);
        let mut rank: Vec<usize> = (0..graph.reports.len()).collect();
        random.shuffle(&mut rank);
        for _ in 0..random.below(2 * rank.len()) {
            let (a, b) = (random.below(rank.len()), random.below(rank.len()));
            if rank[a] < rank[b] {
                graph.link(a, b, random.below(7));
            }
        }
        graph
    }

    fn with_edges(random: &mut Random) -> Graph {
        let mut graph = Graph::without_edges(random);
        let count = graph.reports.len();
        for _ in 0..random.below(2 * count) {
            graph.link(random.below(count), random.below(count), random.below(7));
        }
        graph
    }

    fn with_orphans(mut self, random: &mut Random) -> Graph {
        self.reports.iter_mut().for_each(|report| report.edges.orphan = random.chance(40));
        self
    }

    /// Adds ownership of a small set of assets.
    fn with_owners(mut self, random: &mut Random) -> Graph {
        let things = [
            ("unit", "a"),
            ("unit", "b"),
            ("path", "/a/b"),
            ("path", "/a//c/"),
            ("path-tree", "/a"),
            ("path-tree", "/a/b"),
            ("path-tree", "/ab"),
            ("path", "/a"),
        ];
        for report in &mut self.reports {
            while random.chance(25) {
                let (kind, value) = *random.pick(&things);
                report.edges.owns.push(Asset::new(kind, value));
            }
        }
        self
    }

    /// Makes one entity precede another.
    fn link(&mut self, from: usize, to: usize, kind: usize) {
        let id = |number: usize| number.to_string().into();
        match kind {
            0 => self.reports[to].edges.after.push(id(from)),
            1 => self.reports[from].edges.before.push(id(to)),
            2 => self.reports[to].edges.requires.push(id(from)),
            3 => self.reports[to].edges.subscribes.push(id(from)),
            4 => self.reports[from].edges.notifies.push(id(to)),
            5 => {
                let receipt = Receipt { key: "k".into(), sender: id(from), name: "n".into() };
                self.reports[to].edges.receives.push(receipt);
            }
            _ => {
                self.reports[from].edges.provides.push(Asset::new("unit", id(from)));
                self.reports[to].edges.needs.push(Asset::new("unit", id(from)));
            }
        }
    }

    fn nodes(&self) -> PerEntity<Node<'_>> {
        std::iter::zip(&self.reports, &self.plugins)
            .map(|(report, &plugin)| Node {
                id: report.id.as_ref(),
                plugin: plugin.into(),
                // Leaked, so that it lives as long as the test.
                edges: Box::leak(Box::new(report.edges.borrowed())),
                origin: BStr::new(""),
            })
            .collect()
    }

    fn plan(&self) -> Result<Planned, CycleError> {
        Plan::new(&self.nodes()).map(Planned)
    }

    fn plan_of_selected(&self, selected: &[bool]) -> Result<Planned, CycleError> {
        Plan::for_selected(&self.nodes(), &selected.iter().copied().collect()).map(Planned)
    }

    fn orphan(&self, number: usize) -> bool {
        self.reports[number].edges.orphan
    }

    /// Returns the pairs of entities in which the first must precede the second.
    fn pairs(&self) -> BTreeSet<(usize, usize)> {
        let mut pairs = BTreeSet::new();
        for from in 0..self.reports.len() {
            for to in 0..self.reports.len() {
                if self.declares(from, to) && (from != to || self.requires_itself(to)) {
                    pairs.insert(if self.orphan(to) { (to, from) } else { (from, to) });
                }
            }
        }
        let late = self.late(&pairs);
        pairs.retain(|(from, to)| !late.contains(from) || self.orphan(*to));
        for orphan in 0..self.reports.len() {
            pairs.extend(self.successors(orphan).into_iter().map(|successor| (successor, orphan)));
        }
        pairs
    }

    /// Returns the orphans with successors, and all orphans that follow them according to these pairs.
    fn late(&self, pairs: &BTreeSet<(usize, usize)>) -> BTreeSet<usize> {
        let orphans = 0..self.reports.len();
        let mut late: BTreeSet<usize> = orphans.filter(|&orphan| !self.successors(orphan).is_empty()).collect();
        loop {
            let after_late = pairs.iter().filter(|(from, to)| late.contains(from) && self.orphan(*to));
            let more: Vec<usize> = after_late.map(|(_, to)| *to).filter(|to| !late.contains(to)).collect();
            if more.is_empty() {
                return late;
            }
            late.extend(more);
        }
    }

    /// Returns the living entities that own an asset of an orphan.
    fn successors(&self, orphan: usize) -> BTreeSet<usize> {
        let all = 0..self.reports.len();
        let overlaps = |other: &usize| {
            let pairs = self.reports[*other].edges.owns.iter();
            pairs.clone().any(|one| self.reports[orphan].edges.owns.iter().any(|other| meet(one, other, true)))
        };
        all.filter(|other| self.orphan(orphan) && !self.orphan(*other) && overlaps(other)).collect()
    }

    /// Returns true if an entity is in conflict with another.
    fn is_contested(&self, number: usize) -> bool {
        let owns = |number: usize| &self.reports[number].edges.owns;
        let with =
            |other: usize| owns(number).iter().any(|one| owns(other).iter().any(|other| meet(one, other, false)));
        let living = |number: usize| !self.orphan(number);
        living(number) && (0..self.reports.len()).any(|other| other != number && living(other) && with(other))
    }

    fn declares(&self, from: usize, to: usize) -> bool {
        let (first, then) = (&self.reports[from], &self.reports[to]);
        let (a, b) = (&first.edges, &then.edges);
        let by_id = [&b.after, &b.requires, &b.subscribes].iter().any(|ids| ids.contains(&first.id))
            || b.receives.iter().any(|receipt| receipt.sender == first.id)
            || [&a.before, &a.notifies].iter().any(|ids| ids.contains(&then.id));
        let provided = b.needs.iter().any(|asset| a.provides.contains(asset) && !b.provides.contains(asset));
        by_id || (provided && (b.orphan || !a.orphan))
    }

    fn requires_itself(&self, number: usize) -> bool {
        let edges = &self.reports[number].edges;
        let senders = edges.receives.iter().map(|receipt| &receipt.sender);
        !self.orphan(number) && edges.requires.iter().chain(senders).any(|id| *id == self.reports[number].id)
    }
}

/// Returns true if two assets overlap: they are equal, or trees of which one contains the other. A path overlaps with a
/// tree only if one of them belongs to an orphan.
fn meet(one: &Asset, other: &Asset, with_orphan: bool) -> bool {
    let normal = |asset: &Asset| {
        (asset.kind.clone(), asset.value.to_string().replace("//", "/").trim_end_matches('/').to_owned())
    };
    let ((one, a), (other, b)) = (normal(one), normal(other));
    let within = |inner: &str, outer: &str| inner == outer || inner.starts_with(&format!("{outer}/"));
    match (&*one, &*other) {
        _ if (&one, &a) == (&other, &b) => true,
        _ if one == "path-tree" && other == "path-tree" => within(&a, &b) || within(&b, &a),
        _ if one == "path" && other == "path-tree" => with_orphan && within(&a, &b),
        _ if one == "path-tree" && other == "path" => with_orphan && within(&b, &a),
        _ => false,
    }
}

/// A plan, with numbers as indexes.
#[derive(Debug)]
struct Planned(Plan);

fn numbers(entities: &[EntityIndex]) -> Vec<usize> {
    entities.iter().copied().map(usize::from).collect()
}

impl Planned {
    fn order(&self) -> Vec<usize> {
        numbers(self.0.order())
    }

    fn edges(&self) -> impl Iterator<Item = (usize, usize, &Edge)> {
        self.0.edges().iter().map(|edge| (edge.from.into(), edge.to.into(), edge))
    }

    fn pairs(&self) -> BTreeSet<(usize, usize)> {
        self.edges().map(|(from, to, _)| (from, to)).collect()
    }

    fn sets(&self, selected: &[bool]) -> Vec<Vec<usize>> {
        self.0.sets(&selected.iter().copied().collect()).iter().map(|set| numbers(set)).collect()
    }
}

/// Returns for each pair of entities whether a path connects them.
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

/// Returns the position of each entity in an order.
fn positions(order: &[usize]) -> Vec<usize> {
    let mut positions = vec![usize::MAX; order.len()];
    order.iter().enumerate().for_each(|(position, &number)| positions[number] = position);
    assert!(!positions.contains(&usize::MAX), "{order:?} leaves something out");
    positions
}

/// Runs a check with many graphs.
#[track_caller]
fn for_many(make: impl Fn(&mut Random) -> Graph + Sync, check: impl Fn(&Graph, &mut Random) + Sync) {
    cases(GRAPHS, |random| {
        let graph = make(random);
        check(&graph, random);
    });
}

/// Returns true if only one case is run, which may lack the feature that a test looks for.
fn living_and_orphans(random: &mut Random) -> Graph {
    Graph::without_cycles(random).with_orphans(random).with_owners(random)
}

fn without_edges_the_order_is_unchanged() {
    for_many(Graph::without_edges, |graph, _| {
        assert!(graph.plan().unwrap().order().into_iter().eq(0..graph.reports.len()));
    });
}

fn order_is_a_permutation_that_respects_all_edges() {
    for_many(living_and_orphans, |graph, _| {
        let plan = graph.plan().unwrap();
        let positions = positions(&plan.order());
        for (from, to) in graph.pairs() {
            assert!(positions[from] < positions[to], "{to} does not wait for {from}");
        }
    });
}

fn edges_match_the_declarations() {
    for_many(living_and_orphans, |graph, _| {
        let plan = graph.plan().unwrap();
        let edges = plan.pairs();
        assert_eq!(edges, graph.pairs());
        for (from, to, edge) in plan.edges().filter(|(_, _, edge)| !matches!(edge.kind, EdgeKind::Owns(_))) {
            assert_eq!(edge.reversed, graph.orphan(from) && says_the_opposite(graph, from, to, edge.kind));
        }
    });
}

/// Returns true if an edge is the reverse of its declaration.
fn says_the_opposite(graph: &Graph, from: usize, to: usize, kind: EdgeKind) -> bool {
    let (first, then) = (&graph.reports[from], &graph.reports[to]);
    let (a, b) = (&first.edges, &then.edges);
    match kind {
        EdgeKind::After => a.after.contains(&then.id),
        EdgeKind::Requires => a.requires.contains(&then.id),
        EdgeKind::Subscribes => a.subscribes.contains(&then.id),
        EdgeKind::Receives => a.receives.iter().any(|receipt| receipt.sender == then.id),
        EdgeKind::Before => b.before.contains(&first.id),
        EdgeKind::Notifies => b.notifies.contains(&first.id),
        EdgeKind::Needs(_) => a.needs.iter().any(|asset| b.provides.contains(asset)),
        EdgeKind::Owns(_) => false,
    }
}

fn no_entity_overtakes_without_a_reason() {
    for_many(living_and_orphans, |graph, _| {
        let plan = graph.plan().unwrap();
        let positions = positions(&plan.order());
        let count = graph.reports.len();
        let ways = ways(count, &graph.pairs());
        for late in 0..count {
            for early in (0..late).filter(|&early| positions[late] < positions[early]) {
                let has_to_wait = (late..count).any(|other| ways[other][early]);
                assert!(has_to_wait, "{late} goes before {early} without need");
            }
        }
    });
}

fn satisfied_edge_does_not_change_the_order() {
    for_many(Graph::without_cycles, |graph, random| {
        let order = graph.plan().unwrap().order();
        let (a, b) = (random.below(order.len()), random.below(order.len()));
        if a < b {
            let mut more = Graph { reports: graph.reports.clone(), plugins: graph.plugins.clone() };
            more.link(order[a], order[b], random.below(7));
            assert_eq!(more.plan().unwrap().order(), order);
        }
    });
}

fn sets_are_maximal_runs_without_edges() {
    for_many(living_and_orphans, |graph, random| {
        let plan = graph.plan().unwrap();
        let selected: Vec<bool> = graph.reports.iter().map(|_| random.chance(70)).collect();
        let sets = plan.sets(&selected);
        let expected: Vec<usize> = plan.order().into_iter().filter(|&number| selected[number]).collect();
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

fn reported_cycles_are_real_and_complete() {
    let found = AtomicUsize::new(0);
    for_many(Graph::with_edges, |graph, _| {
        let count = graph.reports.len();
        let ways = ways(count, &graph.pairs());
        let Err(cycle) = graph.plan() else {
            assert!((0..count).all(|number| !ways[number][number]), "a cycle was overlooked");
            return;
        };
        found.fetch_add(1, Ordering::Relaxed);
        let ids: BTreeSet<&BStr> = cycle.members.iter().map(|member| member.id.as_bstr()).collect();
        assert_eq!(ids.len(), cycle.members.len(), "{cycle} goes somewhere twice");
        let number = |id: &BStr| id.to_str().unwrap().parse::<usize>().unwrap();
        let next = cycle.members.iter().cycle().skip(1);
        for (member, next) in cycle.members.iter().zip(next) {
            let pair = (number(next.id.as_ref()), number(member.id.as_ref()));
            assert!(graph.pairs().contains(&pair), "{cycle} is none");
        }
    });
    assert!(!random::are_many() || found.into_inner() > 0);
}

fn cycle_does_not_block_unrelated_entities() {
    let found = AtomicUsize::new(0);
    for_many(Graph::with_edges, |graph, random| {
        let count = graph.reports.len();
        let pairs = graph.pairs();
        let ways = ways(count, &pairs);
        let is_stuck = |number: usize| (0..count).any(|other| ways[other][other] && ways[other][number]);
        let selected: Vec<bool> = (0..count).map(|number| random.chance(70) && !is_stuck(number)).collect();
        let plan = graph.plan_of_selected(&selected).unwrap();
        let expected: BTreeSet<usize> = (0..count).filter(|&number| !is_stuck(number)).collect();
        assert_eq!(plan.order().into_iter().collect::<BTreeSet<_>>(), expected);
        let order = plan.order();
        let position = |number: usize| order.iter().position(|&other| other == number);
        for (from, to) in pairs.iter().filter(|(_, to)| expected.contains(to)) {
            assert!(position(*from) < position(*to), "{to} does not wait for {from}");
        }
        let in_sets: BTreeSet<usize> = plan.sets(&selected).concat().into_iter().collect();
        assert!((0..count).all(|number| in_sets.contains(&number) == selected[number]));
        // Selecting a blocked entity is refused, with a cycle that it follows.
        for number in (0..count).filter(|&number| is_stuck(number)) {
            let mut selected = selected.clone();
            selected[number] = true;
            let cycle = graph.plan_of_selected(&selected).unwrap_err();
            let member = cycle.members[0].id.to_str().unwrap().parse::<usize>().unwrap();
            assert!(ways[member][member] && ways[member][number], "{number} does not come after {cycle}");
            found.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(!random::are_many() || found.into_inner() > 0);
}

fn orphans_are_never_blocked() {
    let orphans_only = |random: &mut Random| {
        let mut graph = Graph::with_edges(random);
        graph.reports.iter_mut().for_each(|report| report.edges.orphan = true);
        graph
    };
    for_many(orphans_only, |graph, _| {
        let plan = graph.plan().unwrap();
        let positions = positions(&plan.order());
        let pairs = graph.pairs();
        let edges = plan.pairs();
        assert!(edges.iter().all(|&(from, to)| positions[from] < positions[to]));
        // A dropped edge was part of a cycle.
        let ways = ways(graph.reports.len(), &pairs);
        for (from, to) in pairs.difference(&edges) {
            assert!(ways[*to][*from], "{to} should wait for {from}");
        }
    });
}

fn requirements_and_refreshes_match_the_declarations() {
    for_many(living_and_orphans, |graph, _| {
        let plan = graph.plan().unwrap();
        let positions = positions(&plan.order());
        let late = graph.late(&graph.pairs());
        for (number, report) in graph.reports.iter().enumerate() {
            let edges = &report.edges;
            assert_eq!(plan.0.requirements(number.into()).len(), if edges.orphan { 0 } else { edges.requires.len() });
            for (id, requirement) in edges.requires.iter().zip(plan.0.requirements(number.into())) {
                match requirement {
                    Requirement::Entity(other) => {
                        let other = usize::from(*other);
                        assert_eq!(graph.reports[other].id, *id);
                        assert!(!graph.orphan(other) && positions[other] < positions[number]);
                    }
                    Requirement::Unknown(unknown) => {
                        assert_eq!(unknown, id);
                        assert!(graph.reports.iter().any(|other| other.id == *id && other.edges.orphan));
                    }
                }
            }
            // A late orphan changes too late to refresh another entity.
            let is_late = late.contains(&number);
            let expected: Vec<usize> = (0..graph.reports.len())
                .filter(|&other| {
                    let Graph { reports, .. } = graph;
                    let wanted = reports[other].edges.subscribes.contains(&report.id)
                        || edges.notifies.contains(&reports[other].id);
                    wanted && !graph.orphan(other) && !is_late
                })
                .collect();
            assert_eq!(numbers(plan.0.refreshes(number.into())), expected);
        }
    });
}

fn successors_go_first_and_no_living_entity_waits_for_late_orphans() {
    let found = AtomicUsize::new(0);
    for_many(living_and_orphans, |graph, _| {
        let plan = graph.plan().unwrap();
        let positions = positions(&plan.order());
        for orphan in 0..graph.reports.len() {
            let successors: BTreeSet<usize> = numbers(plan.0.successors(orphan.into())).into_iter().collect();
            assert_eq!(successors, graph.successors(orphan));
            assert!(
                successors.iter().all(|&successor| positions[successor] < positions[orphan]),
                "{orphan} goes too early"
            );
            found.fetch_add(successors.len(), Ordering::Relaxed);
        }
        let late = graph.late(&graph.pairs());
        assert!(plan.edges().all(|(from, to, _)| !late.contains(&from) || graph.orphan(to)));
    });
    assert!(!random::are_many() || found.into_inner() > 0);
}

fn cycles_consist_of_living_entities() {
    let any = |random: &mut Random| Graph::with_edges(random).with_orphans(random).with_owners(random);
    for_many(any, |graph, _| {
        let living: BTreeSet<(usize, usize)> =
            graph.pairs().into_iter().filter(|(from, to)| !graph.orphan(*from) && !graph.orphan(*to)).collect();
        let ways = ways(graph.reports.len(), &living);
        let is_circular = (0..graph.reports.len()).any(|number| ways[number][number]);
        match graph.plan() {
            Ok(plan) => {
                positions(&plan.order());
                assert!(!is_circular, "a cycle was overlooked");
            }
            Err(cycle) => {
                assert!(is_circular, "{cycle} is none of the living");
                let number = |id: &BStr| id.to_str().unwrap().parse::<usize>().unwrap();
                assert!(cycle.members.iter().all(|member| !graph.orphan(number(member.id.as_ref()))), "{cycle}");
            }
        }
    });
}

fn all_claimants_of_an_asset_are_in_conflict() {
    let found = AtomicUsize::new(0);
    for_many(living_and_orphans, |graph, _| {
        let plan = graph.plan().unwrap();
        for number in 0..graph.reports.len() {
            let conflicts: Vec<_> = plan.0.conflicts_of(number.into()).collect();
            assert_eq!(!conflicts.is_empty(), graph.is_contested(number), "{number}: {conflicts:?}");
            assert!(
                conflicts.iter().all(|conflict| conflict.owners.len() > 1 && conflict.owners.contains(&number.into()))
            );
            found.fetch_add(conflicts.len(), Ordering::Relaxed);
        }
    });
    assert!(!random::are_many() || found.into_inner() > 0);
}

//! Tests of plans.

use super::ownership::Contested;
use super::*;
use holo_protocol::EntityReport;

fn parse(report: &str) -> Vec<EntityReport> {
    EntityReport::parse_all(report.as_bytes(), 4).unwrap()
}

/// Creates nodes, with one plugin per first letter of an ID, and a source for each entity.
fn nodes(reports: &[EntityReport]) -> PerEntity<Node<'_>> {
    reports
        .iter()
        .map(|report| Node {
            id: report.id.as_ref(),
            plugin: usize::from(report.id[0]).into(),
            // Leaked, so that it lives as long as the test.
            edges: Box::leak(Box::new(report.edges.borrowed())),
            origin: report.sources.first().map(BString::as_ref).unwrap_or_default(),
        })
        .collect()
}

fn numbers(entities: &[EntityIndex]) -> Vec<usize> {
    entities.iter().map(|&entity| entity.into()).collect()
}

fn all(reports: &[EntityReport]) -> Selected {
    reports.iter().map(|_| true).collect()
}

/// Checks the order of the plan, given as IDs with sets in brackets.
#[track_caller]
fn check(report: &str, expected: &str) {
    let reports = parse(report);
    let plan = Plan::new(&nodes(&reports)).unwrap();
    let sets = plan.sets(&all(&reports));
    let show = |set: &Vec<EntityIndex>| {
        format!("[{}]", numbers(set).iter().map(|&e| reports[e].id.to_string()).collect::<Vec<_>>().join(" "))
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
fn without_edges_the_given_order_is_kept() {
    check("", "");
    check("ENTITY: b1\nENTITY: b0\nENTITY: a\nENTITY: b2\n", "[b1 b0] [a] [b2]");
}

#[test]
fn entity_before_all_of_a_type_is_pulled_forward_unless_it_waits() {
    let packages = "ENTITY: f:1\nENTITY: p:1\nENTITY: p:2\n";
    check(&format!("{packages}ENTITY: s:1\nENTITY: s:2\nBEFORE: p:*\n"), "[f:1] [s:2] [p:1 p:2] [s:1]");
    check(&format!("{packages}ENTITY: s:1\nENTITY: s:2\nBEFORE: p:*\nAFTER: p:1\n"), "[f:1] [p:1] [s:2] [p:2] [s:1]");
    check(&format!("{packages}ENTITY: s:2\nORPHAN: yes\nBEFORE: p:*\n"), "[f:1] [p:1 p:2] [s:2]");
    check("ENTITY: s:1\nBEFORE: p:*\nENTITY: f:1\nENTITY: p:1\n", "[s:1] [f:1] [p:1]");
}

#[test]
fn waiting_entity_comes_right_after_its_requirement() {
    check("ENTITY: a1\nAFTER: a3\nENTITY: a2\nENTITY: a3\nENTITY: a4\n", "[a2 a3] [a1 a4]");
    check("ENTITY: a1\nENTITY: b2\nENTITY: c3\nBEFORE: a1\nENTITY: d4\n", "[b2] [c3] [a1] [d4]");
    check("ENTITY: a1\nREQUIRES: a2\nENTITY: a2\nREQUIRES: a4\nENTITY: a3\nENTITY: a4\n", "[a3 a4] [a2] [a1]");
    check("ENTITY: a1\nSUBSCRIBES: a2\nENTITY: a2\nENTITY: a3\nNOTIFIES: a2\n", "[a3] [a2] [a1]");
}

#[test]
fn satisfied_edges_only_split_sets() {
    check("ENTITY: a1\nENTITY: a2\nENTITY: a3\nAFTER: a2\nENTITY: a4\nAFTER: a1\n", "[a1 a2] [a3 a4]");
}

#[test]
fn sets_contain_selected_entities_only() {
    let reports = parse("ENTITY: a1\nENTITY: b2\nAFTER: a1\nENTITY: a3\nAFTER: b2\nENTITY: a4\nAFTER: a1\n");
    let plan = Plan::new(&nodes(&reports)).unwrap();
    let sets = plan.sets(&[true, false, true, true].into_iter().collect());
    assert_eq!(sets.iter().map(|set| numbers(set)).collect::<Vec<_>>(), [vec![0, 2], vec![3]]);
    assert!(plan.sets(&[].into_iter().collect()).is_empty());
}

#[test]
fn unknown_ids_affect_requirements_only() {
    let report = "ENTITY: a\nAFTER: x\nBEFORE: x\nSUBSCRIBES: x\nNOTIFIES: x\nNEEDS: user x\nREQUIRES: b\nREQUIRES: y\n\
                  ENTITY: b\n";
    let reports = parse(report);
    let plan = Plan::new(&nodes(&reports)).unwrap();
    assert_eq!(numbers(plan.order()), [1, 0]);
    assert_eq!(plan.requirements(0.into()), [Requirement::Entity(1.into()), Requirement::Unknown("y".into())]);
    assert!(plan.requirements(1.into()).is_empty());
}

#[test]
fn assets_order_only() {
    check(
        "ENTITY: a\nNEEDS: user x\nNEEDS: user y\nENTITY: b\nPROVIDES: user x\nENTITY: c\nPROVIDES: group y\n",
        "[b] [a] [c]",
    );
    let reports = parse("ENTITY: a\nNEEDS: user x y\nENTITY: b\nPROVIDES: user x y\nENTITY: c\nPROVIDES: user x y\n");
    let nodes = nodes(&reports);
    let plan = Plan::new(&nodes).unwrap();
    assert_eq!(numbers(plan.order()), [1, 2, 0]);
    assert!(plan.requirements(0.into()).is_empty());
    assert_eq!(plan.edges()[0].asset(&nodes), Some(&Asset { kind: "user".into(), value: "x y".into() }));
}

#[test]
fn paths_are_provided_by_the_nearest_ancestor() {
    let paths = "ENTITY: c\nPROVIDES: path /a\nENTITY: d\nPROVIDES: path /a/./b/\n\
                 ENTITY: e\nPROVIDES: path /a/bc\nENTITY: f\nPROVIDES: path /\n";
    let after = |needed: &str| {
        let reports = parse(&format!("ENTITY: a\nNEEDS: path {needed}\n{paths}"));
        let plan = Plan::new(&nodes(&reports)).unwrap();
        plan.edges().iter().map(|edge| reports[usize::from(edge.from)].id.to_string()).collect::<String>()
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
fn provider_of_its_own_need_does_not_wait() {
    check(
        "ENTITY: a\nNEEDS: path /x/y\nPROVIDES: path /x\nENTITY: b\nPROVIDES: path /x\nENTITY: c\nPROVIDES: path /\n",
        "[a] [b] [c]",
    );
    check("ENTITY: a\nAFTER: a\nNOTIFIES: a\nSUBSCRIBES: a\nENTITY: b\n", "[a] [b]");
}

#[test]
fn id_stands_for_all_entities_that_have_it() {
    check("ENTITY: a\nREQUIRES: b\nENTITY: b\nENTITY: b\nENTITY: c\n", "[b] [b] [a] [c]");
    check("ENTITY: b\nENTITY: b\nBEFORE: a\nENTITY: a\n", "[b] [b] [a]");
}

#[test]
fn changes_refresh_subscribers_and_notified_entities() {
    let reports =
        parse("ENTITY: a\nNOTIFIES: c\nNOTIFIES: c\nENTITY: b\nSUBSCRIBES: a\nENTITY: c\nSUBSCRIBES: a\nAFTER: b\n");
    let plan = Plan::new(&nodes(&reports)).unwrap();
    assert_eq!(numbers(plan.refreshes(0.into())), [1, 2]);
    assert!(plan.refreshes(1.into()).is_empty());
}

#[test]
fn orphans_precede_what_they_needed() {
    let orphan = "ORPHAN: yes\n";
    check(&format!("ENTITY: g\n{orphan}PROVIDES: group x\nENTITY: u\n{orphan}NEEDS: group x\n"), "[u] [g]");
    check(&format!("ENTITY: g\n{orphan}BEFORE: u\nENTITY: u\n{orphan}\n"), "[u] [g]");
    check(&format!("ENTITY: p\nENTITY: u\n{orphan}REQUIRES: p\nREQUIRES: x\n"), "[u] [p]");
}

#[test]
fn orphans_do_not_provide_assets_to_living_entities() {
    let report = "ENTITY: a\nNEEDS: path /x/y\nREQUIRES: b\nENTITY: b\nORPHAN: yes\nPROVIDES: path /x/y\n\
                  ENTITY: c\nPROVIDES: path /x\n";
    let reports = parse(report);
    let plan = Plan::new(&nodes(&reports)).unwrap();
    assert_eq!(numbers(plan.order()), [1, 2, 0]);
    assert_eq!(
        plan.edges().iter().map(|edge| (usize::from(edge.from), edge.kind)).collect::<Vec<_>>(),
        [(1, EdgeKind::Requires), (2, EdgeKind::Needs(0))]
    );
    assert_eq!(plan.requirements(0.into()), [Requirement::Unknown("b".into())]);
    assert!(plan.requirements(1.into()).is_empty());
}

#[test]
fn orphan_refreshes_but_is_not_refreshed() {
    let orphan = "ENTITY: f\nORPHAN: yes\n";
    let refreshes = |report: &str| {
        let reports = parse(report);
        let plan = Plan::new(&nodes(&reports)).unwrap();
        (numbers(plan.order()), numbers(plan.refreshes(0.into())), numbers(plan.refreshes(1.into())))
    };
    assert_eq!(refreshes(&format!("ENTITY: s\nSUBSCRIBES: f\nREQUIRES: f\n{orphan}")), (vec![1, 0], vec![], vec![0]));
    assert_eq!(refreshes(&format!("ENTITY: s\n{orphan}NOTIFIES: s\n")), (vec![1, 0], vec![], vec![0]));
    assert_eq!(refreshes(&format!("ENTITY: s\nNOTIFIES: f\n{orphan}SUBSCRIBES: s\n")), (vec![1, 0], vec![], vec![]));
}

#[test]
fn orphan_between_living_entities_makes_no_cycle() {
    // A directory without a definition, with a file that is still defined; both have the same owner.
    let owner = "ENTITY: u\nPROVIDES: user x\n";
    let file = "ENTITY: f\nNEEDS: user x\nNEEDS: path /d/f\nAFTER: d\n";
    check(&format!("{owner}{file}ENTITY: d\nORPHAN: yes\nNEEDS: user x\nPROVIDES: path /d\n"), "[d] [u] [f]");
}

#[test]
fn orphan_restores_what_is_edited() {
    let orphan = "ENTITY: o\nORPHAN: yes\nOWNS: path-shared /a\n";
    let edit = "ENTITY: e\nOWNS: path-edited /a/b\n";
    check(&format!("{edit}{orphan}"), "[o] [e]");
    check(&format!("{edit}ENTITY: o\nORPHAN: yes\nOWNS: path /a/b\n"), "[o] [e]");
    check(&format!("{edit}ENTITY: o\nORPHAN: yes\nOWNS: path /a/c\n"), "[e] [o]");
    // Another entity takes over a part, unless it waits for the edit: there would be a cycle.
    check(&format!("{edit}ENTITY: s\nOWNS: path /a/c\n{orphan}"), "[s] [o] [e]");
    check(&format!("{edit}ENTITY: s\nAFTER: e\nOWNS: path /a/c\n{orphan}"), "[e] [s] [o]");
    let reports = parse(&format!("ENTITY: p\nOWNS: path /a/b\n{edit}ENTITY: f\nOWNS: path-edited /a/b\n"));
    assert!(Plan::new(&nodes(&reports)).unwrap().conflicts().is_empty());
}

#[test]
fn orphan_restores_permissions_of_what_others_find() {
    let orphan = "ENTITY: o\nORPHAN: yes\nOWNS: path-access /a/b\n";
    for owned in
        ["path /a/b", "path /a/b/c/d", "path-tree /a/b", "path-tree /a", "path-shared /a/b/c", "path-edited /a/b/c"]
    {
        check(&format!("ENTITY: e\nOWNS: {owned}\n{orphan}"), "[o] [e]");
    }
    check(&format!("ENTITY: e\nPROVIDES: path /a/b/c\nNEEDS: path /a/b\n{orphan}"), "[o] [e]");
    for other in ["path /a", "path /a/bc", "path-tree /c", "path-shared /a/c"] {
        check(&format!("ENTITY: e\nOWNS: {other}\n{orphan}"), "[e] [o]");
    }
    // An orphan in the directory would be removed before it, but is taken over.
    let directory = "ENTITY: o\nORPHAN: yes\nPROVIDES: path /a\nOWNS: path-access /a\n";
    let file = "ENTITY: p\nORPHAN: yes\nNEEDS: path /a\nOWNS: path /a/b\n";
    check(&format!("ENTITY: e\nOWNS: path-tree /a\n{directory}{file}"), "[o] [e] [p]");
    check(&format!("ENTITY: e\nOWNS: path-tree /c\n{directory}{file}"), "[e] [p] [o]");
}

#[test]
fn what_orphans_restore_gets_permissions() {
    let entity = "ENTITY: e\nPROVIDES: path /a/b\nOWNS: path /a/b\nOWNS: path-access /a/b\n";
    for owned in ["path /a/b/c", "path-tree /a/b", "path-tree /a", "path-shared /a/b/c", "path-access /a/b/c"] {
        check(&format!("{entity}ENTITY: o\nORPHAN: yes\nOWNS: {owned}\n"), "[o] [e]");
    }
    check(&format!("{entity}ENTITY: o\nORPHAN: yes\nOWNS: path-tree /a/c\n"), "[e] [o]");
    // The orphan comes after an entity that takes a part over. The directory that this entity is in exists then.
    let successor = "ENTITY: s\nNEEDS: path /a/b\nOWNS: path /a/b/c\n";
    check(&format!("{entity}{successor}ENTITY: o\nORPHAN: yes\nOWNS: path-tree /a/b\n"), "[s] [o] [e]");
}

#[test]
fn successor_precedes_its_orphan() {
    let orphan = "ORPHAN: yes\nOWNS: unit x\n";
    check(&format!("ENTITY: a\n{orphan}ENTITY: b\nOWNS: unit x\n"), "[b] [a]");
    // No asset is taken over: the living entity comes after the orphan that it names.
    check(&format!("ENTITY: b\nOWNS: unit y\nAFTER: a\nENTITY: a\n{orphan}"), "[a] [b]");
    // There would be a cycle if the living entity waited for the orphan, directly or indirectly.
    let over =
        "ENTITY: b\nOWNS: unit x\nAFTER: a\nAFTER: c\nENTITY: c\nSUBSCRIBES: d\nENTITY: d\nORPHAN: yes\nREQUIRES: a\n";
    check(&format!("ENTITY: a\n{orphan}{over}"), "[d] [c] [b] [a]");
    let over = over.replace("REQUIRES: a", "BEFORE: a");
    check(&format!("ENTITY: a\n{orphan}{over}"), "[c] [b] [a] [d]");
}

#[test]
fn succession_edge_names_its_asset() {
    let reports = parse("ENTITY: a\nORPHAN: yes\nOWNS: unit y\nOWNS: path /a/b\nENTITY: b\nOWNS: path-tree /a\n");
    let nodes = nodes(&reports);
    let plan = Plan::new(&nodes).unwrap();
    assert_eq!((numbers(plan.successors(0.into())), numbers(plan.successors(1.into()))), (vec![1], vec![]));
    assert_eq!(plan.edges()[0].asset(&nodes), Some(&Asset { kind: "path".into(), value: "/a/b".into() }));
    assert_eq!((plan.edges()[0].from, plan.edges()[0].declared_by()), (1.into(), 0.into()));
}

#[test]
fn orphan_hands_over_to_all_owners_of_a_shared_directory() {
    let living =
        "ENTITY: a\nOWNS: path-shared /x\nENTITY: b\nOWNS: path-shared /x/y\nENTITY: c\nOWNS: path-shared /z\n";
    let successors = |owned: &str| {
        let reports = parse(&format!("{living}ENTITY: d\nORPHAN: yes\nOWNS: {owned}\n"));
        let mut successors = numbers(Plan::new(&nodes(&reports)).unwrap().successors(3.into()));
        successors.sort_unstable();
        successors
    };
    assert_eq!(successors("path /x/y/f"), [0, 1]);
    assert_eq!(successors("path-tree /x"), [0, 1]);
    assert_eq!(successors("path-shared /x"), [0, 1]);
    assert_eq!(successors("path /y"), Vec::<usize>::new());
}

#[test]
fn cycle_of_living_entities_is_found_from_a_late_orphan() {
    let report = "ENTITY: a\nORPHAN: yes\nOWNS: unit x\nENTITY: b\nOWNS: unit x\nAFTER: c\nENTITY: c\nAFTER: b\n";
    check_cycle(report, "b → c (AFTER) → b (AFTER)");
}

#[test]
fn conflicts_involve_several_living_entities() {
    let conflicts = |report: &str| {
        let reports = parse(report);
        let conflicts = Plan::new(&nodes(&reports)).unwrap().conflicts;
        conflicts.into_iter().map(|conflict| (conflict.about, numbers(&conflict.owners))).collect::<Vec<_>>()
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
    assert_eq!(conflicts("ENTITY: a\nOWNS: path-shared /x\nENTITY: b\nOWNS: path-shared /x\nOWNS: path-tree /x\n"), []);
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
fn shortest_cycle_is_reported() {
    let report = "ENTITY: a\nAFTER: b\nENTITY: b\nAFTER: c\nENTITY: c\nAFTER: d\nAFTER: b\nENTITY: d\nAFTER: a\n";
    check_cycle(report, "a → b (AFTER) → c (AFTER) → d (AFTER) → a (AFTER)");
    check_cycle(&report.replace("AFTER: d\nAFTER: b\n", "AFTER: b\nAFTER: d\n"), "b → c (AFTER) → b (AFTER)");
}

#[test]
fn cycle_of_orphans_is_scrubbed() {
    let report = "ENTITY: a\nORPHAN: yes\nAFTER: b\nREQUIRES: a\nENTITY: b\nORPHAN: yes\nAFTER: a\nENTITY: c\nAFTER: a\n\
                  ENTITY: d\nORPHAN: yes\nAFTER: b\n";
    let reports = parse(report);
    let plan = Plan::new(&nodes(&reports)).unwrap();
    assert_eq!(numbers(plan.order()), [0, 2, 3, 1]);
    assert_eq!(plan.edges().len(), 3);
}

#[test]
fn long_chains_and_cycles_do_not_exhaust_the_stack() {
    let mut reports: Vec<EntityReport> = (0..100_000).map(|number| EntityReport::new(number.to_string())).collect();
    for number in 1..reports.len() {
        reports[number - 1].edges.requires = [number.to_string().into()].into();
    }
    let plan = Plan::new(&nodes(&reports)).unwrap();
    assert!(numbers(plan.order()).into_iter().rev().eq(0..reports.len()));
    reports[99_999].edges.requires = ["0".into()].into();
    assert_eq!(Plan::new(&nodes(&reports)).unwrap_err().members.len(), reports.len());
}

#[test]
fn three_providers_of_an_asset_are_all_waited_for() {
    for asset in ["unit x", "path /x"] {
        let provider = |id: &str| format!("ENTITY: {id}\nPROVIDES: {asset}\n");
        let reports = parse(&["a", "b", "c", "d"].map(provider).concat());
        let waiting = parse(&format!("ENTITY: e\nNEEDS: {asset}\n"));
        let reports = [waiting, reports].concat();
        let plan = Plan::new(&nodes(&reports)).unwrap();
        assert_eq!(numbers(&plan.waits_for(0.into()).collect::<Vec<_>>()), [1, 2, 3, 4], "{asset}");
        assert_eq!(numbers(plan.order()), [1, 2, 3, 4, 0], "{asset}");
    }
}

#[test]
fn three_owners_of_an_asset_are_in_one_conflict() {
    let reports = parse("ENTITY: a\nENTITY: b\nOWNS: unit x\nENTITY: c\nOWNS: unit x\nENTITY: d\nOWNS: unit x\n");
    let plan = Plan::new(&nodes(&reports)).unwrap();
    let [conflict] = plan.conflicts() else { panic!("{:?}", plan.conflicts()) };
    assert_eq!(conflict.about, Contested::Asset(Asset::new("unit", "x")));
    assert_eq!(numbers(&conflict.owners), [1, 2, 3]);
    assert_eq!(plan.conflicts_of(0.into()).count(), 0);
    for owner in 1..4 {
        assert_eq!(plan.conflicts_of(owner.into()).collect::<Vec<_>>(), [conflict], "{owner}");
    }
}

#[test]
fn three_plugins_with_the_same_id_are_in_one_conflict() {
    let reports = parse("ENTITY: x\nENTITY: x\nENTITY: y\nENTITY: x\nENTITY: x\nORPHAN: yes\n");
    let plugins: PerEntity<Node<'_>> =
        nodes(&reports).entries().map(|(entity, node)| Node { plugin: usize::from(entity).into(), ..*node }).collect();
    let plan = Plan::new(&plugins).unwrap();
    let [conflict] = plan.conflicts() else { panic!("{:?}", plan.conflicts()) };
    assert_eq!(conflict.about, Contested::Id);
    // The plugin of the orphan cleans up after it.
    assert_eq!(numbers(&conflict.owners), [0, 1, 3]);
    // Within one plugin, an ID stands for all entities that have it.
    assert_eq!(Plan::new(&nodes(&reports)).unwrap().conflicts(), []);
}

//! Tests of layouts.

use super::{Grid, ItemIndex, *};

fn link(from: usize, to: usize) -> Link {
    Link { from: from.into(), to: to.into(), label: if (from + to).is_multiple_of(3) { 80.0 } else { 0.0 } }
}

/// Pseudo-random links, sorted and without duplicates, the same each time.
fn random(boxes: usize, links: usize, mut seed: usize) -> Vec<Link> {
    let mut below = |bound: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % bound
    };
    let pairs = (0..links).map(|_| (below(boxes), below(boxes))).map(|(a, b)| (a.min(b), a.max(b)));
    let pairs: std::collections::BTreeSet<_> = pairs.filter(|(from, to)| from < to).collect();
    pairs.into_iter().map(|(from, to)| link(from, to)).collect()
}

#[track_caller]
fn check(widths: &[f64], links: &[Link]) {
    let layout = lay_out(&widths.to_vec().into(), &links.to_vec().into());
    let mut placed: Vec<(Spot, f64)> =
        iter::zip(&layout.boxes, widths).filter_map(|(s, w)| Some(((*s)?, *w))).collect();
    for (index, spot) in layout.boxes.entries() {
        assert_eq!(spot.is_some(), links.iter().any(|link| link.from == index || link.to == index));
    }
    placed.sort_by(|a, b| a.0.x.total_cmp(&b.0.x));
    for (index, (spot, width)) in placed.iter().enumerate() {
        assert!(spot.x >= 0.0 && spot.x + width <= layout.width + 0.01, "{spot:?} is outside");
        assert!(spot.y >= -0.01 && spot.y + HEIGHT <= layout.height + 0.01, "{spot:?} is outside");
        let beside = placed[index + 1..].iter().take_while(|(other, _)| other.x < spot.x + width);
        for (other, _) in beside {
            assert!((other.y - spot.y).abs() >= HEIGHT, "{spot:?} and {other:?} overlap");
        }
    }
    for (link, way) in links.iter().zip(&layout.ways) {
        let (from, to) = (layout.boxes[link.from].unwrap(), layout.boxes[link.to].unwrap());
        let (first, last) = (way.stretches[0], way.stretches[way.stretches.len() - 1]);
        assert!(
            (first.left - from.x - widths[usize::from(link.from)]).abs() < 0.01 && (last.right - to.x).abs() < 0.01
        );
        assert!(first.y > from.y && first.y < from.y + HEIGHT && last.y > to.y && last.y < to.y + HEIGHT);
        assert!(way.stretches.windows(2).all(|pair| pair[0].left <= pair[0].right && pair[0].right < pair[1].left));
        assert_eq!(way.label.is_some(), link.label > 0.0);
    }
}

#[test]
fn boxes_do_not_overlap_and_links_connect_boxes() {
    check(&[], &[]);
    check(&[50.0; 3], &[link(0, 2)]);
    for seed in 0..40 {
        let widths: Vec<f64> = (0..60).map(|number| 20.0 + f64::from(number * 37 % 200)).collect();
        check(&widths, &random(60, 10 + 5 * seed, seed));
    }
    check(&[100.0; 2000], &random(2000, 6000, 1));
}

#[test]
fn long_links_have_points_only_in_sparse_graphs() {
    let stretches = |links: &[Link], boxes: usize| {
        lay_out(&Table::from(vec![50.0; boxes]), &links.to_vec().into()).ways[LinkIndex::from(1)].stretches.len()
    };
    assert_eq!(stretches(&[link(0, 1), link(0, 3), link(1, 2), link(2, 3)], 4), 4);
    let all =
        |boxes: usize| (0..boxes).flat_map(|from| (from + 1..boxes).map(move |to| link(from, to))).collect::<Vec<_>>();
    assert_eq!(stretches(&all(40), 40), 2);
}

#[test]
fn layers_follow_the_longest_path() {
    let layers = |boxes: usize, links: &[Link]| -> Vec<usize> {
        layers(boxes, &links.to_vec().into()).into_iter().map(usize::from).collect()
    };
    assert_eq!(layers(5, &[link(0, 1), link(0, 3), link(1, 2), link(2, 3)]), [0, 1, 2, 3, 0]);
    assert_eq!(layers(4, &[link(0, 1), link(1, 3), link(2, 3)]), [0, 1, 1, 2]);
}

#[test]
fn pieces_are_drawn_side_by_side() {
    let layout = lay_out(&Table::from(vec![50.0; 4]), &Table::from(vec![link(0, 1), link(2, 3)]));
    let spots: Vec<Spot> = layout.boxes.into_iter().flatten().collect();
    assert!(spots.iter().all(|spot| spot.y == 0.0));
    assert!(spots.windows(2).all(|pair| pair[0].x + 50.0 < pair[1].x));
}

#[test]
fn avoidable_crossings_are_avoided() {
    let mut grid = Grid::new(6, &Table::from(vec![link(0, 5), link(1, 4), link(2, 3)]));
    assert_eq!(grid.crossings(&Table::from(vec![0, 1, 2, 0, 1, 2])), 3);
    grid.order();
    let rank = |item: ItemIndex| grid.layers[grid.layer_of[item]].iter().position(|other| *other == item).unwrap();
    assert_eq!(grid.crossings(&grid.layer_of.indexes().map(rank).collect::<Table<_, _>>()), 0);
}

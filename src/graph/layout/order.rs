//! Orders items within their layers so that few links cross, and computes their vertical positions: items slide towards their neighbours.

use super::{Grid, ItemIndex, LayerIndex};
use crate::entities::node::Table;
use std::iter;

/// The number of passes over all layers.
const SWEEPS: usize = 24;

impl Grid {
    /// Orders each layer by the mean rank of its neighbours, alternating directions, and keeps the best result.
    pub(super) fn order(&mut self) {
        let mut ranks: Table<ItemIndex, usize> = Table::filled(0, self.layer_of.len());
        let mut best = (usize::MAX, self.layers.clone());
        for sweep in 0..SWEEPS {
            if sweep % 2 == 0 {
                for items in &mut self.layers {
                    sort_layer(items, &self.neighbours.left, &mut ranks);
                }
            } else {
                for items in self.layers.iter_mut().rev() {
                    sort_layer(items, &self.neighbours.right, &mut ranks);
                }
            }
            let crossings = self.crossings(&ranks);
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
            if crossings == 0 {
                break;
            }
        }
        self.layers = best.1;
    }

    /// Returns the number of pairs of links that cross between adjacent layers, given the rank of each item in its
    /// layer.
    pub(super) fn crossings(&self, ranks: &Table<ItemIndex, usize>) -> usize {
        let mut crossings = 0;
        for (layer, next) in self.layers.iter().zip(self.layers.iter().skip(1)) {
            let mut ends = Counts::new(next.len());
            for &item in layer {
                let is_near = |&&other: &&ItemIndex| self.layer_of[other] == self.layer_of[item].next();
                let right = self.neighbours.right[item].iter().filter(is_near);
                let right: Vec<usize> = right.map(|&other| ranks[other]).collect();
                crossings += right.iter().map(|&rank| ends.above(rank)).sum::<usize>();
                right.into_iter().for_each(|rank| ends.add(rank));
            }
        }
        crossings
    }
}

/// Sorts a layer by the mean rank of its neighbours on one side. Items without neighbours keep their position.
fn sort_layer(
    items: &mut Vec<ItemIndex>,
    neighbours: &Table<ItemIndex, Vec<ItemIndex>>,
    ranks: &mut Table<ItemIndex, usize>,
) {
    items.iter().enumerate().for_each(|(rank, &item)| ranks[item] = rank);
    let key = |item: ItemIndex| {
        let near = neighbours[item].iter().map(|&other| ranks[other] as f64);
        mean(near).unwrap_or(ranks[item] as f64)
    };
    let mut keyed: Vec<(f64, ItemIndex)> = items.iter().map(|&item| (key(item), item)).collect();
    keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
    *items = keyed.into_iter().map(|(_, item)| item).collect();
    items.iter().enumerate().for_each(|(rank, &item)| ranks[item] = rank);
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    (count > 0.0).then(|| sum / count)
}

/// The number of link ends at each rank of a layer, as a Fenwick tree.
struct Counts {
    /// At index `i`, counted from 1, the sum of the last `i & -i` ranks up to `i`.
    sums: Vec<usize>,
    all: usize,
}

impl Counts {
    fn new(ranks: usize) -> Counts {
        Counts { sums: vec![0; ranks + 1], all: 0 }
    }

    fn add(&mut self, rank: usize) {
        let mut index = rank + 1;
        while let Some(sum) = self.sums.get_mut(index) {
            *sum += 1;
            index += index & index.wrapping_neg();
        }
        self.all += 1;
    }

    /// Returns the number of ends at higher ranks.
    fn above(&self, rank: usize) -> usize {
        let mut index = rank + 1;
        let mut not_above = 0;
        while index > 0 {
            not_above += self.sums.get(index).copied().unwrap_or_default();
            index &= index - 1;
        }
        self.all - not_above
    }
}

const BETWEEN_BOXES: f64 = 14.0;
const BETWEEN_POINTS: f64 = 7.0;

/// The neighbours that a pass follows.
#[derive(Clone, Copy)]
enum Sides {
    Neither,
    Left,
    Right,
    Both,
}

/// Adjacent items at minimum distance.
struct Cluster {
    length: usize,
    /// The position of the first one, if all distances were 0.
    offset: f64,
    weight: f64,
}

impl Grid {
    /// Moves items vertically towards their neighbours, keeping their order.
    pub(super) fn slide(&mut self) {
        let layers: Vec<LayerIndex> = self.layers.indexes().collect();
        layers.iter().for_each(|&layer| self.slide_layer(layer, Sides::Neither));
        for sweep in 0..SWEEPS {
            let to_the_right = sweep % 2 == 0;
            let sides = match to_the_right {
                // The last passes follow both sides.
                _ if sweep + 4 > SWEEPS => Sides::Both,
                true => Sides::Left,
                false => Sides::Right,
            };
            if to_the_right {
                layers.iter().for_each(|&layer| self.slide_layer(layer, sides));
            } else {
                layers.iter().rev().for_each(|&layer| self.slide_layer(layer, sides));
            }
        }
        let tops = self.y.entries().map(|(item, y)| y - self.height(item) / 2.0);
        let top = tops.fold(f64::INFINITY, f64::min);
        self.y.iter_mut().for_each(|y| *y -= top);
    }

    /// Gives each item of a layer the position nearest to the mean of its neighbours that keeps the order and the
    /// minimum distances, minimizing the sum of squared deviations.
    fn slide_layer(&mut self, layer: LayerIndex, sides: Sides) {
        let mut clusters: Vec<Cluster> = Vec::new();
        let mut distances = Vec::new();
        let mut distance = 0.0;
        let mut above: Option<ItemIndex> = None;
        for &item in &self.layers[layer] {
            if let Some(above) = above {
                let gap = if self.is_box(above.max(item)) { BETWEEN_BOXES } else { BETWEEN_POINTS };
                distance += f64::midpoint(self.height(above), self.height(item)) + gap;
            }
            above = Some(item);
            distances.push(distance);
            let (best, weight) = self.best_position(item, sides);
            let mut cluster = Cluster { length: 1, offset: best - distance, weight };
            while let Some(last) = clusters.pop_if(|last| last.offset > cluster.offset) {
                cluster = last.joined(&cluster);
            }
            clusters.push(cluster);
        }
        let offsets = clusters.iter().flat_map(|cluster| iter::repeat_n(cluster.offset, cluster.length));
        for ((&item, distance), offset) in self.layers[layer].iter().zip(distances).zip(offsets) {
            self.y[item] = distance + offset;
        }
    }

    /// Returns the best position of an item, and its weight. Points prefer to be aligned with one another, so that long
    /// links are straight.
    fn best_position(&self, item: ItemIndex, sides: Sides) -> (f64, f64) {
        let (left, right) = (&self.neighbours.left[item][..], &self.neighbours.right[item][..]);
        let (left, right) = match sides {
            Sides::Neither => (&[][..], &[][..]),
            Sides::Left => (left, &[][..]),
            Sides::Right => (&[][..], right),
            Sides::Both => (left, right),
        };
        let (mut sum, mut weights) = (0.0, 0.0);
        for &other in left.iter().chain(right) {
            let weight = if self.is_box(item.min(other)) { 1.0 } else { 4.0 };
            sum += weight * self.y[other];
            weights += weight;
        }
        if weights > 0.0 { (sum / weights, weights) } else { (self.y[item], 0.1) }
    }
}

impl Cluster {
    fn joined(&self, below: &Cluster) -> Cluster {
        let weight = self.weight + below.weight;
        let offset = (self.offset * self.weight + below.offset * below.weight) / weight;
        Cluster { length: self.length + below.length, offset, weight }
    }
}

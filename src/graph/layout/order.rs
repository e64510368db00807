//! Orders items within their layers so that few links cross.

use super::grid::{Grid, ItemIndex};
use crate::entities::node::Table;

/// The number of passes over all layers.
pub(super) const SWEEPS: usize = 24;

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

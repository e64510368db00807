//! Computes vertical positions: items slide within their layers towards their neighbours.

use super::grid::{Grid, ItemIndex, LayerIndex};
use super::order::SWEEPS;
use std::iter;

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

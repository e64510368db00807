//! Layers of boxes, and of the points at which links cross layers.

use super::{BoxIndex, HEIGHT, Link, LinkIndex};
use crate::entities::node::{Table, define_index};
use std::iter;

const POINT_HEIGHT: f64 = 6.0;

define_index! {
    /// The index of a box or point. Points come after the boxes.
    pub(super) ItemIndex
}

define_index! {
    /// The index of a layer, from the left.
    pub(super) LayerIndex
}

impl From<BoxIndex> for ItemIndex {
    fn from(index: BoxIndex) -> ItemIndex {
        usize::from(index).into()
    }
}

impl LayerIndex {
    /// Returns the layer to the right.
    pub(super) fn next(self) -> LayerIndex {
        (usize::from(self) + 1).into()
    }
}

/// Boxes and points in their layers.
pub(super) struct Grid {
    pub(super) boxes: usize,
    pub(super) layer_of: Table<ItemIndex, LayerIndex>,
    /// The items of each layer, from the top.
    pub(super) layers: Table<LayerIndex, Vec<ItemIndex>>,
    /// The items on the path of each link, including its boxes.
    pub(super) stops: Table<LinkIndex, Vec<ItemIndex>>,
    pub(super) neighbours: Neighbours,
    /// The vertical centre of each box or point.
    pub(super) y: Table<ItemIndex, f64>,
}

/// The items that are linked to each item.
pub(super) struct Neighbours {
    pub(super) left: Table<ItemIndex, Vec<ItemIndex>>,
    pub(super) right: Table<ItemIndex, Vec<ItemIndex>>,
}

impl Grid {
    pub(super) fn new(boxes: usize, links: &Table<LinkIndex, Link>) -> Grid {
        let layer_of_box = layers(boxes, links);
        let layers_between = |link: &Link| {
            let (from, to) = (usize::from(layer_of_box[link.from]), usize::from(layer_of_box[link.to]));
            (from + 1..to).map(LayerIndex::from)
        };
        let passed: usize = links.iter().map(|link| layers_between(link).len()).sum();
        // In a dense graph, points are expensive and do not help; there, links may cross boxes.
        let has_points = passed <= 4 * (boxes + links.len()) + 1000;
        let mut layer_of: Table<ItemIndex, LayerIndex> = layer_of_box.iter().copied().collect();
        let mut stops: Table<LinkIndex, Vec<ItemIndex>> = Table::new();
        for link in links {
            let mut way = vec![link.from.into()];
            if has_points {
                way.extend(layers_between(link).map(|layer| layer_of.push(layer)));
            }
            way.push(link.to.into());
            stops.push(way);
        }
        let depth = layer_of.iter().max().map_or(0, |&last| usize::from(last) + 1);
        let mut layers: Table<LayerIndex, Vec<ItemIndex>> = Table::filled(Vec::new(), depth);
        layer_of.entries().for_each(|(item, &layer)| layers[layer].push(item));
        let neighbours = Neighbours::new(layer_of.len(), &stops);
        let y = Table::filled(0.0, layer_of.len());
        Grid { boxes, layer_of, layers, stops, neighbours, y }
    }

    /// Returns true if the item is a box rather than a point.
    pub(super) fn is_box(&self, item: ItemIndex) -> bool {
        usize::from(item) < self.boxes
    }

    pub(super) fn height(&self, item: ItemIndex) -> f64 {
        if self.is_box(item) { HEIGHT } else { POINT_HEIGHT }
    }
}

impl Neighbours {
    fn new(items: usize, stops: &Table<LinkIndex, Vec<ItemIndex>>) -> Neighbours {
        let mut neighbours =
            Neighbours { left: Table::filled(Vec::new(), items), right: Table::filled(Vec::new(), items) };
        for (&from, &to) in stops.iter().flat_map(|way| way.iter().zip(way.iter().skip(1))) {
            neighbours.left[to].push(from);
            neighbours.right[from].push(to);
        }
        neighbours
    }
}

/// Returns the layer of each box: the length of the longest path to it. A box without incoming links goes just before
/// its nearest neighbour.
pub(super) fn layers(boxes: usize, links: &Table<LinkIndex, Link>) -> Table<BoxIndex, LayerIndex> {
    let mut layers: Table<BoxIndex, usize> = Table::filled(0, boxes);
    let mut nearest: Table<BoxIndex, Option<usize>> = Table::filled(None, boxes);
    let mut is_reached: Table<BoxIndex, bool> = Table::filled(false, boxes);
    for link in links {
        layers[link.to] = layers[link.to].max(layers[link.from] + 1);
        is_reached[link.to] = true;
    }
    for link in links {
        nearest[link.from] = nearest[link.from].into_iter().chain(iter::once(layers[link.to])).min();
    }
    let layer = |(index, layer): (BoxIndex, &usize)| match nearest[index] {
        Some(nearest) if !is_reached[index] => nearest - 1,
        _ => *layer,
    };
    layers.entries().map(layer).map(LayerIndex::from).collect()
}

//! Lays out boxes and the links between them, from left to right.
//!
//! Connected boxes are laid out together. Each box goes to the layer given by the longest path to it, and a link that
//! crosses layers gets a point in each of them. Boxes and points are ordered within their layers so that few links
//! cross, then moved up and down towards their neighbours. The resulting pieces are arranged in rows.

mod draw;
mod order;
#[cfg(test)]
mod tests;

use crate::entities::node::{Table, define_index};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::iter;

/// The height of a box.
pub(super) const HEIGHT: f64 = 26.0;
/// The height of a label line.
pub(super) const LABEL_HEIGHT: f64 = 13.0;

const BETWEEN_PIECES: f64 = 36.0;
/// The minimum width of a row of pieces.
const ROW: f64 = 1100.0;

define_index! {
    /// The index of a box, in the picture or in a piece.
    pub(super) BoxIndex
}

define_index! {
    /// The index of a link, in the picture or in a piece.
    pub(super) LinkIndex
}

/// A link between two boxes, the earlier one first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) from: BoxIndex,
    pub(super) to: BoxIndex,
    /// The width of its label; 0 if it has none.
    pub(super) label: f64,
}

/// A finished layout.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The upper left corner of each connected box.
    pub(super) boxes: Table<BoxIndex, Option<Spot>>,
    /// The path of each link.
    pub(super) ways: Table<LinkIndex, Way>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A point in the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spot {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// The path of a link.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    /// The horizontal parts; curves connect each to the next.
    pub(super) stretches: Vec<Stretch>,
    /// The centre of the label.
    pub(super) label: Option<Spot>,
}

/// A horizontal part of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) y: f64,
}

/// Lays out boxes of these widths. Links are sorted by their first box.
pub(super) fn lay_out(widths: &Table<BoxIndex, f64>, links: &Table<LinkIndex, Link>) -> Layout {
    let mut layout = Layout {
        boxes: Table::filled(None, widths.len()),
        ways: Table::filled(Way::default(), links.len()),
        ..Layout::default()
    };
    let mut drawn: Vec<(Piece, Layout)> = pieces(widths.len(), links)
        .into_iter()
        .map(|piece| {
            let drawn = piece.draw(widths, links);
            (piece, drawn)
        })
        .collect();
    drawn.sort_by_key(|(piece, _)| Reverse(piece.boxes.len()));
    let row_width = drawn.iter().map(|(_, drawn)| drawn.width).fold(ROW, f64::max);
    let (mut left, mut top, mut bottom) = (0.0, 0.0, 0.0_f64);
    for (piece, drawn) in drawn {
        if left > 0.0 && left + drawn.width > row_width {
            (left, top) = (0.0, bottom + BETWEEN_PIECES);
        }
        let by = Spot { x: left, y: top };
        for (&index, spot) in piece.boxes.iter().zip(drawn.boxes) {
            layout.boxes[index] = spot.map(|spot| spot.moved(by));
        }
        for (&index, way) in piece.links.iter().zip(drawn.ways) {
            layout.ways[index] = way.moved(by);
        }
        layout.width = layout.width.max(left + drawn.width);
        bottom = bottom.max(top + drawn.height);
        left += drawn.width + BETWEEN_PIECES;
    }
    layout.height = bottom;
    layout
}

impl Spot {
    fn moved(self, by: Spot) -> Spot {
        Spot { x: self.x + by.x, y: self.y + by.y }
    }
}

impl Way {
    fn moved(mut self, by: Spot) -> Way {
        for Stretch { left, right, y } in &mut self.stretches {
            (*left, *right, *y) = (*left + by.x, *right + by.x, *y + by.y);
        }
        self.label = self.label.map(|label| label.moved(by));
        self
    }
}

define_index! {
    /// The index of a piece.
    PieceIndex
}

/// A connected component: its boxes and links.
#[derive(Default)]
struct Piece {
    boxes: Table<BoxIndex, BoxIndex>,
    links: Table<LinkIndex, LinkIndex>,
}

/// Returns the pieces of a picture.
fn pieces(boxes: usize, links: &Table<LinkIndex, Link>) -> Vec<Piece> {
    let mut joined = Joined::new(boxes);
    for link in links {
        joined.join(link.from, link.to);
    }
    let mut indexes = HashMap::new();
    let mut pieces: Table<PieceIndex, Piece> = Table::new();
    for index in joined.linked() {
        let piece = *indexes.entry(joined.first(index)).or_insert_with(|| pieces.push(Piece::default()));
        pieces[piece].boxes.push(index);
    }
    for (index, link) in links.entries() {
        if let Some(&piece) = indexes.get(&joined.first(link.from)) {
            pieces[piece].links.push(index);
        }
    }
    pieces.into_iter().collect()
}

/// A union-find structure of boxes.
struct Joined {
    /// The parent of each box; a root is its own parent.
    before: Table<BoxIndex, BoxIndex>,
    is_linked: Table<BoxIndex, bool>,
}

impl Joined {
    fn new(boxes: usize) -> Joined {
        Joined { before: (0..boxes).map(BoxIndex::from).collect(), is_linked: Table::filled(false, boxes) }
    }

    /// Returns the root of the component of a box.
    fn first(&mut self, mut index: BoxIndex) -> BoxIndex {
        while self.before[index] != index {
            self.before[index] = self.before[self.before[index]];
            index = self.before[index];
        }
        index
    }

    fn join(&mut self, from: BoxIndex, to: BoxIndex) {
        let (one, other) = (self.first(from), self.first(to));
        self.before[one.max(other)] = one.min(other);
        (self.is_linked[from], self.is_linked[to]) = (true, true);
    }

    /// Returns the boxes that have links.
    fn linked(&self) -> Vec<BoxIndex> {
        self.is_linked.entries().filter(|(_, is_linked)| **is_linked).map(|(index, _)| index).collect()
    }
}

impl Piece {
    /// Lays out the piece by itself.
    fn draw(&self, widths: &Table<BoxIndex, f64>, links: &Table<LinkIndex, Link>) -> Layout {
        let local: HashMap<BoxIndex, BoxIndex> = self.boxes.entries().map(|(local, &index)| (index, local)).collect();
        let widths: Table<BoxIndex, f64> = self.boxes.iter().map(|&index| widths[index]).collect();
        let link = |index| {
            let link: Link = links[index];
            Some(Link { from: *local.get(&link.from)?, to: *local.get(&link.to)?, ..link })
        };
        let links: Table<LinkIndex, Link> = self.links.iter().copied().filter_map(link).collect();
        let mut grid = Grid::new(widths.len(), &links);
        grid.order();
        grid.slide();
        grid.draw(&widths, &links)
    }
}

const POINT_HEIGHT: f64 = 6.0;

define_index! {
    /// The index of a box or point. Points come after the boxes.
    ItemIndex
}

define_index! {
    /// The index of a layer, from the left.
    LayerIndex
}

impl From<BoxIndex> for ItemIndex {
    fn from(index: BoxIndex) -> ItemIndex {
        usize::from(index).into()
    }
}

impl LayerIndex {
    /// Returns the layer to the right.
    fn next(self) -> LayerIndex {
        (usize::from(self) + 1).into()
    }
}

/// Boxes and points in their layers.
struct Grid {
    boxes: usize,
    layer_of: Table<ItemIndex, LayerIndex>,
    /// The items of each layer, from the top.
    layers: Table<LayerIndex, Vec<ItemIndex>>,
    /// The items on the path of each link, including its boxes.
    stops: Table<LinkIndex, Vec<ItemIndex>>,
    neighbours: Neighbours,
    /// The vertical centre of each box or point.
    y: Table<ItemIndex, f64>,
}

/// The items that are linked to each item.
struct Neighbours {
    left: Table<ItemIndex, Vec<ItemIndex>>,
    right: Table<ItemIndex, Vec<ItemIndex>>,
}

impl Grid {
    fn new(boxes: usize, links: &Table<LinkIndex, Link>) -> Grid {
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
    fn is_box(&self, item: ItemIndex) -> bool {
        usize::from(item) < self.boxes
    }

    fn height(&self, item: ItemIndex) -> f64 {
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
fn layers(boxes: usize, links: &Table<LinkIndex, Link>) -> Table<BoxIndex, LayerIndex> {
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

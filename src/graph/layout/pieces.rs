//! Pieces: connected components of the graph.

use super::grid::Grid;
use super::{BoxIndex, Layout, Link, LinkIndex};
use crate::index::{Table, define_index};
use std::collections::HashMap;

define_index! {
    /// The index of a piece.
    PieceIndex
}

/// A connected component: its boxes and links.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) boxes: Table<BoxIndex, BoxIndex>,
    pub(super) links: Table<LinkIndex, LinkIndex>,
}

/// Returns the pieces of a picture.
pub(super) fn pieces(boxes: usize, links: &Table<LinkIndex, Link>) -> Vec<Piece> {
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
    pub(super) fn draw(&self, widths: &Table<BoxIndex, f64>, links: &Table<LinkIndex, Link>) -> Layout {
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

//! Lays out boxes and the links between them, from left to right.
//!
//! Connected boxes are laid out together. Each box goes to the layer given by the longest path to it, and a link that
//! crosses layers gets a point in each of them. Boxes and points are ordered within their layers so that few links
//! cross, then moved up and down towards their neighbours. The resulting pieces are arranged in rows.

mod draw;
mod grid;
mod labels;
mod order;
mod pieces;
mod slide;
#[cfg(test)]
mod tests;

use crate::index::{Table, define_index};
use pieces::{Piece, pieces};
use std::cmp::Reverse;

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

//! Places the labels of links so that they do not overlap.

use super::{LABEL_HEIGHT, Spot, Way};
use std::collections::HashMap;

/// The positions on a curve for its label, best first.
const PARTS: [f64; 7] = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8];

/// The placed labels with their widths, by the text row of their centre.
#[derive(Default)]
pub(super) struct Labels(HashMap<i64, Vec<(Spot, f64)>>);

impl Labels {
    /// Finds a spot for a label on the curve after a stretch, preferably one without another label.
    pub(super) fn find_room(&mut self, way: &Way, stretch: usize, width: f64) -> Option<Spot> {
        let row = |spot: Spot| (spot.y / LABEL_HEIGHT).floor() as i64;
        let is_free = |spot: &Spot| {
            let near = (row(*spot) - 1..=row(*spot) + 1).filter_map(|row| self.0.get(&row)).flatten();
            near.into_iter().all(|(other, other_width)| {
                (other.y - spot.y).abs() >= LABEL_HEIGHT
                    || (other.x - spot.x).abs() >= f64::midpoint(width, *other_width) + 6.0
            })
        };
        let candidates = || PARTS.iter().filter_map(|&part| way.on_curve(stretch, part));
        let spot = candidates().find(is_free).or_else(|| candidates().next())?;
        self.0.entry(row(spot)).or_default().push((spot, width));
        Some(spot)
    }
}

impl Way {
    /// Returns a point on the curve after a stretch; part 0 is its start, 1 its end.
    fn on_curve(&self, stretch: usize, part: f64) -> Option<Spot> {
        let (from, to) = (self.stretches.get(stretch)?, self.stretches.get(stretch + 1)?);
        let rest = 1.0 - part;
        // A Bézier curve that starts and ends horizontally, with both control points in the middle.
        let middle = f64::midpoint(from.right, to.left);
        let (begin, handles, end) = (rest.powi(3), 3.0 * rest * part, part.powi(3));
        Some(Spot {
            x: begin * from.right + handles * middle + end * to.left,
            y: begin * from.y + handles * (rest * from.y + part * to.y) + end * to.y,
        })
    }
}

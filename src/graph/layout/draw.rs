//! Computes paths and the positions of labels.

use super::{BoxIndex, Grid, HEIGHT, ItemIndex, LABEL_HEIGHT, LayerIndex, Layout, Link, LinkIndex, Spot, Stretch, Way};
use crate::entities::node::Table;
use std::collections::HashMap;

const BETWEEN_LAYERS: f64 = 44.0;
/// The distance between the ends of links at a box.
const BETWEEN_PORTS: f64 = 7.0;

/// The vertical distance of each end of a link from the middle of its box.
#[derive(Clone, Copy, Default)]
struct Ports {
    from: f64,
    to: f64,
}

impl Grid {
    pub(super) fn draw(&self, widths: &Table<BoxIndex, f64>, links: &Table<LinkIndex, Link>) -> Layout {
        let columns = self.columns(widths, links);
        let ports = self.ports();
        let mut labels = Labels::default();
        let ways = links.entries().map(|(index, link)| {
            let mut way = Way { stretches: self.stretches(index, link, widths, &columns, ports[index]), label: None };
            if link.label > 0.0 {
                way.label = labels.find_room(&way, self.label_stretch(index, link), link.label);
            }
            way
        });
        let ways = ways.collect();
        let spot = |index: BoxIndex| {
            let item = ItemIndex::from(index);
            Some(Spot { x: columns[self.layer_of[item]].0, y: self.y[item] - HEIGHT / 2.0 })
        };
        let bottoms = self.y.entries().map(|(item, y)| y + self.height(item) / 2.0);
        Layout {
            boxes: widths.indexes().map(spot).collect(),
            ways,
            width: columns.iter().last().map_or(0.0, |column| column.1),
            height: bottoms.fold(0.0, f64::max),
        }
    }

    fn stretches(
        &self,
        index: LinkIndex,
        link: &Link,
        widths: &Table<BoxIndex, f64>,
        columns: &Table<LayerIndex, (f64, f64)>,
        ports: Ports,
    ) -> Vec<Stretch> {
        let (from, to) = (ItemIndex::from(link.from), ItemIndex::from(link.to));
        let stretch = |&item: &ItemIndex| {
            let (left, right) = columns[self.layer_of[item]];
            let y = self.y[item];
            if item == from {
                Stretch { left: left + widths[link.from], right, y: y + ports.from }
            } else if item == to {
                Stretch { left, right: left, y: y + ports.to }
            } else {
                Stretch { left, right, y }
            }
        };
        self.stops[index].iter().map(stretch).collect()
    }

    /// Returns the stretch that a link's label follows: labels go to the end of a link with fewer other links.
    fn label_stretch(&self, index: LinkIndex, link: &Link) -> usize {
        let (from, to) = (ItemIndex::from(link.from), ItemIndex::from(link.to));
        let at_the_end = self.neighbours.right[from].len() > self.neighbours.left[to].len();
        if at_the_end { self.stops[index].len() - 2 } else { 0 }
    }

    /// Returns the left and right edge of each layer. The gaps leave room for labels and steep links.
    fn columns(&self, widths: &Table<BoxIndex, f64>, links: &Table<LinkIndex, Link>) -> Table<LayerIndex, (f64, f64)> {
        let mut gaps: Table<LayerIndex, f64> = Table::filled(0.0, self.layers.len());
        for (index, link) in links.entries() {
            let (stops, label_stretch) = (&self.stops[index], self.label_stretch(index, link));
            for (stretch, (&from, &to)) in stops.iter().zip(stops.iter().skip(1)).enumerate() {
                let label = if stretch == label_stretch { link.label } else { 0.0 };
                let steep = ((self.y[to] - self.y[from]).abs() * 0.15).min(100.0);
                let gap = &mut gaps[self.layer_of[from]];
                *gap = gap.max(label + steep);
            }
        }
        let mut layer_widths: Table<LayerIndex, f64> = Table::filled(0.0, self.layers.len());
        for (index, &width) in widths.entries() {
            let layer_width = &mut layer_widths[self.layer_of[ItemIndex::from(index)]];
            *layer_width = layer_width.max(width);
        }
        let mut left = 0.0;
        let column = |(width, gap): (f64, f64)| {
            let column = (left, left + width);
            left += width + gap + BETWEEN_LAYERS;
            column
        };
        layer_widths.into_iter().zip(gaps).map(column).collect()
    }

    /// Returns the ports of each link, so that links arrive side by side without crossing.
    fn ports(&self) -> Table<LinkIndex, Ports> {
        let mut ports: Table<LinkIndex, Ports> = Table::filled(Ports::default(), self.stops.len());
        let mut begins: Table<ItemIndex, Vec<(f64, LinkIndex)>> = Table::filled(Vec::new(), self.boxes);
        let mut ends = begins.clone();
        for (index, stops) in self.stops.entries() {
            if let ([from, second, ..], [.., last_but_one, to]) = (&stops[..], &stops[..]) {
                begins[*from].push((self.y[*second], index));
                ends[*to].push((self.y[*last_but_one], index));
            }
        }
        begins.into_iter().flat_map(spread).for_each(|(link, port)| ports[link].from = port);
        ends.into_iter().flat_map(spread).for_each(|(link, port)| ports[link].to = port);
        ports
    }
}

/// Spreads the ends of links over a side of a box, ordered by their other ends.
fn spread(mut links: Vec<(f64, LinkIndex)>) -> impl Iterator<Item = (LinkIndex, f64)> {
    links.sort_by(|one, other| one.0.total_cmp(&other.0));
    let gaps = links.len().saturating_sub(1) as f64;
    let between = BETWEEN_PORTS.min((HEIGHT - 8.0) / gaps.max(1.0));
    let port = move |rank: usize| (rank as f64 - gaps / 2.0) * between;
    links.into_iter().enumerate().map(move |(rank, (_, link))| (link, port(rank)))
}

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

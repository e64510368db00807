//! Finds places for boxes and ways for the links between them, from left to right.
//!
//! What is linked is laid out together: each box stands in the layer that the longest way to it gives, links that pass layers get a point
//! in each, boxes and points are ordered within their layers so that few links cross, then moved up and down towards what they are linked
//! to. The pieces are set side by side in rows.

use std::cmp::Reverse;
use std::collections::HashMap;

/// The height of a box.
pub(super) const HEIGHT: f64 = 26.0;
/// The height of a line of label.
pub(super) const LABEL_HEIGHT: f64 = 13.0;

const POINT_HEIGHT: f64 = 6.0;
const BETWEEN_BOXES: f64 = 14.0;
const BETWEEN_POINTS: f64 = 7.0;
const BETWEEN_LAYERS: f64 = 44.0;
const BETWEEN_PIECES: f64 = 36.0;
/// The distance between the ends of links at a box.
const BETWEEN_PORTS: f64 = 7.0;
/// Rows of pieces are at least as wide as this.
const ROW: f64 = 1100.0;
const SWEEPS: usize = 24;

/// Joins two boxes, the earlier one first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The width of its label: 0 if it has none.
    pub(super) label: f64,
}

/// A finished layout.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The left end of the upper edge, of boxes that are linked.
    pub(super) boxes: Vec<Option<Spot>>,
    /// A way a link.
    pub(super) ways: Vec<Way>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A place in the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spot {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// The course of a link.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    /// Horizontal where it passes a layer, and curved from one to the next.
    pub(super) stretches: Vec<Stretch>,
    /// The middle of the label.
    pub(super) label: Option<Spot>,
}

/// A horizontal part of a way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) y: f64,
}

/// Lays out boxes of these widths. Links are sorted by where they begin.
pub(super) fn lay_out(widths: &[f64], links: &[Link]) -> Layout {
    let mut layout =
        Layout { boxes: vec![None; widths.len()], ways: vec![Way::default(); links.len()], ..Layout::default() };
    let mut pieces: Vec<(Piece, Layout)> = pieces(widths.len(), links)
        .into_iter()
        .map(|piece| {
            let drawn = piece.draw(widths, links);
            (piece, drawn)
        })
        .collect();
    pieces.sort_by_key(|(piece, _)| Reverse(piece.boxes.len()));
    let row_width = pieces.iter().map(|(_, drawn)| drawn.width).fold(ROW, f64::max);
    let (mut left, mut top, mut bottom) = (0.0, 0.0, 0.0_f64);
    for (piece, drawn) in pieces {
        if left > 0.0 && left + drawn.width > row_width {
            (left, top) = (0.0, bottom + BETWEEN_PIECES);
        }
        let by = Spot { x: left, y: top };
        for (&number, spot) in piece.boxes.iter().zip(drawn.boxes) {
            layout.boxes[number] = spot.map(|spot| spot.moved(by));
        }
        for (&number, way) in piece.links.iter().zip(drawn.ways) {
            layout.ways[number] = way.moved(by);
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

    /// A spot on the curve after a stretch: 0 is its begin, 1 its end.
    fn on_curve(&self, stretch: usize, part: f64) -> Spot {
        let (from, to) = (self.stretches[stretch], self.stretches[stretch + 1]);
        let rest = 1.0 - part;
        // The curve leaves and arrives horizontally, with both handles in the middle.
        let middle = f64::midpoint(from.right, to.left);
        let (begin, handles, end) = (rest.powi(3), 3.0 * rest * part, part.powi(3));
        Spot {
            x: begin * from.right + handles * middle + end * to.left,
            y: begin * from.y + handles * (rest * from.y + part * to.y) + end * to.y,
        }
    }
}

/// Boxes that are linked, by whatever way, and their links.
#[derive(Default)]
struct Piece {
    boxes: Vec<usize>,
    links: Vec<usize>,
}

fn pieces(boxes: usize, links: &[Link]) -> Vec<Piece> {
    // Each box knows one before it in its piece, and the first one knows itself.
    let mut before: Vec<usize> = (0..boxes).collect();
    let mut linked = vec![false; boxes];
    let first = |before: &mut Vec<usize>, mut number: usize| {
        while before[number] != number {
            before[number] = before[before[number]];
            number = before[number];
        }
        number
    };
    for link in links {
        let (a, b) = (first(&mut before, link.from), first(&mut before, link.to));
        before[a.max(b)] = a.min(b);
        (linked[link.from], linked[link.to]) = (true, true);
    }
    let mut numbers = HashMap::new();
    let mut pieces: Vec<Piece> = Vec::new();
    for number in (0..boxes).filter(|&number| linked[number]) {
        let piece = *numbers.entry(first(&mut before, number)).or_insert(pieces.len());
        if piece == pieces.len() {
            pieces.push(Piece::default());
        }
        pieces[piece].boxes.push(number);
    }
    for (number, link) in links.iter().enumerate() {
        if let Some(&piece) = numbers.get(&first(&mut before, link.from)) {
            pieces[piece].links.push(number);
        }
    }
    pieces
}

impl Piece {
    fn draw(&self, widths: &[f64], links: &[Link]) -> Layout {
        let local: HashMap<usize, usize> =
            self.boxes.iter().enumerate().map(|(local, &number)| (number, local)).collect();
        let widths: Vec<f64> = self.boxes.iter().map(|&number| widths[number]).collect();
        let links = self.links.iter().map(|&number| links[number]);
        let links: Vec<Link> = links.map(|l| Link { from: local[&l.from], to: local[&l.to], label: l.label }).collect();
        let mut grid = Grid::new(widths.len(), &links);
        grid.order();
        grid.settle();
        grid.draw(&widths, &links)
    }
}

/// Boxes and points in their layers. Points are numbered after the boxes.
struct Grid {
    boxes: usize,
    layer_of: Vec<usize>,
    layers: Vec<Vec<usize>>,
    /// The points that each link passes, from its box to its box.
    stops: Vec<Vec<usize>>,
    /// The items that are linked to each box or point from the left, and to the right.
    neighbours: [Vec<Vec<usize>>; 2],
    /// The middle of each box or point.
    y: Vec<f64>,
}

impl Grid {
    fn new(boxes: usize, links: &[Link]) -> Grid {
        let mut layer_of = layers(boxes, links);
        let mut stops: Vec<Vec<usize>> = Vec::new();
        let passed: usize = links.iter().map(|link| layer_of[link.to] - layer_of[link.from] - 1).sum();
        // In a thicket points cost a lot and help nobody: there, links run straight over what is in their way.
        let points = passed <= 4 * (boxes + links.len()) + 1000;
        for link in links {
            let mut way = vec![link.from];
            if points {
                for layer in layer_of[link.from] + 1..layer_of[link.to] {
                    way.push(layer_of.len());
                    layer_of.push(layer);
                }
            }
            way.push(link.to);
            stops.push(way);
        }
        let mut layers = vec![Vec::new(); layer_of.iter().max().map_or(0, |last| last + 1)];
        let mut neighbours = [vec![Vec::new(); layer_of.len()], vec![Vec::new(); layer_of.len()]];
        layer_of.iter().enumerate().for_each(|(item, &layer)| layers[layer].push(item));
        for (from, to) in stops.iter().flat_map(|way| way.iter().zip(way.iter().skip(1))) {
            neighbours[0][*to].push(*from);
            neighbours[1][*from].push(*to);
        }
        let y = vec![0.0; layer_of.len()];
        Grid { boxes, layer_of, layers, stops, neighbours, y }
    }

    /// Orders each layer by where the neighbours are on average, to and fro, and keeps the best of it.
    fn order(&mut self) {
        let mut places = vec![0; self.layer_of.len()];
        let mut best = (usize::MAX, self.layers.clone());
        for sweep in 0..SWEEPS {
            let to_the_right = sweep % 2 == 0;
            let neighbours = &self.neighbours[usize::from(!to_the_right)];
            for step in 0..self.layers.len() {
                let layer = if to_the_right { step } else { self.layers.len() - 1 - step };
                let items = &mut self.layers[layer];
                items.iter().enumerate().for_each(|(place, &item)| places[item] = place);
                let key = |&item: &usize| mean(neighbours[item].iter().map(|&other| places[other] as f64));
                let mut keyed: Vec<(f64, usize)> =
                    items.iter().map(|item| (key(item).unwrap_or(places[*item] as f64), *item)).collect();
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
                *items = keyed.into_iter().map(|(_, item)| item).collect();
                items.iter().enumerate().for_each(|(place, &item)| places[item] = place);
            }
            let crossings = self.crossings(&places);
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
            if crossings == 0 {
                break;
            }
        }
        self.layers = best.1;
    }

    /// Returns the number of pairs of links that cross between neighbouring layers.
    fn crossings(&self, places: &[usize]) -> usize {
        let mut crossings = 0;
        for (layer, next) in self.layers.iter().zip(self.layers.iter().skip(1)) {
            // The number of ends so far at a place or before: a Fenwick tree.
            let mut ends = vec![0; next.len() + 1];
            let mut count = 0;
            for &item in layer {
                let mut right: Vec<usize> = self.neighbours[1][item]
                    .iter()
                    .filter(|&&other| self.layer_of[other] == self.layer_of[item] + 1)
                    .map(|&other| places[other] + 1)
                    .collect();
                right.sort_unstable();
                for &place in &right {
                    let mut at = place;
                    let mut not_below = 0;
                    while at > 0 {
                        not_below += ends[at];
                        at &= at - 1;
                    }
                    crossings += count - not_below;
                }
                for place in right {
                    let mut at = place;
                    while at < ends.len() {
                        ends[at] += 1;
                        at += at & at.wrapping_neg();
                    }
                    count += 1;
                }
            }
        }
        crossings
    }

    /// Moves boxes and points up and down, in their order, towards their neighbours.
    fn settle(&mut self) {
        for layer in 0..self.layers.len() {
            self.settle_layer(layer, &[]);
        }
        let last = self.layers.len() - 1;
        for sweep in 0..SWEEPS {
            // At last neither side alone is followed.
            let sides: &[usize] = if sweep + 4 > SWEEPS { &[0, 1] } else { &[[0], [1]][sweep % 2] };
            for step in 0..=last {
                self.settle_layer(if sweep % 2 == 0 { step } else { last - step }, sides);
            }
        }
        let top = (0..self.y.len()).map(|item| self.y[item] - self.height(item) / 2.0).fold(f64::INFINITY, f64::min);
        self.y.iter_mut().for_each(|y| *y -= top);
    }

    /// Gives each item of a layer the nearest place to the mean of its neighbours that keeps order and distances: the sum of the squares
    /// of what they miss it by is the least.
    fn settle_layer(&mut self, layer: usize, sides: &[usize]) {
        // Runs of items that stand as near as they may: how many, where the first would be if distances were nothing, its weight.
        let mut runs: Vec<(usize, f64, f64)> = Vec::new();
        let mut distances = Vec::new();
        let mut distance = 0.0;
        let mut above: Option<usize> = None;
        for &item in &self.layers[layer] {
            if let Some(above) = above {
                let gap = if above.max(item) < self.boxes { BETWEEN_BOXES } else { BETWEEN_POINTS };
                distance += f64::midpoint(self.height(above), self.height(item)) + gap;
            }
            above = Some(item);
            distances.push(distance);
            let (wish, weight) = self.wish(item, sides);
            let mut run = (1, wish - distance, weight);
            while let Some(last) = runs.pop_if(|last| last.1 > run.1) {
                let weight = last.2 + run.2;
                run = (last.0 + run.0, (last.1 * last.2 + run.1 * run.2) / weight, weight);
            }
            runs.push(run);
        }
        let offsets = runs.iter().flat_map(|&(length, offset, _)| std::iter::repeat_n(offset, length));
        for ((&item, distance), offset) in self.layers[layer].iter().zip(distances).zip(offsets) {
            self.y[item] = distance + offset;
        }
    }

    /// Returns the best position of an item, and its weight. Points want to be in line with each other, so that long links are straight.
    fn wish(&self, item: usize, sides: &[usize]) -> (f64, f64) {
        let (mut sum, mut weights) = (0.0, 0.0);
        for &other in sides.iter().flat_map(|&side| &self.neighbours[side][item]) {
            let weight = if item.min(other) >= self.boxes { 4.0 } else { 1.0 };
            sum += weight * self.y[other];
            weights += weight;
        }
        if weights > 0.0 { (sum / weights, weights) } else { (self.y[item], 0.1) }
    }

    fn height(&self, item: usize) -> f64 {
        if item < self.boxes { HEIGHT } else { POINT_HEIGHT }
    }

    fn draw(&self, widths: &[f64], links: &[Link]) -> Layout {
        // Labels go to that end of a link where there are fewer others.
        let at_the_end = |link: &Link| self.neighbours[1][link.from].len() > self.neighbours[0][link.to].len();
        let label_stretch = |number: usize| if at_the_end(&links[number]) { self.stops[number].len() - 2 } else { 0 };
        let columns = self.columns(widths, links, &label_stretch);
        let ports = self.ports();
        let mut labels = Labels::default();
        let mut ways = Vec::new();
        for (number, (link, stops)) in links.iter().zip(&self.stops).enumerate() {
            let (port_from, port_to) = ports[number];
            let stretch = |&item: &usize| {
                let (left, right) = columns[self.layer_of[item]];
                match item {
                    _ if item == link.from => Stretch { left: left + widths[item], right, y: self.y[item] + port_from },
                    _ if item == link.to => Stretch { left, right: left, y: self.y[item] + port_to },
                    _ => Stretch { left, right, y: self.y[item] },
                }
            };
            let mut way = Way { stretches: stops.iter().map(stretch).collect(), label: None };
            if link.label > 0.0 {
                way.label = Some(labels.place(&way, label_stretch(number), link.label));
            }
            ways.push(way);
        }
        let spot = |number: usize| Spot { x: columns[self.layer_of[number]].0, y: self.y[number] - HEIGHT / 2.0 };
        let bottom = (0..self.y.len()).map(|item| self.y[item] + self.height(item) / 2.0).fold(0.0, f64::max);
        Layout {
            boxes: (0..self.boxes).map(|number| Some(spot(number))).collect(),
            ways,
            width: columns.last().map_or(0.0, |column| column.1),
            height: bottom,
        }
    }

    /// The left and the right end of each layer: as far apart as labels and steep links need.
    fn columns(&self, widths: &[f64], links: &[Link], label_stretch: &dyn Fn(usize) -> usize) -> Vec<(f64, f64)> {
        let mut gaps = vec![0.0_f64; self.layers.len()];
        for (number, stops) in self.stops.iter().enumerate() {
            for (place, (&from, &to)) in stops.iter().zip(stops.iter().skip(1)).enumerate() {
                let label = if place == label_stretch(number) { links[number].label } else { 0.0 };
                let steep = ((self.y[to] - self.y[from]).abs() * 0.15).min(100.0);
                let gap = &mut gaps[self.layer_of[from]];
                *gap = gap.max(label + steep);
            }
        }
        let mut left = 0.0;
        let mut columns = Vec::new();
        for (layer, gap) in self.layers.iter().zip(gaps) {
            let boxes = layer.iter().filter(|&&item| item < self.boxes);
            let right = left + boxes.map(|&number| widths[number]).fold(0.0, f64::max);
            columns.push((left, right));
            left = right + gap + BETWEEN_LAYERS;
        }
        columns
    }

    /// Returns the distance of each end of a link from the middle of its box, so that links arrive in parallel and do not cross there.
    fn ports(&self) -> Vec<(f64, f64)> {
        let mut ports = vec![(0.0, 0.0); self.stops.len()];
        let mut ends: [Vec<Vec<(f64, usize)>>; 2] = [vec![Vec::new(); self.boxes], vec![Vec::new(); self.boxes]];
        for (number, stops) in self.stops.iter().enumerate() {
            if let ([from, second, ..], [.., last_but_one, to]) = (&stops[..], &stops[..]) {
                ends[0][*from].push((self.y[*second], number));
                ends[1][*to].push((self.y[*last_but_one], number));
            }
        }
        for (side, boxes) in ends.into_iter().enumerate() {
            for mut links in boxes {
                links.sort_by(|a, b| a.0.total_cmp(&b.0));
                let gaps = links.len().saturating_sub(1) as f64;
                let between = BETWEEN_PORTS.min((HEIGHT - 8.0) / gaps.max(1.0));
                for (place, (_, number)) in links.into_iter().enumerate() {
                    let port = (place as f64 - gaps / 2.0) * between;
                    if side == 0 { ports[number].0 = port } else { ports[number].1 = port }
                }
            }
        }
        ports
    }
}

/// The labels that have a place, by the line of label in which their middle is.
#[derive(Default)]
struct Labels(HashMap<i64, Vec<(Spot, f64)>>);

impl Labels {
    /// Finds a place for a label on the curve after a stretch, where no other label is if there is such a place.
    fn place(&mut self, way: &Way, stretch: usize, width: f64) -> Spot {
        let row = |spot: Spot| (spot.y / LABEL_HEIGHT).floor() as i64;
        let is_free = |spot: &Spot| {
            let near = (row(*spot) - 1..=row(*spot) + 1).filter_map(|row| self.0.get(&row)).flatten();
            near.into_iter().all(|(other, other_width)| {
                (other.y - spot.y).abs() >= LABEL_HEIGHT
                    || (other.x - spot.x).abs() >= f64::midpoint(width, *other_width) + 6.0
            })
        };
        let candidates = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8].map(|part| way.on_curve(stretch, part));
        let spot = candidates.into_iter().find(is_free).unwrap_or(candidates[0]);
        self.0.entry(row(spot)).or_default().push((spot, width));
        spot
    }
}

/// The layer of each box: the length of the longest way to it. Where no way leads, it stands just before what it is linked to.
fn layers(boxes: usize, links: &[Link]) -> Vec<usize> {
    let mut layers = vec![0; boxes];
    let mut nearest: Vec<Option<usize>> = vec![None; boxes];
    let mut is_reached = vec![false; boxes];
    for link in links {
        layers[link.to] = layers[link.to].max(layers[link.from] + 1);
        is_reached[link.to] = true;
    }
    for link in links {
        nearest[link.from] = nearest[link.from].into_iter().chain([layers[link.to]]).min();
    }
    for number in (0..boxes).filter(|&number| !is_reached[number]) {
        layers[number] = nearest[number].map_or(0, |nearest| nearest - 1);
    }
    layers
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    (count > 0.0).then(|| sum / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(from: usize, to: usize) -> Link {
        Link { from, to, label: if (from + to).is_multiple_of(3) { 80.0 } else { 0.0 } }
    }

    /// Links in their order, without any twice, that look random and are the same each time.
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
        let layout = lay_out(widths, links);
        let mut placed: Vec<(Spot, f64)> =
            std::iter::zip(&layout.boxes, widths).filter_map(|(s, w)| Some(((*s)?, *w))).collect();
        for (number, spot) in layout.boxes.iter().enumerate() {
            assert_eq!(spot.is_some(), links.iter().any(|link| link.from == number || link.to == number));
        }
        placed.sort_by(|a, b| a.0.x.total_cmp(&b.0.x));
        for (place, (spot, width)) in placed.iter().enumerate() {
            assert!(spot.x >= 0.0 && spot.x + width <= layout.width + 0.01, "{spot:?} is outside");
            assert!(spot.y >= -0.01 && spot.y + HEIGHT <= layout.height + 0.01, "{spot:?} is outside");
            let beside = placed[place + 1..].iter().take_while(|(other, _)| other.x < spot.x + width);
            for (other, _) in beside {
                assert!((other.y - spot.y).abs() >= HEIGHT, "{spot:?} and {other:?} overlap");
            }
        }
        for (link, way) in links.iter().zip(&layout.ways) {
            let (from, to) = (layout.boxes[link.from].unwrap(), layout.boxes[link.to].unwrap());
            let (first, last) = (way.stretches[0], way.stretches[way.stretches.len() - 1]);
            assert!((first.left - from.x - widths[link.from]).abs() < 0.01 && (last.right - to.x).abs() < 0.01);
            assert!(first.y > from.y && first.y < from.y + HEIGHT && last.y > to.y && last.y < to.y + HEIGHT);
            assert!(way.stretches.windows(2).all(|pair| pair[0].left <= pair[0].right && pair[0].right < pair[1].left));
            assert_eq!(way.label.is_some(), link.label > 0.0);
        }
    }

    #[test]
    fn nothing_overlaps_and_links_run_from_box_to_box() {
        check(&[], &[]);
        check(&[50.0; 3], &[link(0, 2)]);
        for seed in 0..40 {
            let widths: Vec<f64> = (0..60).map(|number| 20.0 + f64::from(number * 37 % 200)).collect();
            check(&widths, &random(60, 10 + 5 * seed, seed));
        }
        check(&[100.0; 2000], &random(2000, 6000, 1));
    }

    #[test]
    fn long_links_pass_layers_in_a_thin_graph_and_fly_in_a_thicket() {
        let stretches = |links: &[Link], boxes: usize| lay_out(&vec![50.0; boxes], links).ways[1].stretches.len();
        assert_eq!(stretches(&[link(0, 1), link(0, 3), link(1, 2), link(2, 3)], 4), 4);
        let all = |boxes: usize| {
            (0..boxes).flat_map(|from| (from + 1..boxes).map(move |to| link(from, to))).collect::<Vec<_>>()
        };
        assert_eq!(stretches(&all(40), 40), 2);
    }

    #[test]
    fn layers_follow_the_longest_way() {
        assert_eq!(layers(5, &[link(0, 1), link(0, 3), link(1, 2), link(2, 3)]), [0, 1, 2, 3, 0]);
        assert_eq!(layers(4, &[link(0, 1), link(1, 3), link(2, 3)]), [0, 1, 1, 2]);
    }

    #[test]
    fn pieces_are_drawn_side_by_side() {
        let layout = lay_out(&[50.0; 4], &[link(0, 1), link(2, 3)]);
        let spots: Vec<Spot> = layout.boxes.into_iter().flatten().collect();
        assert!(spots.iter().all(|spot| spot.y == 0.0));
        assert!(spots.windows(2).all(|pair| pair[0].x + 50.0 < pair[1].x));
    }

    #[test]
    fn crossings_that_can_be_avoided_are() {
        let mut grid = Grid::new(6, &[link(0, 5), link(1, 4), link(2, 3)]);
        assert_eq!(grid.crossings(&[0, 1, 2, 0, 1, 2]), 3);
        grid.order();
        let place = |item: usize| grid.layers[grid.layer_of[item]].iter().position(|other| *other == item).unwrap();
        assert_eq!(grid.crossings(&(0..6).map(place).collect::<Vec<_>>()), 0);
    }
}

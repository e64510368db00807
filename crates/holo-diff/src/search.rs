//! Searches for a short edit script: Myers' algorithm in linear space.
//!
//! Two searches start at opposite corners of the edit graph, and the point where they meet divides it in two. Like git,
//! they settle for a good path if finding the best one would be too expensive.

mod graph;

use graph::{Area, Frontier, Grid, Point, between};

/// The minimum length of a run of equal lines that is worth following before the best path is known.
const LONG_SNAKE: isize = 20;

/// Up to this cost, the search never settles for a long snake.
const PATIENCE: isize = 256;

/// The minimum number of lines per unit of cost by which a snake must have advanced to be good enough.
const ADVANCE_PER_COST: isize = 4;

/// The search never gives up below this cost, regardless of the sizes of the texts.
const LEAST_COST_LIMIT: usize = 256;

/// A point on the chosen path. The parts before and after it may have to be searched for the best path.
struct Split {
    point: Point,
    minimal_before: bool,
    minimal_after: bool,
}

impl Split {
    fn optimal(point: Point) -> Self {
        Self { point, minimal_before: true, minimal_after: true }
    }

    /// Splits at a point that the search from the start has reached by the best path.
    fn forward(point: Point) -> Self {
        Self { point, minimal_before: true, minimal_after: false }
    }

    /// Splits at a point that the search from the end has reached by the best path.
    fn backward(point: Point) -> Self {
        Self { point, minimal_before: false, minimal_after: true }
    }
}

/// Searches for a path through the edit graph of the kept lines.
pub(super) struct Search<'a> {
    grid: Grid<'a>,
    old: &'a Kept,
    new: &'a Kept,
    changes: &'a mut Changes,
    forward: Frontier,
    backward: Frontier,
    cost_limit: isize,
}

impl<'a> Search<'a> {
    pub(super) fn new(old: &'a Kept, new: &'a Kept, changes: &'a mut Changes) -> Self {
        let (old_len, new_len) = (old.classes.len(), new.classes.len());
        let cost_limit = coarse_sqrt(old_len + new_len + 3).max(LEAST_COST_LIMIT);
        Self {
            grid: Grid { old: &old.classes, new: &new.classes },
            old,
            new,
            changes,
            forward: Frontier::new(old_len, new_len, -1),
            backward: Frontier::new(old_len, new_len, isize::MAX),
            cost_limit: cost_limit as isize,
        }
    }

    /// Divides and conquers with an explicit stack, because the depth depends on the input.
    pub(super) fn run(mut self) {
        let mut pending = vec![Area {
            start: Point { old: 0, new: 0 },
            end: Point { old: self.old.classes.len() as isize, new: self.new.classes.len() as isize },
            minimal: false,
        }];
        while let Some(area) = pending.pop() {
            let area = self.shrink(area);
            if area.start.old == area.end.old || area.start.new == area.end.new {
                self.mark_changed(&area);
                continue;
            }
            let split = self.split(&area);
            pending.push(Area { start: area.start, end: split.point, minimal: split.minimal_before });
            pending.push(Area { start: split.point, end: area.end, minimal: split.minimal_after });
        }
    }

    /// Removes equal lines from both ends of an area.
    fn shrink(&self, mut area: Area) -> Area {
        let ahead = self.grid.snake_ahead(area.start, area.end);
        area.start.old += ahead;
        area.start.new += ahead;
        let behind = self.grid.snake_behind(area.end, area.start);
        area.end.old -= behind;
        area.end.new -= behind;
        area
    }

    fn mark_changed(&mut self, area: &Area) {
        mark(&mut self.changes.old, between(&self.old.positions, area.start.old, area.end.old));
        mark(&mut self.changes.new, between(&self.new.positions, area.start.new, area.end.new));
    }

    /// Chooses a point on the path through an area by searching from both corners at once.
    fn split(&mut self, area: &Area) -> Split {
        self.forward.restart(area.start);
        self.backward.restart(area.end);
        // If the corners' diagonals are an odd distance apart, the searches meet after a forward step.
        let odd = (area.start.diagonal() - area.end.diagonal()) % 2 != 0;
        let mut cost = 0;
        loop {
            cost += 1;
            let mut long_snake = false;
            if let Some(point) = self.advance(area, odd, &mut long_snake) {
                return Split::optimal(point);
            }
            if let Some(point) = self.retreat(area, !odd, &mut long_snake) {
                return Split::optimal(point);
            }
            if area.minimal {
                continue;
            }
            if long_snake
                && cost > PATIENCE
                && let Some(split) = self.best_snake(area, cost)
            {
                return split;
            }
            if cost >= self.cost_limit {
                return self.furthest(area);
            }
        }
    }

    /// Raises the cost of the search from the start of an area by one. Returns the point where it meets the other
    /// search, if `may_meet` is true. Sets `long_snake` if a long snake was found.
    fn advance(&mut self, area: &Area, may_meet: bool, long_snake: &mut bool) -> Option<Point> {
        let (grid, backward) = (self.grid, &self.backward);
        self.forward.widen(area);
        self.forward.step(|diagonal, adding, removing| {
            let old = if removing >= adding { removing + 1 } else { adding };
            let snake = grid.snake_ahead(Point::on_diagonal(diagonal, old), area.end);
            *long_snake |= snake > LONG_SNAKE;
            let old = old + snake;
            let meets = may_meet && backward.covers(diagonal) && backward.get(diagonal) <= old;
            (old, meets.then(|| Point::on_diagonal(diagonal, old)))
        })
    }

    /// Like [`Self::advance`], for the search from the end of an area.
    fn retreat(&mut self, area: &Area, may_meet: bool, long_snake: &mut bool) -> Option<Point> {
        let (grid, forward) = (self.grid, &self.forward);
        self.backward.widen(area);
        self.backward.step(|diagonal, removing, adding| {
            let old = if adding < removing { adding } else { removing - 1 };
            let snake = grid.snake_behind(Point::on_diagonal(diagonal, old), area.start);
            *long_snake |= snake > LONG_SNAKE;
            let old = old - snake;
            let meets = may_meet && forward.covers(diagonal) && old <= forward.get(diagonal);
            (old, meets.then(|| Point::on_diagonal(diagonal, old)))
        })
    }

    /// Returns a point after a long snake where one of the searches has advanced far for its cost.
    fn best_snake(&self, area: &Area, cost: isize) -> Option<Split> {
        let enough = ADVANCE_PER_COST * cost;
        let forward = self.forward.points().filter_map(|point| {
            let advance = point.sum() - area.start.sum() - bend(point, area.start);
            (advance > enough && self.ends_long_snake(point, area)).then_some((advance, point))
        });
        if let Some(point) = first_of_best(forward) {
            return Some(Split::forward(point));
        }
        let backward = self.backward.points().filter_map(|point| {
            let advance = area.end.sum() - point.sum() - bend(point, area.end);
            (advance > enough && self.starts_long_snake(point, area)).then_some((advance, point))
        });
        first_of_best(backward).map(Split::backward)
    }

    fn ends_long_snake(&self, point: Point, area: &Area) -> bool {
        let start = Point { old: point.old - LONG_SNAKE, new: point.new - LONG_SNAKE };
        start.old >= area.start.old
            && start.new >= area.start.new
            && point.old < area.end.old
            && point.new < area.end.new
            && self.grid.snake_ahead(start, point) == LONG_SNAKE
    }

    fn starts_long_snake(&self, point: Point, area: &Area) -> bool {
        let end = Point { old: point.old + LONG_SNAKE, new: point.new + LONG_SNAKE };
        end.old <= area.end.old
            && end.new <= area.end.new
            && point.old > area.start.old
            && point.new > area.start.new
            && self.grid.snake_ahead(point, end) == LONG_SNAKE
    }

    /// Returns the point in an area that is furthest from the corner where its search started.
    fn furthest(&self, area: &Area) -> Split {
        let forward = self.forward.points().map(|point| {
            let old = point.old.min(area.end.old).min(area.end.new + point.diagonal());
            let point = Point::on_diagonal(point.diagonal(), old);
            (point.sum() - area.start.sum(), point)
        });
        let backward = self.backward.points().map(|point| {
            let old = point.old.max(area.start.old).max(area.start.new + point.diagonal());
            let point = Point::on_diagonal(point.diagonal(), old);
            (area.end.sum() - point.sum(), point)
        });
        let forward = forward.reduce(better);
        let backward = backward.reduce(better);
        match (forward, backward) {
            (Some((ahead, point)), Some((behind, _))) if ahead > behind => Split::forward(point),
            (_, Some((_, point))) => Split::backward(point),
            (Some((_, point)), None) => Split::forward(point),
            // Unreachable: before the searches meet, each has at least one point.
            (None, None) => Split::backward(area.start),
        }
    }
}

/// Marks the lines at these positions as changed.
fn mark(changed: &mut [bool], positions: &[usize]) {
    for &position in positions {
        changed.get_mut(position).into_iter().for_each(|changed| *changed = true);
    }
}

/// Returns the distance of a point from a corner's diagonal.
fn bend(point: Point, corner: Point) -> isize {
    (point.diagonal() - corner.diagonal()).abs()
}

fn first_of_best(points: impl Iterator<Item = (isize, Point)>) -> Option<Point> {
    points.reduce(better).map(|(_, point)| point)
}

/// Returns the candidate with the higher score, or the first if they are equal.
fn better(first: (isize, Point), second: (isize, Point)) -> (isize, Point) {
    if second.0 > first.0 { second } else { first }
}

/// The class of a line; lines of both texts are equal if and only if their classes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class(u32);

impl From<usize> for Class {
    fn from(index: usize) -> Class {
        Class(index as u32)
    }
}

impl From<Class> for usize {
    fn from(class: Class) -> usize {
        class.0 as usize
    }
}

/// A text as lines, including their newlines.
pub(super) struct Text<'a> {
    pub(super) lines: Vec<&'a [u8]>,
    /// The class of each line.
    pub(super) classes: Vec<Class>,
}

/// Marks each line of both texts that is changed: removed from the old text, or added to the new one.
pub(super) struct Changes {
    pub(super) old: Vec<bool>,
    pub(super) new: Vec<bool>,
}

/// The lines of a text that are considered in the search.
pub(super) struct Kept {
    pub(super) classes: Vec<Class>,
    /// The position of each line in the whole text.
    pub(super) positions: Vec<usize>,
}

/// Returns the number of equal pairs before the first difference.
pub(super) fn count_equal<T: PartialEq>(one: impl Iterator<Item = T>, other: impl Iterator<Item = T>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

/// Returns a power of two that approximates the square root, never below it.
pub(super) fn coarse_sqrt(n: usize) -> usize {
    let bits = usize::BITS - n.leading_zeros();
    1 << bits.div_ceil(2)
}

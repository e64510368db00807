//! The edit graph of two texts: points and diagonals.

use crate::search::Class;

/// A pair of positions in the kept lines of both texts.
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) old: isize,
    pub(super) new: isize,
}

impl Point {
    pub(super) fn diagonal(self) -> isize {
        self.old - self.new
    }

    pub(super) fn on_diagonal(diagonal: isize, old: isize) -> Self {
        Self { old, new: old - diagonal }
    }

    pub(super) fn sum(self) -> isize {
        self.old + self.new
    }
}

/// A rectangle of the edit graph, from its start (inclusive) to its end (exclusive).
pub(super) struct Area {
    pub(super) start: Point,
    pub(super) end: Point,
    /// True if only the best path is acceptable.
    pub(super) minimal: bool,
}

/// The points that the search from one corner has reached at the current cost: the position in the old text for each
/// diagonal.
pub(super) struct Frontier {
    reached: Vec<isize>,
    /// The index in `reached` of diagonal 0.
    origin: isize,
    pub(super) lowest: isize,
    pub(super) highest: isize,
    /// A value that is worse than every real position.
    unreached: isize,
}

impl Frontier {
    pub(super) fn new(old_len: usize, new_len: usize, unreached: isize) -> Self {
        Self {
            // One additional diagonal at each end for sentinels.
            reached: vec![unreached; old_len + new_len + 3],
            origin: new_len as isize + 1,
            lowest: 0,
            highest: 0,
            unreached,
        }
    }

    pub(super) fn restart(&mut self, corner: Point) {
        self.lowest = corner.diagonal();
        self.highest = corner.diagonal();
        self.set(corner.diagonal(), corner.old);
    }

    pub(super) fn get(&self, diagonal: isize) -> isize {
        self.reached.get((diagonal + self.origin) as usize).copied().unwrap_or(self.unreached)
    }

    pub(super) fn set(&mut self, diagonal: isize, old: isize) {
        let reached = usize::try_from(diagonal + self.origin).ok().and_then(|index| self.reached.get_mut(index));
        reached.into_iter().for_each(|reached| *reached = old);
    }

    pub(super) fn point(&self, diagonal: isize) -> Point {
        Point::on_diagonal(diagonal, self.get(diagonal))
    }

    pub(super) fn covers(&self, diagonal: isize) -> bool {
        self.lowest <= diagonal && diagonal <= self.highest
    }

    /// Includes the next diagonal on each side. At the border of the area, that side is narrowed instead, since only
    /// every second diagonal can be reached at any cost.
    pub(super) fn widen(&mut self, area: &Area) {
        if self.lowest > area.start.old - area.end.new {
            self.lowest -= 1;
            self.set(self.lowest - 1, self.unreached);
        } else {
            self.lowest += 1;
        }
        if self.highest < area.end.old - area.start.new {
            self.highest += 1;
            self.set(self.highest + 1, self.unreached);
        } else {
            self.highest -= 1;
        }
    }

    /// Advances the points of the current cost, highest diagonal first, until a result is found. `step` receives a
    /// diagonal and the positions on the ones above and below it.
    pub(super) fn step<T>(&mut self, mut step: impl FnMut(isize, isize, isize) -> (isize, Option<T>)) -> Option<T> {
        let indexes = (self.lowest - 1 + self.origin) as usize..(self.highest + 2 + self.origin) as usize;
        let mut reached = self.reached.get_mut(indexes).unwrap_or_default().iter_mut().rev();
        let mut above = *reached.next()?;
        let mut diagonal = self.highest;
        while let (Some(current), Some(&mut below)) = (reached.next(), reached.next()) {
            let (old, found) = step(diagonal, above, below);
            *current = old;
            if found.is_some() {
                return found;
            }
            above = below;
            diagonal -= 2;
        }
        None
    }

    /// Returns the points of the current cost, highest diagonal first.
    pub(super) fn points(&self) -> impl Iterator<Item = Point> {
        let diagonals = (self.lowest..=self.highest).rev().step_by(2);
        diagonals.map(|diagonal| self.point(diagonal))
    }
}

/// The kept lines of both texts.
#[derive(Clone, Copy)]
pub(super) struct Grid<'a> {
    pub(super) old: &'a [Class],
    pub(super) new: &'a [Class],
}

impl Grid<'_> {
    /// Returns the number of equal lines from a point up to a limit.
    pub(super) fn snake_ahead(self, point: Point, limit: Point) -> isize {
        let (old, new) = (between(self.old, 0, limit.old), between(self.new, 0, limit.new));
        let mut length = 0;
        while let (Some(old), Some(new)) = (at(old, point.old + length), at(new, point.new + length))
            && old == new
        {
            length += 1;
        }
        length
    }

    /// Returns the number of equal lines before a point, back to a limit.
    pub(super) fn snake_behind(self, point: Point, limit: Point) -> isize {
        let mut length = 0;
        while let (Some(old), Some(new)) = (at(self.old, point.old - length - 1), at(self.new, point.new - length - 1))
            && point.old - length > limit.old
            && point.new - length > limit.new
            && old == new
        {
            length += 1;
        }
        length
    }
}

/// Returns the line at a position; `None` if it is out of range.
fn at(text: &[Class], position: isize) -> Option<Class> {
    // No text is long enough for a converted negative position to be in range.
    text.get(position as usize).copied()
}

/// Returns a part of a text; empty if it ends before it starts.
pub(super) fn between<T>(text: &[T], start: isize, end: isize) -> &[T] {
    text.get(start as usize..end as usize).unwrap_or_default()
}

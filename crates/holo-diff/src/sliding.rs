//! Moves runs of changed lines to where readers expect them.
//!
//! A run can slide if the line before it equals its last line, or the line after it equals its first one. The texts
//! differ in the same way at every position.

use crate::search::{Changes, Text};
use std::cmp::Ordering;

/// Slides the runs of changed lines in both texts.
pub(super) fn slide(old: &Text<'_>, new: &Text<'_>, changes: &mut Changes) {
    slide_runs(old, &mut changes.old, &changes.new);
    slide_runs(new, &mut changes.new, &changes.old);
}

/// The gap between two unchanged lines of a text, or at one of its ends, with its run of changed lines, which may be
/// empty. Both texts have the same number of gaps.
struct Gap {
    start: usize,
    end: usize,
}

impl Gap {
    fn first(changed: &[bool]) -> Self {
        Self::starting_at(0, changed)
    }

    fn starting_at(start: usize, changed: &[bool]) -> Self {
        let run = changed.iter().skip(start).take_while(|changed| **changed);
        Self { start, end: start + run.count() }
    }

    fn ending_at(end: usize, changed: &[bool]) -> Self {
        let run = changed.iter().take(end).rev().take_while(|changed| **changed);
        Self { start: end - run.count(), end }
    }

    fn next(&self, changed: &[bool]) -> Option<Self> {
        (self.end < changed.len()).then(|| Self::starting_at(self.end + 1, changed))
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// Slides every run of changed lines in a text, relative to the other text.
fn slide_runs(text: &Text<'_>, changed: &mut [bool], other_changed: &[bool]) {
    let gap = Gap::first(changed);
    let other_gap = Gap::first(other_changed);
    let mut slider = Slider { text, changed, other_changed, gap, other_gap };
    loop {
        if !slider.gap.is_empty() {
            slider.slide();
        }
        if !slider.next() {
            return;
        }
    }
}

/// A run and its counterpart: the gap between the same unchanged lines of the other text.
struct Slider<'a> {
    text: &'a Text<'a>,
    changed: &'a mut [bool],
    other_changed: &'a [bool],
    gap: Gap,
    other_gap: Gap,
}

impl Slider<'_> {
    fn next(&mut self) -> bool {
        let next = self.gap.next(self.changed);
        let other_next = self.other_gap.next(self.other_changed);
        let (Some(gap), Some(other_gap)) = (next, other_next) else {
            return false;
        };
        self.gap = gap;
        self.other_gap = other_gap;
        true
    }

    /// Moves the run to its best position.
    fn slide(&mut self) {
        let (highest_end, meets_other) = self.explore();
        if self.gap.end == highest_end {
            return;
        }
        if meets_other {
            // A removal and an addition at the same position read as a modification.
            while self.other_gap.is_empty() && self.up() {}
            return;
        }
        let best = self.best_end(highest_end);
        while self.gap.end > best && self.up() {}
    }

    /// Slides the run all the way up, then all the way down, merging it with runs that it touches. Returns the highest
    /// position of its end, and whether it can be opposite a run of the other text.
    fn explore(&mut self) -> (usize, bool) {
        loop {
            let len = self.gap.len();
            while self.up() {}
            let highest_end = self.gap.end;
            let mut meets_other = !self.other_gap.is_empty();
            while self.down() {
                meets_other |= !self.other_gap.is_empty();
            }
            if self.gap.len() == len {
                return (highest_end, meets_other);
            }
        }
    }

    fn up(&mut self) -> bool {
        let Gap { start, end } = self.gap;
        let classes = &self.text.classes;
        if start == 0 || classes.get(start - 1) != classes.get(end - 1) {
            return false;
        }
        // The line before the run becomes its first, and its last line becomes unchanged.
        self.changed.swap(start - 1, end - 1);
        self.gap = Gap { start: Gap::ending_at(start, self.changed).start, end: end - 1 };
        self.other_gap = Gap::ending_at(self.other_gap.start - 1, self.other_changed);
        true
    }

    fn down(&mut self) -> bool {
        let Gap { start, end } = self.gap;
        let classes = &self.text.classes;
        if end == classes.len() || classes.get(start) != classes.get(end) {
            return false;
        }
        self.changed.swap(start, end);
        self.gap = Gap { start: start + 1, end: Gap::starting_at(end, self.changed).end };
        self.other_gap = Gap::starting_at(self.other_gap.end + 1, self.other_changed);
        true
    }

    /// Returns the end of the run, between the highest and the current one, with the best borders; the lowest of
    /// equally good ones.
    fn best_end(&self, highest_end: usize) -> usize {
        let Gap { start, end } = self.gap;
        let len = end - start;
        let first = highest_end.max(start.saturating_sub(1)).max(end.saturating_sub(MOST_TRIED));
        let mut best = (first, self.appearance(first, len));
        for tried in first + 1..=end {
            let appearance = self.appearance(tried, len);
            if !appearance.is_worse_than(&best.1) {
                best = (tried, appearance);
            }
        }
        best.0
    }

    fn appearance(&self, end: usize, len: usize) -> Appearance {
        let top = Appearance::new(&self.text.lines, end - len);
        let bottom = Appearance::new(&self.text.lines, end);
        Appearance { indent: top.indent + bottom.indent, badness: top.badness + bottom.badness }
    }
}

/// The maximum number of positions of a run that are compared.
const MOST_TRIED: usize = 100;

/// The number of blank lines at which the scan from a border ends.
const MOST_BLANKS: i32 = 20;

/// The maximum indentation that is considered.
const MOST_INDENT: i32 = 200;

const TAB_WIDTH: i32 = 8;

/// The quality of the border of a change.
struct Appearance {
    /// Shallow indentation outweighs `badness`, within `INDENT_WEIGHT`.
    indent: i32,
    badness: i32,
}

const INDENT_WEIGHT: i32 = 60;

impl Appearance {
    /// Returns the appearance of the border before this line.
    fn new(lines: &[&[u8]], index: usize) -> Self {
        let here = lines.get(index).and_then(|line| indent(line));
        let (blanks_above, above) = first_indent(lines.iter().take(index).rev());
        let (further_blanks, below) = first_indent(lines.iter().skip(index + 1));

        let blanks_below = match here {
            Some(_) => 0,
            None => 1 + further_blanks,
        };
        let blanks = blanks_above + blanks_below;
        let mut badness = 6 * blanks_below - 30 * blanks;
        if index == 0 {
            badness += 1;
        }
        if index == lines.len() {
            badness += 21;
        }
        let effective = here.or(below);
        if let (Some(effective), Some(above)) = (effective, above) {
            badness += badness_of_step(above, effective, below, blanks > 0);
        }
        Self { indent: effective.unwrap_or(-1), badness }
    }

    fn is_worse_than(&self, other: &Self) -> bool {
        let deeper = match self.indent.cmp(&other.indent) {
            Ordering::Less => -INDENT_WEIGHT,
            Ordering::Equal => 0,
            Ordering::Greater => INDENT_WEIGHT,
        };
        deeper + self.badness > other.badness
    }
}

/// Returns the badness of the change in indentation at a border, from the line above to the line after it. The line
/// below determines whether a block starts here.
fn badness_of_step(above: i32, here: i32, below: Option<i32>, blank: bool) -> i32 {
    let starts_block = below.is_some_and(|below| below > here);
    match (here.cmp(&above), blank) {
        (Ordering::Equal, _) => 0,
        (Ordering::Greater, true) => 10,
        (Ordering::Greater, false) => -4,
        (Ordering::Less, true) => 17,
        (Ordering::Less, false) if starts_block => 24,
        (Ordering::Less, false) => 23,
    }
}

/// Counts the leading blank lines, and returns the indentation of the first other line.
fn first_indent<'a>(lines: impl Iterator<Item = &'a &'a [u8]>) -> (i32, Option<i32>) {
    let mut blanks = 0;
    for line in lines {
        if let Some(indent) = indent(line) {
            return (blanks, Some(indent));
        }
        blanks += 1;
        if blanks == MOST_BLANKS {
            return (blanks, Some(0));
        }
    }
    (blanks, None)
}

/// Returns the indentation of a line in columns; `None` if the line is blank.
fn indent(line: &[u8]) -> Option<i32> {
    let mut columns = 0;
    for byte in line {
        match byte {
            b' ' => columns += 1,
            b'\t' => columns += TAB_WIDTH - columns % TAB_WIDTH,
            b'\r' | b'\n' => {}
            _ => return Some(columns),
        }
        if columns >= MOST_INDENT {
            return Some(MOST_INDENT);
        }
    }
    None
}

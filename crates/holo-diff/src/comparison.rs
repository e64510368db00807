//! The changes from one text to another: their lines are matched, to determine which are kept, removed or added.

use crate::search::{Changes, Class, Kept, Search, Text, coarse_sqrt, count_equal};
use crate::sliding;
use bstr::ByteSlice;
use holo_index::Table;
use std::collections::HashMap;
use std::ops::Range;

/// Lines of the old text that are replaced with lines of the new one; either range may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The lines of the old text, counted from 0.
    pub old: Range<usize>,
    /// The lines of the new text, counted from 0.
    pub new: Range<usize>,
}

/// Two texts as lines, and the changes between them in order.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    /// The lines of the old text, including their newlines.
    pub old: Vec<&'a [u8]>,
    /// The lines of the new text.
    pub new: Vec<&'a [u8]>,
    /// The changes.
    pub changes: Vec<Change>,
}

impl<'a> Comparison<'a> {
    /// Compares two texts.
    #[must_use]
    pub fn new(old: &'a [u8], new: &'a [u8]) -> Comparison<'a> {
        let (old, new) = classify(old, new);
        let mut changes = compare(&old.classes, &new.classes);
        sliding::slide(&old, &new, &mut changes);
        Comparison { changes: list(&changes), old: old.lines, new: new.lines }
    }

    /// Returns, for each line of the new text, the index of the same line in the old one; `None` if it was added.
    #[must_use]
    pub fn kept(&self) -> Vec<Option<usize>> {
        let mut kept = Vec::with_capacity(self.new.len());
        let mut old = 0;
        for change in &self.changes {
            kept.extend((old..change.old.start).map(Some));
            kept.extend(change.new.clone().map(|_| None));
            old = change.old.end;
        }
        kept.extend((old..self.old.len()).map(Some));
        kept
    }
}

/// Lists the changes in order.
fn list(changes: &Changes) -> Vec<Change> {
    let mut list = Vec::new();
    let (mut old, mut new) = (0, 0);
    while old < changes.old.len() || new < changes.new.len() {
        let change = Change { old: old..end_of_run(&changes.old, old), new: new..end_of_run(&changes.new, new) };
        // After a change, both texts have a common line, or both end.
        (old, new) = (change.old.end + 1, change.new.end + 1);
        if !change.old.is_empty() || !change.new.is_empty() {
            list.push(change);
        }
    }
    list
}

fn end_of_run(changed: &[bool], start: usize) -> usize {
    let run = changed.iter().skip(start).take_while(|changed| **changed);
    start + run.count()
}

/// Splits both texts into lines and numbers distinct lines.
fn classify<'a>(old: &'a [u8], new: &'a [u8]) -> (Text<'a>, Text<'a>) {
    let mut known = HashMap::new();
    let mut text_of = |bytes: &'a [u8]| {
        let lines: Vec<&[u8]> = bytes.lines_with_terminator().collect();
        let mut classes = Vec::with_capacity(lines.len());
        for line in &lines {
            let fresh = Class::from(known.len());
            classes.push(*known.entry(*line).or_insert(fresh));
        }
        Text { lines, classes }
    };
    (text_of(old), text_of(new))
}

/// Finds a short edit script from the old text to the new one.
///
/// Lines that cannot match, or whose matches are likely misleading, are left out of the search: the same ones as in
/// git.
fn compare(old: &[Class], new: &[Class]) -> Changes {
    let prefix = count_equal(old.iter(), new.iter());
    let suffix = count_equal(old.iter().skip(prefix).rev(), new.iter().skip(prefix).rev());
    let old_middle = prefix..old.len() - suffix;
    let new_middle = prefix..new.len() - suffix;

    let classes = old.iter().chain(new).max().map_or(0, |&max| usize::from(max) + 1);
    let old_counts = count(old, classes);
    let new_counts = count(new, classes);
    let mut changes = Changes { old: vec![false; old.len()], new: vec![false; new.len()] };
    let old_kept = select(old, old_middle, &new_counts, &mut changes.old);
    let new_kept = select(new, new_middle, &old_counts, &mut changes.new);
    Search::new(&old_kept, &new_kept, &mut changes).run();
    changes
}

pub(crate) fn count(text: &[Class], classes: usize) -> Table<Class, usize> {
    let mut counts = Table::filled(0, classes);
    text.iter().for_each(|&class| counts[class] += 1);
    counts
}

/// The frequency of a line of one text in the other text.
#[derive(Clone, Copy, PartialEq)]
enum Frequency {
    Never,
    Sometimes,
    /// A match says little about such a frequent line (blank lines, lone braces).
    Often,
}

/// A line that occurs more often than this in the other text is always frequent.
const OFTEN_AT_MOST: usize = 1024;

/// The number of lines on each side that decide whether a frequent line is worth matching.
const NEIGHBOURS: usize = 100;

/// Selects lines in the middle of a text for the search, and marks the other lines there as changed.
fn select(text: &[Class], middle: Range<usize>, counts_in_other: &Table<Class, usize>, changed: &mut [bool]) -> Kept {
    let often = coarse_sqrt(text.len()).min(OFTEN_AT_MOST);
    let frequency = |&class: &Class| match counts_in_other[class] {
        0 => Frequency::Never,
        n if n >= often => Frequency::Often,
        _ => Frequency::Sometimes,
    };
    let lines = || text.iter().skip(middle.start).take(middle.len());
    let frequencies: Vec<Frequency> = lines().map(frequency).collect();

    let mut kept = Kept { classes: Vec::with_capacity(middle.len()), positions: Vec::with_capacity(middle.len()) };
    let changed = changed.iter_mut().enumerate().skip(middle.start);
    for (index, ((&class, frequency), (position, changed))) in lines().zip(&frequencies).zip(changed).enumerate() {
        let keep = match frequency {
            Frequency::Never => false,
            Frequency::Sometimes => true,
            Frequency::Often => !is_among_unmatched(&frequencies, index),
        };
        if keep {
            kept.classes.push(class);
            kept.positions.push(position);
        } else {
            *changed = true;
        }
    }
    kept
}

/// Returns true if a frequent line is surrounded by so many unmatched lines that matching it would only split a change.
fn is_among_unmatched(frequencies: &[Frequency], index: usize) -> bool {
    let before = frequencies.iter().take(index).rev();
    let after = frequencies.iter().skip(index + 1);
    let (never_before, often_before) = count_neighbours(before.take(NEIGHBOURS));
    let (never_after, often_after) = count_neighbours(after.take(NEIGHBOURS));
    never_before > 0 && never_after > 0 && never_before + never_after > 3 * (often_before + often_after)
}

/// Counts the neighbours that occur never and often in the other text, up to the first that occurs sometimes. The
/// frequent line itself is included in the count.
fn count_neighbours<'a>(neighbours: impl Iterator<Item = &'a Frequency>) -> (usize, usize) {
    let (mut never, mut often) = (0, 1);
    for frequency in neighbours {
        match frequency {
            Frequency::Never => never += 1,
            Frequency::Often => often += 1,
            Frequency::Sometimes => break,
        }
    }
    (never, often)
}

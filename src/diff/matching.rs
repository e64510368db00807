//! Matches the lines of two texts: which of them stay, and which are removed or added.

use std::collections::HashMap;
use std::ops::Range;

use bstr::ByteSlice;

use super::lines::{Changes, Kept, Text, coarse_sqrt};
use super::search::Search;

/// Splits both texts into lines and numbers the distinct ones.
pub(super) fn classify<'a>(old: &'a [u8], new: &'a [u8]) -> (Text<'a>, Text<'a>) {
    let mut known = HashMap::new();
    let mut text_of = |bytes: &'a [u8]| {
        let lines: Vec<&[u8]> = bytes.lines_with_terminator().collect();
        let mut classes = Vec::with_capacity(lines.len());
        for line in &lines {
            let fresh = known.len() as u32;
            classes.push(*known.entry(*line).or_insert(fresh));
        }
        Text { lines, classes }
    };
    (text_of(old), text_of(new))
}

/// Finds a short way from OLD to NEW, given as classes of lines.
///
/// Lines that cannot help, or would rather mislead, are left out before the search: the same ones as git leaves out.
pub(super) fn compare(old: &[u32], new: &[u32]) -> Changes {
    let prefix = common_prefix(old, new);
    let suffix = common_prefix_rev(&old[prefix..], &new[prefix..]);
    let old_middle = prefix..old.len() - suffix;
    let new_middle = prefix..new.len() - suffix;

    let classes = old.iter().chain(new).max().map_or(0, |max| *max as usize + 1);
    let old_counts = count(old, classes);
    let new_counts = count(new, classes);
    let mut changes = Changes { old: vec![false; old.len()], new: vec![false; new.len()] };
    let old_kept = select(old, old_middle, &new_counts, &mut changes.old);
    let new_kept = select(new, new_middle, &old_counts, &mut changes.new);
    Search::new(&old_kept, &new_kept, &mut changes).run();
    changes
}

fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn common_prefix_rev(a: &[u32], b: &[u32]) -> usize {
    let pairs = a.iter().rev().zip(b.iter().rev());
    pairs.take_while(|(a, b)| a == b).count()
}

fn count(text: &[u32], classes: usize) -> Vec<usize> {
    let mut counts = vec![0; classes];
    for class in text {
        counts[*class as usize] += 1;
    }
    counts
}

/// The frequency of a line of one text in the other text.
#[derive(Clone, Copy, PartialEq)]
enum Frequency {
    Never,
    Sometimes,
    /// So often (blank lines, lone braces) that a match says little.
    Often,
}

/// No line needs to stand in the other text more often than this to count as frequent.
const OFTEN_AT_MOST: usize = 1024;

/// As many lines to each side decide whether a frequent line is worth matching.
const NEIGHBOURS: usize = 100;

/// Selects from the lines of TEXT in the range MIDDLE, and marks the others there as changed.
fn select(text: &[u32], middle: Range<usize>, counts_in_other: &[usize], changed: &mut [bool]) -> Kept {
    let often = coarse_sqrt(text.len()).min(OFTEN_AT_MOST);
    let frequency = |class: &u32| match counts_in_other[*class as usize] {
        0 => Frequency::Never,
        n if n >= often => Frequency::Often,
        _ => Frequency::Sometimes,
    };
    let frequencies: Vec<_> = text[middle.clone()].iter().map(frequency).collect();

    let mut kept = Kept { classes: Vec::with_capacity(middle.len()), positions: Vec::with_capacity(middle.len()) };
    for (index, position) in middle.enumerate() {
        let keep = match frequencies[index] {
            Frequency::Never => false,
            Frequency::Sometimes => true,
            Frequency::Often => !stands_among_unmatched(&frequencies, index),
        };
        if keep {
            kept.classes.push(text[position]);
            kept.positions.push(position);
        } else {
            changed[position] = true;
        }
    }
    kept
}

/// Returns whether the frequent line at INDEX is in the midst of so many lines without a match that
/// matching it would only tear a change apart.
fn stands_among_unmatched(frequencies: &[Frequency], index: usize) -> bool {
    let before = &frequencies[index.saturating_sub(NEIGHBOURS)..index];
    let after_end = frequencies.len().min(index + NEIGHBOURS + 1);
    let after = &frequencies[index + 1..after_end];
    let (never_before, often_before) = survey(before.iter().rev());
    let (never_after, often_after) = survey(after.iter());
    never_before > 0 && never_after > 0 && never_before + never_after > 3 * (often_before + often_after)
}

/// Counts the lines that are never and often in the other text, up to the first that is there
/// sometimes. The line from which the survey starts counts as frequent itself.
fn survey<'a>(neighbours: impl Iterator<Item = &'a Frequency>) -> (usize, usize) {
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

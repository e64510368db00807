//! Three-way merge of texts.

use crate::{Change, Comparison};
use std::ops::Range;

/// The labels of conflict markers.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// The label of the first side.
    pub one: &'a str,
    /// The label of the common base.
    pub base: &'a str,
    /// The label of the other side.
    pub other: &'a str,
}

/// A merged text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The text. If both sides changed the same lines, it contains both versions between conflict markers.
    pub text: Vec<u8>,
    /// The number of conflicts.
    pub conflicts: usize,
}

/// A range of lines of the base, with the lines of both sides that replace it.
struct Region {
    base: Range<usize>,
    one: Range<usize>,
    other: Range<usize>,
}

/// Merges both sides' changes to a text.
#[must_use]
pub fn merge(base: &[u8], one: &[u8], other: &[u8], labels: Labels<'_>) -> Merged {
    let (one, other) = (Comparison::new(base, one), Comparison::new(base, other));
    let mut merged = Merged { text: Vec::new(), conflicts: 0 };
    let mut done = 0;
    for region in regions(&one.changes, &other.changes) {
        merged.push(&one.old, done..region.base.start);
        done = region.base.end;
        let lines = |lines: &[&[u8]], range: &Range<usize>| lines.get(range.clone()).unwrap_or_default().concat();
        let before = lines(&one.old, &region.base);
        let (mine, theirs) = (lines(&one.new, &region.one), lines(&other.new, &region.other));
        if mine == theirs || theirs == before {
            merged.push_text(&mine);
        } else if mine == before {
            merged.push_text(&theirs);
        } else {
            merged.conflicts += 1;
            merged.push_marker("<<<<<<<", labels.one);
            merged.push_text(&mine);
            merged.push_marker("|||||||", labels.base);
            merged.push_text(&before);
            merged.push_marker("=======", "");
            merged.push_text(&theirs);
            merged.push_marker(">>>>>>>", labels.other);
        }
    }
    merged.push(&one.old, done..one.old.len());
    merged
}

impl Merged {
    fn push(&mut self, lines: &[&[u8]], range: Range<usize>) {
        lines.get(range).unwrap_or_default().iter().for_each(|line| self.push_text(line));
    }

    fn push_text(&mut self, text: &[u8]) {
        // A last line without a newline is no longer the last.
        if !text.is_empty() && self.text.last().is_some_and(|&last| last != b'\n') {
            self.text.push(b'\n');
        }
        self.text.extend_from_slice(text);
    }

    fn push_marker(&mut self, marker: &str, label: &str) {
        let line = if label.is_empty() { format!("{marker}\n") } else { format!("{marker} {label}\n") };
        self.push_text(line.as_bytes());
    }
}

/// Combines changes of both sides that touch.
fn regions(one: &[Change], other: &[Change]) -> Vec<Region> {
    let (mut ones, mut others) = (one.iter().peekable(), other.iter().peekable());
    // The number of lines so far that each side has added to the base.
    let (mut one_drift, mut other_drift) = (0_isize, 0_isize);
    let mut regions = Vec::new();
    while let Some(start) = [ones.peek(), others.peek()].into_iter().flatten().map(|change| change.old.start).min() {
        let mut end = start;
        let (one_before, other_before) = (one_drift, other_drift);
        loop {
            let touches = |change: &&Change| change.old.start <= end;
            if let Some(change) = ones.next_if(touches) {
                end = end.max(change.old.end);
                one_drift += drift(change);
            } else if let Some(change) = others.next_if(touches) {
                end = end.max(change.old.end);
                other_drift += drift(change);
            } else {
                break;
            }
        }
        let side = |before: isize, after: isize| start.saturating_add_signed(before)..end.saturating_add_signed(after);
        let (one, other) = (side(one_before, one_drift), side(other_before, other_drift));
        regions.push(Region { base: start..end, one, other });
    }
    regions
}

fn drift(change: &Change) -> isize {
    change.new.len().cast_signed() - change.old.len().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: Labels<'static> = Labels { one: "mine", base: "before", other: "theirs" };

    fn merged(base: &str, one: &str, other: &str) -> (String, usize) {
        let merged = merge(base.as_bytes(), one.as_bytes(), other.as_bytes(), LABELS);
        (String::from_utf8(merged.text).unwrap(), merged.conflicts)
    }

    #[test]
    fn changes_in_different_places_are_both_kept() {
        assert_eq!(merged("1\n2\n3\n4\n", "0\n1\n2\n3\n4\n", "1\n2\n3\nfour\n"), ("0\n1\n2\n3\nfour\n".into(), 0));
        assert_eq!(merged("1\n2\n3\n", "1\n2\n3\n", "3\n"), ("3\n".into(), 0));
        assert_eq!(merged("1\n2\n3\n", "1\ntwo\n3\n", "1\ntwo\n3\n"), ("1\ntwo\n3\n".into(), 0));
    }

    #[test]
    fn changes_of_the_same_lines_are_a_conflict() {
        let expected = "1\n<<<<<<< mine\ntwo\n||||||| before\n2\n=======\nzwei\n>>>>>>> theirs\n3\n";
        assert_eq!(merged("1\n2\n3\n", "1\ntwo\n3\n", "1\nzwei\n3\n"), (expected.into(), 1));
        let expected = "<<<<<<< mine\na\n||||||| before\n=======\nb\n>>>>>>> theirs\n";
        assert_eq!(merged("", "a", "b"), (expected.into(), 1));
    }
}

//! The changes from one text to another.

use crate::lines::Changes;
use crate::{matching, sliding};
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
        let (old, new) = matching::classify(old, new);
        let mut changes = matching::compare(&old.classes, &new.classes);
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

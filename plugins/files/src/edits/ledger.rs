//! The lines of a file, and those that edits have put in or taken out: what others have written can be told from what is ours at any time.
//!
//! A line belongs to others until an edit hides it; what an edit puts in is its own. Taking an edit back removes its lines and shows again
//! those that it has hidden, so that edits can go in any order, and what is left is what others have written. [`Ledger::follow`] brings in
//! the changes that others have made to the file meanwhile.

mod draft;
mod follow;
mod lines;
#[cfg(test)]
pub(super) mod model;
mod segments;

use super::text::{Endings, Text};
#[cfg(test)]
pub(super) use draft::operations;
pub(super) use draft::{Draft, ItemIndex, Plan, Spot};
pub(super) use segments::Segments;
use std::collections::BTreeSet;

/// A line and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    line: Vec<u8>,
    mark: Mark,
}

/// The owner of a line, and if it is in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mark {
    /// Others have written it.
    Theirs,
    /// An edit has put it in.
    Made(String),
    /// Others have written it, and an edit has taken it out.
    Hidden(String),
    /// An edit has put it in, and others have taken it out.
    Lost(String),
    /// Others have written it in the place of a line that an edit had put in.
    Instead(String),
}

/// The lines of a file, with those that are hidden.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    items: Vec<Item>,
    endings: Endings,
}

/// Another edit that has to do with a line that an edit would take out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SharedLine(pub(super) String);

impl Mark {
    fn is_visible(&self) -> bool {
        matches!(self, Mark::Theirs | Mark::Made(_) | Mark::Instead(_))
    }

    /// Returns the edit that it has to do with.
    fn edit(&self) -> Option<&str> {
        match self {
            Mark::Theirs => None,
            Mark::Made(edit) | Mark::Hidden(edit) | Mark::Lost(edit) | Mark::Instead(edit) => Some(edit),
        }
    }

    fn is_of(&self, edit: &str) -> bool {
        self.edit() == Some(edit)
    }
}

impl Ledger {
    /// Returns the ledger of a file that no edit has touched.
    pub(super) fn new(text: &Text) -> Ledger {
        let theirs = |line: &Vec<u8>| Item { line: line.clone(), mark: Mark::Theirs };
        Ledger { items: text.lines.iter().map(theirs).collect(), endings: text.endings }
    }

    /// Returns the text of the file.
    pub(super) fn text(&self) -> Text {
        Text { lines: self.visible().map(|item| item.line.clone()).collect(), endings: self.endings }
    }

    fn visible(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.mark.is_visible())
    }

    /// Returns for each line of the file the edit that has put it in, if one has.
    pub(super) fn makers(&self) -> Vec<Option<&str>> {
        let maker = |item: &'_ Item| matches!(item.mark, Mark::Made(_));
        self.visible().map(|item| item.mark.edit().filter(|_| maker(item))).collect()
    }

    /// Returns for each line of the file if others have written it in the place of an edit's.
    pub(super) fn changed(&self) -> Vec<bool> {
        self.visible().map(|item| matches!(item.mark, Mark::Instead(_))).collect()
    }

    /// Returns the edits that have put in or taken out a line.
    pub(super) fn edits(&self) -> BTreeSet<&str> {
        self.items.iter().filter_map(|item| item.mark.edit()).collect()
    }
}

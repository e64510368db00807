//! The lines of a file with their owners, including lines that edits have removed.
//!
//! An edit owns the lines that it inserted, and hides the lines that it removed. Taking an edit back removes its own lines and restores the
//! hidden ones. Therefore edits can be taken back in any order, and without edits the file has exactly the lines that users and other
//! programs wrote. [`Ledger::follow`] adds the changes that they have made since.

mod draft;
mod follow;
mod indexes;
mod lines;
#[cfg(test)]
pub(super) mod model;
mod segments;

use super::text::{Endings, Text};
#[cfg(test)]
pub(super) use draft::operations;
pub(super) use draft::{Draft, Plan, Spot};
pub(super) use indexes::ItemIndex;
pub(super) use segments::Segments;
use std::collections::BTreeSet;

/// A line and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    line: Vec<u8>,
    mark: Mark,
}

/// The owner of a line, and whether the line is in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mark {
    /// Written by a user or another program.
    Theirs,
    /// Inserted by an edit.
    Made(String),
    /// Written by a user or another program, and removed by an edit.
    Hidden(String),
    /// Inserted by an edit, and removed by a user or another program.
    Lost(String),
    /// Written by a user or another program in place of a line that an edit had inserted.
    Instead(String),
}

/// The lines of a file, including hidden ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    items: Vec<Item>,
    endings: Endings,
}

/// The other edit that owns a line which an edit would remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SharedLine(pub(super) String);

impl Mark {
    fn is_visible(&self) -> bool {
        matches!(self, Mark::Theirs | Mark::Made(_) | Mark::Instead(_))
    }

    /// Returns the edit that inserted, removed or lost the line.
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
    /// Returns the ledger of a file without edits.
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

    /// Returns for each line of the file the edit that inserted it, if any.
    pub(super) fn makers(&self) -> Vec<Option<&str>> {
        let maker = |item: &'_ Item| matches!(item.mark, Mark::Made(_));
        self.visible().map(|item| item.mark.edit().filter(|_| maker(item))).collect()
    }

    /// Returns for each line of the file whether it was written in place of an edit's line.
    pub(super) fn changed(&self) -> Vec<bool> {
        self.visible().map(|item| matches!(item.mark, Mark::Instead(_))).collect()
    }

    /// Returns the edits that have inserted or removed a line.
    pub(super) fn edits(&self) -> BTreeSet<&str> {
        self.items.iter().filter_map(|item| item.mark.edit()).collect()
    }
}

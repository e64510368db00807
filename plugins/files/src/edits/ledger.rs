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

#[cfg(test)]
pub(super) use draft::operations;
pub(super) use draft::{Draft, Plan, Spot};
pub(super) use indexes::ItemIndex;

use super::text::{Endings, Text};
use bstr::ByteSlice;
use holo_plugin::Text as Bytes;
use serde::{Deserialize, Serialize};
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

    /// Makes the lines that an edit has inserted those of the user, and drops the lines that it has removed.
    pub(super) fn release(&mut self, edit: &str) {
        self.items.retain_mut(|item| {
            let is_own = item.mark.is_of(edit);
            let stays = !is_own || item.mark.is_visible();
            if is_own {
                item.mark = Mark::Theirs;
            }
            stays
        });
    }

    /// Returns the lines of the user that an edit has removed.
    pub(super) fn removed_by(&self, edit: &str) -> impl Iterator<Item = &[u8]> {
        let is_removed = move |item: &&Item| matches!(&item.mark, Mark::Hidden(by) if by == edit);
        self.items.iter().filter(is_removed).map(|item| item.line.as_slice())
    }

    /// Returns the edits that have inserted or removed a line.
    pub(super) fn edits(&self) -> BTreeSet<&str> {
        self.items.iter().filter_map(|item| item.mark.edit()).collect()
    }
}

/// A ledger in which adjacent lines with the same mark form a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Segments {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    crlf: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unterminated: bool,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Segment {
    #[serde(default, skip_serializing_if = "is_theirs")]
    is: Kind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    edit: String,
    /// Each line, and a newline behind it.
    lines: Bytes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Theirs,
    Made,
    Hidden,
    Lost,
    Instead,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_theirs(kind: &Kind) -> bool {
    *kind == Kind::Theirs
}

impl From<&Ledger> for Segments {
    fn from(ledger: &Ledger) -> Segments {
        let mut segments: Vec<Segment> = Vec::new();
        let mut before = None;
        for item in &ledger.items {
            if before != Some(&item.mark) {
                let (is, edit) = kind_of(&item.mark);
                segments.push(Segment { is, edit: edit.to_owned(), lines: Bytes::default() });
            }
            if let Some(segment) = segments.last_mut() {
                segment.lines.0.extend_from_slice(&item.line);
                segment.lines.0.push(b'\n');
            }
            before = Some(&item.mark);
        }
        let Endings { crlf, unterminated } = ledger.endings;
        Segments { crlf, unterminated, segments }
    }
}

impl From<Segments> for Ledger {
    fn from(written: Segments) -> Ledger {
        let Segments { crlf, unterminated, segments } = written;
        let mut items = Vec::new();
        for Segment { is, edit, lines } in segments {
            let mark = match is {
                Kind::Theirs => Mark::Theirs,
                Kind::Made => Mark::Made(edit),
                Kind::Hidden => Mark::Hidden(edit),
                Kind::Lost => Mark::Lost(edit),
                Kind::Instead => Mark::Instead(edit),
            };
            let without_newline = |line: &[u8]| line.strip_suffix(b"\n").unwrap_or(line).to_vec();
            let all = lines.0.lines_with_terminator().map(without_newline);
            items.extend(all.map(|line| Item { line, mark: mark.clone() }));
        }
        Ledger { items, endings: Endings { crlf, unterminated } }
    }
}

fn kind_of(mark: &Mark) -> (Kind, &str) {
    match mark {
        Mark::Theirs => (Kind::Theirs, ""),
        Mark::Made(edit) => (Kind::Made, edit),
        Mark::Hidden(edit) => (Kind::Hidden, edit),
        Mark::Lost(edit) => (Kind::Lost, edit),
        Mark::Instead(edit) => (Kind::Instead, edit),
    }
}

//! The lines of a file, and those that edits have put in or taken out: what others have written can be told from what is ours at any time.
//!
//! A line belongs to others until an edit hides it; what an edit puts in is its own. Taking an edit back removes its lines and shows again
//! those that it has hidden, so that edits can go in any order, and what is left is what others have written. [`Ledger::follow`] brings in
//! the changes that others have made to the file meanwhile.

mod follow;
mod segments;

use super::text::{Endings, Text, bare};
pub(super) use segments::Segments;

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

/// The change that an edit makes to the lines that it sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The indexes of the lines that go.
    pub(super) hide: Vec<usize>,
    /// The lines that come, and the index of the line before which they do.
    pub(super) insert: Option<(usize, Vec<Vec<u8>>)>,
}

/// The place where the lines of an edit were that has been taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The index of the line before which they were, among those that there are then.
    pub(super) line: usize,
    /// The same among all items: lines that others have taken out may stand on both sides.
    item: usize,
}

/// Given a line and those that follow it, returns which of those keeps it where it is, if one does.
pub(super) type Leads<'a> = &'a dyn Fn(&[u8], &[&[u8]]) -> Option<usize>;

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

    /// Returns the lines of the file without their endings.
    pub(super) fn lines(&self) -> Vec<&[u8]> {
        self.visible().map(|item| bare(&item.line)).collect()
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

    /// Returns true if an edit has put in or taken out a line.
    pub(super) fn knows(&self, edit: &str) -> bool {
        self.items.iter().any(|item| item.mark.is_of(edit))
    }

    /// Returns true if others have written something in the place of an edit's lines.
    pub(super) fn is_changed(&self, edit: &str) -> bool {
        self.items.iter().any(|item| matches!(&item.mark, Mark::Instead(of) if of == edit))
    }

    /// Returns the same with the edit's lines as it had made them.
    pub(super) fn with_own_lines(&self, edit: &str) -> Ledger {
        let mut restored = self.clone();
        restored.drop_changes(edit);
        for item in restored.items.iter_mut().filter(|item| item.mark == Mark::Lost(edit.to_owned())) {
            item.mark = Mark::Made(edit.to_owned());
        }
        restored
    }

    /// Drops what others have written in the place of an edit's lines.
    pub(super) fn drop_changes(&mut self, edit: &str) {
        self.items.retain(|item| !matches!(&item.mark, Mark::Instead(of) if of == edit));
    }

    /// Takes an edit back. Returns the place where its first line was.
    ///
    /// A line that `leads` to one that follows it stays for that: it becomes that one's.
    pub(super) fn take_back(&mut self, edit: &str, leads: Leads<'_>) -> Option<Place> {
        self.hand_over(edit, leads);
        let (mut first, mut place) = (None, Place { line: 0, item: 0 });
        self.items.retain_mut(|item| {
            let is_own = item.mark.is_of(edit);
            if is_own {
                first.get_or_insert(place);
            }
            if is_own && matches!(item.mark, Mark::Made(_) | Mark::Lost(_)) {
                return false;
            }
            if is_own {
                item.mark = Mark::Theirs;
            }
            place.line += usize::from(item.mark.is_visible());
            place.item += 1;
            true
        });
        first
    }

    /// Gives lines that an edit has put in, and that others need, to those: the last ones first, as others may lead to them.
    fn hand_over(&mut self, edit: &str, leads: Leads<'_>) {
        let own = Mark::Made(edit.to_owned());
        for index in (0..self.items.len()).rev() {
            let Some(item) = self.items.get(index).filter(|item| item.mark == own) else { continue };
            let below: Vec<&Item> =
                self.items.iter().skip(index + 1).filter(|item| item.mark.is_visible() && item.mark != own).collect();
            let lines: Vec<&[u8]> = below.iter().map(|item| bare(&item.line)).collect();
            let heir = leads(bare(&item.line), &lines).and_then(|heir| Some(below.get(heir)?.mark.clone()));
            if let Some((mark, item)) = heir.zip(self.items.get_mut(index)) {
                item.mark = mark;
            }
        }
    }

    /// Has an edit make its change; lines that come where it had some `before` stand exactly there.
    ///
    /// # Errors
    /// If it would take out a line of another edit; nothing is changed then.
    pub(super) fn make(&mut self, edit: &str, plan: Plan, before: Option<Place>) -> Result<(), SharedLine> {
        let Plan { hide, insert } = plan;
        let visible: Vec<&Item> = self.visible().collect();
        if let Some(other) = hide.iter().filter_map(|&index| visible.get(index)?.mark.edit()).next() {
            return Err(SharedLine(other.to_owned()));
        }
        let endings = self.endings;
        let (at, lines) = insert.unwrap_or_default();
        let made = |line: &Vec<u8>| Item { line: endings.fit(line), mark: Mark::Made(edit.to_owned()) };
        let made: Vec<Item> = lines.iter().map(made).collect();
        let mut place = before.filter(|before| before.line == at).map(|before| before.item);
        let visible = self.items.iter_mut().enumerate().filter(|(_, item)| item.mark.is_visible());
        for (index, (item_index, item)) in visible.enumerate() {
            if index == at {
                place.get_or_insert(item_index);
            }
            if hide.contains(&index) {
                item.mark = Mark::Hidden(edit.to_owned());
            }
        }
        let place = place.unwrap_or(self.items.len());
        self.items.splice(place..place, made);
        Ok(())
    }
}

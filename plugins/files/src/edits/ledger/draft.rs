//! The lines of a file while several edits are applied to it. The cost of an edit depends on the lines that it changes, not on the size of
//! the file.
//!
//! Each item has a label that increases in the order of the items, so that an item can be inserted between two others without changing the
//! rest. Lines are found by content in [`Indexes`]. [`Draft::roll_back`] reverts all changes since the last [`Draft::commit`].

use super::indexes::ItemIndex;
use super::indexes::{Indexes, Label};
use super::{Item, Ledger, Mark, SharedLine};
use crate::edits::text::{Endings, Text, bare, led};
use holo_plugin::index::Table;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// The distance between the labels of original items. Labels of inserted items are not multiples of it.
const SPACING: Label = 1 << 64;
/// The distance between the labels of adjacent inserted items.
const STEP: Label = 1 << 32;

/// The lines of a file, including hidden ones, to which edits are applied.
#[derive(Debug)]
pub(in crate::edits) struct Draft {
    items: Table<ItemIndex, Entry>,
    /// All items, including those removed since the last commit.
    order: BTreeMap<Label, ItemIndex>,
    /// The lines of the file.
    visible: BTreeMap<Label, ItemIndex>,
    of_edits: HashMap<String, BTreeSet<ItemIndex>>,
    pub(super) indexes: Indexes,
    endings: Endings,
    /// The items that were changed since the last commit, with their former marks.
    log: Vec<(ItemIndex, Option<Mark>)>,
}

#[derive(Debug)]
struct Entry {
    line: Vec<u8>,
    label: Label,
    /// `None` if the item was removed.
    mark: Option<Mark>,
}

/// A position between items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::edits) enum Spot {
    Before(ItemIndex),
    End,
}

/// The change that an edit makes.
#[derive(Debug, Default)]
pub(in crate::edits) struct Plan {
    /// The lines to hide.
    pub(in crate::edits) hide: Vec<ItemIndex>,
    /// The lines to insert, with their position.
    pub(in crate::edits) insert: Option<(Spot, Vec<Vec<u8>>)>,
}

fn is_visible(mark: Option<&Mark>) -> bool {
    mark.is_some_and(Mark::is_visible)
}

impl From<&Ledger> for Draft {
    fn from(ledger: &Ledger) -> Draft {
        let mut draft = Draft {
            items: Table::new(),
            order: BTreeMap::new(),
            visible: BTreeMap::new(),
            of_edits: HashMap::new(),
            indexes: Indexes::default(),
            endings: ledger.endings,
            log: Vec::new(),
        };
        for (Item { line, mark }, label) in ledger.items.iter().zip((1..).map(|number| number * SPACING)) {
            draft.add(Entry { line: line.clone(), label, mark: Some(mark.clone()) });
        }
        draft
    }
}

impl From<&Draft> for Ledger {
    fn from(draft: &Draft) -> Ledger {
        let items = draft.order.values().map(|&index| &draft.items[index]);
        let present = items.filter_map(|entry| Some(Item { line: entry.line.clone(), mark: entry.mark.clone()? }));
        Ledger { items: present.collect(), endings: draft.endings }
    }
}

impl Draft {
    /// Returns the text of the file.
    pub(in crate::edits) fn text(&self) -> Text {
        Text {
            lines: self.visible.values().map(|&index| self.items[index].line.clone()).collect(),
            endings: self.endings,
        }
    }

    /// Returns a line without its ending.
    pub(in crate::edits) fn line(&self, index: ItemIndex) -> &[u8] {
        #[cfg(test)]
        operations::count();
        bare(&self.items[index].line)
    }

    /// Returns true if an edit has inserted or hidden a line.
    #[cfg(test)]
    pub(in crate::edits) fn knows(&self, edit: &str) -> bool {
        self.of_edits.contains_key(edit)
    }

    /// Returns true if lines of an edit were changed manually.
    pub(in crate::edits) fn is_changed(&self, edit: &str) -> bool {
        self.marked(edit, |mark| matches!(mark, Mark::Instead(_))).next().is_some()
    }

    /// Returns true if lines of an edit were removed or changed manually.
    pub(in crate::edits) fn has_lost(&self, edit: &str) -> bool {
        self.marked(edit, |mark| matches!(mark, Mark::Instead(_) | Mark::Lost(_))).next().is_some()
    }

    fn marked(&self, edit: &str, is_so: impl Fn(&Mark) -> bool) -> impl Iterator<Item = ItemIndex> {
        let items = self.of_edits.get(edit).into_iter().flatten().copied();
        items.filter(move |&index| self.items[index].mark.as_ref().is_some_and(&is_so))
    }

    /// Takes an edit back, with manual changes of its lines. Returns the position of its first line.
    ///
    /// If `leads` is set, lines that other lines below still need, such as the header of a section, are kept for those.
    pub(in crate::edits) fn take_back(&mut self, edit: &str, leads: bool) -> Option<Spot> {
        self.remove_changes(edit);
        if leads {
            self.hand_over(edit);
        }
        let mut own: Vec<ItemIndex> = self.marked(edit, |_| true).collect();
        own.sort_unstable_by_key(|&index| self.items[index].label);
        let place = own.first().map(|&first| self.without_own(first, edit));
        for index in own {
            let is_theirs = matches!(self.items[index].mark, Some(Mark::Hidden(_)));
            self.set(index, is_theirs.then_some(Mark::Theirs));
        }
        place
    }

    /// Restores the lines of an edit as they were applied.
    pub(in crate::edits) fn restore_own(&mut self, edit: &str) {
        self.remove_changes(edit);
        let lost: Vec<ItemIndex> = self.marked(edit, |mark| matches!(mark, Mark::Lost(_))).collect();
        for index in lost {
            self.set(index, Some(Mark::Made(edit.to_owned())));
        }
    }

    /// Removes lines that were written in place of an edit's lines.
    fn remove_changes(&mut self, edit: &str) {
        let changes: Vec<ItemIndex> = self.marked(edit, |mark| matches!(mark, Mark::Instead(_))).collect();
        changes.into_iter().for_each(|index| self.set(index, None));
    }

    /// Returns the position of an item after all items that are removed with the edit are gone.
    fn without_own(&self, first: ItemIndex, edit: &str) -> Spot {
        let goes = |mark: &Option<Mark>| match mark {
            Some(mark) => mark.is_of(edit) && !matches!(mark, Mark::Hidden(_)),
            None => true,
        };
        let mut from = self.order.range(self.items[first].label..).map(|(_, &index)| index);
        from.find(|&index| !goes(&self.items[index].mark)).map_or(Spot::End, Spot::Before)
    }

    /// Transfers inserted lines that other lines need to the owners of those, from bottom to top, because a transferred line may itself need
    /// one above.
    fn hand_over(&mut self, edit: &str) {
        let own = Mark::Made(edit.to_owned());
        let mut made: Vec<ItemIndex> = self.marked(edit, |mark| *mark == own).collect();
        made.sort_unstable_by_key(|&index| self.items[index].label);
        for index in made.into_iter().rev() {
            let below = self.visible.range((Excluded(self.items[index].label), Unbounded)).map(|(_, &below)| below);
            let below = below.filter(|&below| self.items[below].mark.as_ref() != Some(&own));
            let heir = led(self.line(index), below.map(|below| (self.line(below), below)));
            if let Some(mark) = heir.and_then(|heir| self.items[heir].mark.clone()) {
                self.set(index, Some(mark));
            }
        }
    }

    /// Applies the change of an edit. If the new lines are inserted at the same visible line as `before`, they keep its exact position among
    /// the hidden lines.
    ///
    /// # Errors
    /// If it would hide a line of another edit.
    pub(in crate::edits) fn make(&mut self, edit: &str, plan: Plan, before: Option<Spot>) -> Result<(), SharedLine> {
        let Plan { hide, insert } = plan;
        let of_others = hide.iter().find_map(|&index| self.items[index].mark.as_ref()?.edit());
        if let Some(other) = of_others {
            return Err(SharedLine(other.to_owned()));
        }
        if let Some((at, lines)) = insert {
            let exact = before.filter(|&before| self.visible_from(before) == at);
            for (line, label) in lines.iter().zip(self.labels_for(exact.unwrap_or(at), lines.len())) {
                let index = self.add(Entry { line: self.endings.fit(line), label, mark: None });
                self.set(index, Some(Mark::Made(edit.to_owned())));
            }
        }
        hide.into_iter().for_each(|index| self.set(index, Some(Mark::Hidden(edit.to_owned()))));
        Ok(())
    }

    /// Returns the position of the first visible line at or after a position.
    pub(in crate::edits) fn visible_from(&self, spot: Spot) -> Spot {
        let Spot::Before(index) = spot else { return Spot::End };
        self.first_visible(self.items[index].label).map_or(Spot::End, Spot::Before)
    }

    /// Returns the position behind a line of the file.
    pub(in crate::edits) fn behind(&self, index: ItemIndex) -> Spot {
        self.first_visible(self.items[index].label + 1).map_or(Spot::End, Spot::Before)
    }

    /// Returns the position before the first line.
    pub(in crate::edits) fn beginning(&self) -> Spot {
        self.first_visible(0).map_or(Spot::End, Spot::Before)
    }

    /// Returns the lines of the file from one to another, both included.
    pub(in crate::edits) fn between(&self, first: ItemIndex, last: ItemIndex) -> Vec<ItemIndex> {
        let range = (Included(self.items[first].label), Included(self.items[last].label));
        self.visible.range(range).map(|(_, &index)| index).collect()
    }

    /// Returns the lines of the file, in their order.
    pub(super) fn visible(&self) -> impl DoubleEndedIterator<Item = (Label, ItemIndex)> {
        self.visible.iter().map(|(&label, &index)| (label, index))
    }

    /// Returns the first line of the file from a label on.
    pub(super) fn first_visible(&self, from: Label) -> Option<ItemIndex> {
        self.visible.range(from..).next().map(|(_, &index)| index)
    }

    /// Returns the lines of the file before a position, the last one first.
    pub(super) fn before(&self, end: Spot) -> impl Iterator<Item = (Label, ItemIndex)> {
        let end = self.label_of(end);
        self.visible.range(..end).rev().map(|(&label, &index)| (label, index))
    }

    pub(super) fn label_of(&self, spot: Spot) -> Label {
        match spot {
            Spot::Before(index) => self.items[index].label,
            Spot::End => Label::MAX,
        }
    }

    /// Returns true if the text has changed since the last commit.
    pub(in crate::edits) fn changes_text(&self) -> bool {
        let mut was_visible: BTreeMap<ItemIndex, bool> = BTreeMap::new();
        for (index, before) in &self.log {
            was_visible.entry(*index).or_insert_with(|| is_visible(before.as_ref()));
        }
        let is_now = |index: ItemIndex| is_visible(self.items[index].mark.as_ref());
        let changed = was_visible.iter().filter(|&(&index, &was)| was != is_now(index));
        let mut changed: Vec<(Label, ItemIndex, bool)> =
            changed.map(|(&index, &was)| (self.items[index].label, index, was)).collect();
        changed.sort_unstable_by_key(|(label, ..)| *label);
        let lines = |was: bool| {
            let lines = changed.iter().filter(|changed| changed.2 == was).map(|&(_, index, _)| &self.items[index].line);
            let mut lines: Vec<&Vec<u8>> = lines.collect();
            lines.sort_unstable();
            lines
        };
        if lines(true) != lines(false) {
            return true;
        }
        // Lines were replaced with equal ones, usually at the same position. Compare each group of adjacent changes.
        let (mut gone, mut come, mut last) = (Vec::new(), Vec::new(), None);
        for &(label, index, was) in &changed {
            let is_apart =
                last.is_some_and(|last| self.visible.range((Excluded(last), Excluded(label))).next().is_some());
            if is_apart && gone != come {
                break;
            }
            if is_apart {
                gone.clear();
                come.clear();
            }
            if was { &mut gone } else { &mut come }.push(&self.items[index].line);
            last = Some(label);
        }
        if gone == come {
            return false;
        }
        let was = |index: &&ItemIndex| {
            #[cfg(test)]
            operations::count();
            was_visible.get(*index).copied().unwrap_or_else(|| is_now(**index))
        };
        let before = self.order.values().filter(was).map(|&index| &self.items[index].line);
        !before.eq(self.visible.values().map(|&index| &self.items[index].line))
    }

    /// Keeps the changes since the last commit.
    pub(in crate::edits) fn commit(&mut self) {
        for (index, _) in mem::take(&mut self.log) {
            self.forget_removed(index);
        }
    }

    /// Reverts the changes since the last commit.
    pub(in crate::edits) fn roll_back(&mut self) {
        let log = mem::take(&mut self.log);
        for (index, before) in log.iter().rev() {
            self.put(*index, before.clone());
        }
        for (index, _) in log {
            self.forget_removed(index);
        }
    }

    fn forget_removed(&mut self, index: ItemIndex) {
        let entry = &self.items[index];
        if entry.mark.is_none() && self.order.get(&entry.label) == Some(&index) {
            self.order.remove(&entry.label);
        }
    }

    fn add(&mut self, mut entry: Entry) -> ItemIndex {
        let (label, mark) = (entry.label, entry.mark.take());
        let index = self.items.push(entry);
        self.order.insert(label, index);
        self.put(index, mark);
        index
    }

    fn set(&mut self, index: ItemIndex, mark: Option<Mark>) {
        let before = self.put(index, mark);
        self.log.push((index, before));
    }

    /// Sets the mark of an item, and returns the former one.
    fn put(&mut self, index: ItemIndex, mark: Option<Mark>) -> Option<Mark> {
        #[cfg(test)]
        operations::count();
        let entry = &mut self.items[index];
        let before = mem::replace(&mut entry.mark, mark);
        let after = entry.mark.as_ref();
        if let Some(edit) = before.as_ref().and_then(Mark::edit)
            && let Some(items) = self.of_edits.get_mut(edit)
        {
            items.remove(&index);
            if items.is_empty() {
                self.of_edits.remove(edit);
            }
        }
        if let Some(edit) = after.and_then(Mark::edit) {
            match self.of_edits.get_mut(edit) {
                Some(items) => drop(items.insert(index)),
                None => drop(self.of_edits.insert(edit.to_owned(), BTreeSet::from([index]))),
            }
        }
        match (is_visible(before.as_ref()), is_visible(after)) {
            (false, true) => {
                self.visible.insert(entry.label, index);
                self.indexes.add(bare(&entry.line), entry.label, index);
            }
            (true, false) => {
                self.visible.remove(&entry.label);
                self.indexes.remove(bare(&entry.line), entry.label);
            }
            _ => {}
        }
        before
    }

    /// Returns labels for new items at a position.
    fn labels_for(&mut self, spot: Spot, count: usize) -> Vec<Label> {
        let count = count as Label;
        if let Spot::Before(_) = spot
            && self.gap_before(spot).1 <= count
        {
            self.relabel();
        }
        let (last, gap) = self.gap_before(spot);
        let is_inserted = |label: Label| !label.is_multiple_of(SPACING);
        let (start, step) = match spot {
            Spot::End => (last - last % SPACING, SPACING),
            Spot::Before(_) => {
                let even = gap / (count + 1);
                // The next insertions are usually adjacent to this one, so leave more room on that side of the gap.
                match (is_inserted(last), is_inserted(last + gap)) {
                    (true, false) => (last, even.min(STEP)),
                    (false, true) => {
                        let step = even.min(STEP);
                        (last + gap - step * (count + 1), step)
                    }
                    _ => (last, even),
                }
            }
        };
        (1..=count).map(|number| start + number * step).collect()
    }

    /// Returns the label of the last item before a position, and the distance from there to the position.
    fn gap_before(&self, spot: Spot) -> (Label, Label) {
        let end = self.label_of(spot);
        let last = self.order.range(..end).next_back().map_or(0, |(&label, _)| label);
        (last, end - last)
    }

    /// Assigns new labels to all items, with equal distances.
    fn relabel(&mut self) {
        let order = mem::take(&mut self.order);
        self.visible.clear();
        self.indexes = Indexes::default();
        for (index, label) in order.into_values().zip((1..).map(|number| number * SPACING)) {
            let entry = &mut self.items[index];
            entry.label = label;
            self.order.insert(label, index);
            if is_visible(entry.mark.as_ref()) {
                self.visible.insert(label, index);
            }
        }
    }
}

/// The number of lines that the current thread has read or marked, which must not grow faster than the number of edits.
#[cfg(test)]
pub(in crate::edits) mod operations {
    use std::cell::Cell;

    thread_local!(static COUNT: Cell<usize> = const { Cell::new(0) });

    pub(super) fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    /// Returns the number of operations of a function.
    pub(in crate::edits) fn of(work: impl FnOnce()) -> usize {
        let before = COUNT.get();
        work();
        COUNT.get() - before
    }
}

#[cfg(test)]
mod tests;

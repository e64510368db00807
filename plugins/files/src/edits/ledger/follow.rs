//! Changes in a file by users and other programs since the last edit.

use super::super::text::{Text, bare};
use super::{Item, Ledger, Mark};
use holo_plugin::diff::{Change, Comparison};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Range;

/// The maximum number of new lines that a removed line is compared with.
const COMPARED: usize = 500;

impl Ledger {
    /// Updates the ledger to the current text of the file. `is_whole` returns true for an edit with contiguous lines: a line written between
    /// them is a change of the edit.
    ///
    /// Hidden lines keep their position after the same line. An inserted line that is missing is lost. A new line in its place counts as
    /// written instead of it if it resembles the lost line.
    pub(in super::super) fn follow(&mut self, current: &Text, is_whole: &dyn Fn(&str) -> bool) {
        let text = self.text();
        if text.content() == current.content() {
            return;
        }
        let (old, new) = (comparable(&text), comparable(current));
        let comparison = Comparison::new(&old, &new);
        let visible: Vec<&Item> = self.visible().collect();
        let fates: Vec<Fate> =
            comparison.changes.iter().map(|change| fate(&visible, change, current, is_whole)).collect();
        let rewritten: Vec<(Range<usize>, &Fate)> = comparison
            .changes
            .iter()
            .zip(&fates)
            .filter_map(|(change, fate)| Some((rewritten(&visible, change)?, fate)))
            .collect();
        let mut gone = BTreeMap::new();
        let mut arrived: VecDeque<Item> =
            current.lines.iter().map(|line| Item { line: line.clone(), mark: Mark::Theirs }).collect();
        for (change, fate) in comparison.changes.iter().zip(&fates) {
            gone.extend(change.old.clone().zip(fate.around.iter().copied()));
            for (new, mark) in change.new.clone().zip(&fate.marks) {
                if let Some(item) = arrived.get_mut(new) {
                    item.mark = mark.clone();
                }
            }
        }
        let kept = comparison.kept();
        let kept: BTreeMap<usize, usize> = kept.iter().zip(0..).filter_map(|(old, new)| Some(((*old)?, new))).collect();
        let total = arrived.len();
        let mut items = Vec::with_capacity(self.items.len() + total);
        let mut index = 0;
        for item in &self.items {
            if !item.mark.is_visible() {
                // The gaps are sorted.
                let gap = rewritten.get(rewritten.partition_point(|(gap, _)| gap.end <= index));
                let is_obsolete = gap.is_some_and(|(gap, fate)| gap.contains(&index) && !fate.knows(&item.mark));
                if matches!(item.mark, Mark::Lost(_)) || !is_obsolete {
                    items.push(item.clone());
                }
                continue;
            }
            let at = kept.get(&index).map(|new| (*new, *new)).or_else(|| gone.get(&index).copied());
            let (before, behind) = at.unwrap_or_default();
            while total - arrived.len() < before {
                items.extend(arrived.pop_front());
            }
            match (&item.mark, kept.contains_key(&index)) {
                (mark, true) => {
                    items.extend(arrived.pop_front().map(|arrived| Item { mark: mark.clone(), ..arrived }));
                }
                (Mark::Made(edit), false) => {
                    items.push(Item { mark: Mark::Lost(edit.clone()), line: item.line.clone() });
                }
                (_, false) => {}
            }
            while total - arrived.len() < behind {
                items.extend(arrived.pop_front());
            }
            index += 1;
        }
        items.extend(arrived);
        self.items = items;
        self.take_endings(current);
        self.find_lost();
    }

    fn take_endings(&mut self, current: &Text) {
        if current.lines.is_empty() {
            return;
        }
        let endings = current.endings;
        if endings.crlf != self.endings.crlf {
            for item in self.items.iter_mut().filter(|item| !item.mark.is_visible()) {
                item.line = endings.fit(&item.line);
            }
        }
        self.endings = endings;
    }

    /// Assigns lines that were moved or restored manually to their edit again.
    fn find_lost(&mut self) {
        if !self.items.iter().any(|item| matches!(item.mark, Mark::Lost(_))) {
            return;
        }
        // The lines that may be lost ones: written by others, or in place of an edit's lines.
        let mut candidates: HashMap<(Option<&str>, &[u8]), VecDeque<usize>> = HashMap::new();
        for (index, item) in self.items.iter().enumerate() {
            let edit = match &item.mark {
                Mark::Instead(edit) => Some(edit.as_str()),
                Mark::Theirs if !bare(&item.line).is_empty() => None,
                _ => continue,
            };
            candidates.entry((edit, bare(&item.line))).or_default().push_back(index);
        }
        let (mut found, mut gone) = (Vec::new(), BTreeSet::new());
        for (index, item) in self.items.iter().enumerate() {
            let Mark::Lost(edit) = &item.mark else { continue };
            let keys = [(Some(edit.as_str()), bare(&item.line)), (None, bare(&item.line))];
            if let Some(place) = keys.iter().find_map(|key| candidates.get_mut(key)?.pop_front()) {
                found.push((place, edit.clone()));
                gone.insert(index);
            }
        }
        for (place, edit) in found {
            if let Some(item) = self.items.get_mut(place) {
                item.mark = Mark::Made(edit);
            }
        }
        let mut indexes = 0..;
        self.items.retain(|_| indexes.next().is_none_or(|index| !gone.contains(&index)));
    }
}

/// The new lines in place of removed ones.
struct Fate {
    /// Their marks.
    marks: Vec<Mark>,
    /// For each removed line, the indexes of the new lines before which it and its successor belong.
    around: Vec<(usize, usize)>,
    /// The edits in their marks.
    edits: HashSet<String>,
}

impl Fate {
    /// Returns true if a new line was made from a line of the same edit.
    fn knows(&self, mark: &Mark) -> bool {
        mark.edit().is_some_and(|edit| self.edits.contains(edit))
    }
}

/// Assigns marks to the new lines of a change.
fn fate(visible: &[&Item], change: &Change, current: &Text, is_whole: &dyn Fn(&str) -> bool) -> Fate {
    let gone = visible.get(change.old.clone()).unwrap_or_default();
    let come = current.lines.get(change.new.clone()).unwrap_or_default();
    let mut marks = vec![Mark::Theirs; come.len()];
    let edit_of = |item: &&Item| match &item.mark {
        Mark::Made(edit) | Mark::Instead(edit) => Some(edit.clone()),
        _ => None,
    };
    // A line between the lines of a contiguous edit is a change of that edit.
    let before = change.old.start.checked_sub(1).and_then(|before| visible.get(before));
    let neighbours = before.and_then(edit_of).zip(visible.get(change.old.end).and_then(edit_of));
    let within = neighbours.filter(|(before, behind)| before == behind && is_whole(before)).map(|(edit, _)| edit);
    let are_ours = gone.iter().all(|item| edit_of(item).is_some());
    let mut free: BTreeSet<usize> = (0..come.len()).collect();
    let mut around = Vec::new();
    for (index, item) in gone.iter().enumerate() {
        let resembles = |place: &usize| come.get(*place).is_some_and(|line| resemble(bare(&item.line), bare(line)));
        let similar = free.iter().copied().take(COMPARED).find(resembles);
        let edit = edit_of(item);
        let found = similar.or_else(|| Some(index).filter(|at| (are_ours || edit.is_none()) && free.contains(at)));
        if let Some((found, mark)) = found.and_then(|found| Some((found, marks.get_mut(found)?))) {
            free.remove(&found);
            *mark = edit.clone().map_or(Mark::Theirs, Mark::Instead);
        }
        let before = change.new.start + found.unwrap_or(index.min(come.len()));
        let is_behind = found.is_some() && edit.is_none();
        around.push((before, before + usize::from(is_behind)));
    }
    if let Some(edit) = within {
        marks.fill(Mark::Instead(edit));
    }
    let edits = marks.iter().filter_map(Mark::edit).map(str::to_owned).collect();
    Fate { marks, around, edits }
}

/// Returns the gaps, by the indexes of the lines after them, between rewritten lines. Lines that an edit has hidden there are obsolete.
fn rewritten(visible: &[&Item], change: &Change) -> Option<Range<usize>> {
    let gone = visible.get(change.old.clone()).unwrap_or_default();
    let is_rewritten = !change.new.is_empty() && gone.iter().any(|item| item.mark == Mark::Theirs);
    is_rewritten.then_some(change.old.start + 1..change.old.end)
}

/// Returns the lines of a text, all with the same ending.
fn comparable(text: &Text) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in &text.lines {
        bytes.extend_from_slice(bare(line));
        bytes.push(b'\n');
    }
    bytes
}

/// Returns true if one line was probably made from the other: at least half of it is equal at the beginning and the end.
fn resemble(one: &[u8], other: &[u8]) -> bool {
    let longest = one.len().max(other.len());
    let same = |(one, other): &(&u8, &u8)| one == other;
    let prefix = one.iter().zip(other).take_while(same).count();
    let rest = one.len().min(other.len()) - prefix;
    let suffix = one.iter().rev().zip(other.iter().rev()).take(rest).take_while(same).count();
    longest > 0 && (prefix + suffix) * 2 >= longest
}

//! Changes that others have made to a file since an edit was made in it.

use super::super::text::{Text, bare};
use super::{Item, Ledger, Mark};
use holo_plugin::diff::{Change, Comparison};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Range;

/// The maximum number of new lines that a line is compared with, where many were replaced at once.
const COMPARED: usize = 500;

impl Ledger {
    /// Brings in what others have made of the file. `is_whole` tells of an edit if its lines belong together, so that nobody else writes
    /// between them.
    ///
    /// Hidden lines stay behind the line that they were behind. A line that an edit has put in and that is not there any more is lost; a
    /// line that has come in its place is one that others have written instead, if it looks as if it was made of it.
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
                // The gaps are in their order.
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

    /// Takes lines that others have moved, or brought back, for those that were lost.
    fn find_lost(&mut self) {
        if !self.items.iter().any(|item| matches!(item.mark, Mark::Lost(_))) {
            return;
        }
        // The lines that can be those that were lost: of others, and in the place of an edit's.
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

/// The lines that have come in the place of others.
struct Fate {
    /// Their marks.
    marks: Vec<Mark>,
    /// For each line that is gone the index of the new one, in the whole text, before which it was, and before which is what followed it.
    around: Vec<(usize, usize)>,
    /// The edits that they have to do with.
    edits: HashSet<String>,
}

impl Fate {
    /// Returns true if a line has come that was made of one of the edit's.
    fn knows(&self, mark: &Mark) -> bool {
        mark.edit().is_some_and(|edit| self.edits.contains(edit))
    }
}

/// Finds out what has become of lines.
fn fate(visible: &[&Item], change: &Change, current: &Text, is_whole: &dyn Fn(&str) -> bool) -> Fate {
    let gone = visible.get(change.old.clone()).unwrap_or_default();
    let come = current.lines.get(change.new.clone()).unwrap_or_default();
    let mut marks = vec![Mark::Theirs; come.len()];
    let edit_of = |item: &&Item| match &item.mark {
        Mark::Made(edit) | Mark::Instead(edit) => Some(edit.clone()),
        _ => None,
    };
    // Nobody writes between the lines of an edit that belong together.
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

/// Returns the gaps before lines, by their indexes, between which others have written everything anew: what an edit has taken out there is
/// of no use any more.
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

/// Returns true if one line looks as if it was made of the other: most of it is the same at the beginning and at the end.
fn resemble(one: &[u8], other: &[u8]) -> bool {
    let longest = one.len().max(other.len());
    let same = |(one, other): &(&u8, &u8)| one == other;
    let prefix = one.iter().zip(other).take_while(same).count();
    let rest = one.len().min(other.len()) - prefix;
    let suffix = one.iter().rev().zip(other.iter().rev()).take(rest).take_while(same).count();
    longest > 0 && (prefix + suffix) * 2 >= longest
}

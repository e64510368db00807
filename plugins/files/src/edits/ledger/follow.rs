//! Changes that others have made to a file since an edit was made in it.

use super::super::text::{Text, bare};
use super::{Item, Ledger, Mark};
use holo_plugin::diff::{Change, Comparison};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

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
        let mut marks: Vec<Option<Mark>> = vec![None; current.lines.len()];
        for change in &comparison.changes {
            for (line, mark) in change.new.clone().zip(self.marks(&visible, change, current, is_whole)) {
                if let Some(slot) = marks.get_mut(line) {
                    *slot = Some(mark);
                }
            }
        }
        let rewritten: Vec<Range<usize>> =
            comparison.changes.iter().filter_map(|change| rewritten(&visible, change)).collect();
        let kept = comparison.kept();
        let stays: BTreeSet<usize> = kept.iter().flatten().copied().collect();
        let mut arrived: VecDeque<(Item, Option<usize>)> = (current.lines.iter().zip(marks).zip(kept))
            .map(|((line, mark), kept)| (Item { line: line.clone(), mark: mark.unwrap_or(Mark::Theirs) }, kept))
            .collect();
        let mut items = Vec::with_capacity(self.items.len() + arrived.len());
        let mut index = 0;
        for item in std::mem::take(&mut self.items) {
            if !item.mark.is_visible() {
                if !rewritten.iter().any(|gap| gap.contains(&index)) || matches!(item.mark, Mark::Lost(_)) {
                    items.push(item);
                }
                continue;
            }
            if stays.contains(&index) {
                while let Some((mut arrived, kept)) = arrived.pop_front() {
                    let is_kept = kept == Some(index);
                    if is_kept {
                        arrived.mark = item.mark.clone();
                    }
                    items.push(arrived);
                    if is_kept {
                        break;
                    }
                }
            } else if let Mark::Made(edit) = item.mark {
                items.push(Item { mark: Mark::Lost(edit), ..item });
            }
            index += 1;
        }
        items.extend(arrived.into_iter().map(|(item, _)| item));
        self.items = items;
        self.take_endings(current);
        self.find_lost();
    }

    /// Returns the marks of lines that have come.
    fn marks(&self, visible: &[&Item], change: &Change, current: &Text, is_whole: &dyn Fn(&str) -> bool) -> Vec<Mark> {
        let gone = visible.get(change.old.clone()).unwrap_or_default();
        let come: Vec<&[u8]> =
            current.lines.get(change.new.clone()).unwrap_or_default().iter().map(|l| bare(l)).collect();
        let mut marks = vec![Mark::Theirs; come.len()];
        let edit_of = |item: &&Item| match &item.mark {
            Mark::Made(edit) | Mark::Instead(edit) => Some(edit.clone()),
            _ => None,
        };
        // Nobody writes between the lines of an edit that belong together.
        let before = change.old.start.checked_sub(1).and_then(|before| visible.get(before));
        let around = before.and_then(edit_of).zip(visible.get(change.old.end).and_then(edit_of));
        let within = around.filter(|(before, behind)| before == behind && is_whole(before)).map(|(edit, _)| edit);
        if let Some(edit) = within {
            return vec![Mark::Instead(edit); come.len()];
        }
        let are_ours = gone.iter().all(|item| edit_of(item).is_some());
        for (index, item) in gone.iter().enumerate() {
            let Some(edit) = edit_of(item) else { continue };
            let is_free = |place: &usize| marks.get(*place) == Some(&Mark::Theirs);
            let resembles = |place: &usize| come.get(*place).is_some_and(|line| resemble(bare(&item.line), line));
            let similar = (0..come.len()).filter(is_free).find(resembles);
            let place = similar.or_else(|| Some(index).filter(|place| are_ours && is_free(place)));
            if let Some(mark) = place.and_then(|place| marks.get_mut(place)) {
                *mark = Mark::Instead(edit);
            }
        }
        marks
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
        let mut found = Vec::new();
        for (index, item) in self.items.iter().enumerate() {
            let Mark::Lost(edit) = &item.mark else { continue };
            let is_it = |(place, other): &(usize, &Item)| {
                let may_be = match &other.mark {
                    Mark::Instead(instead) => instead == edit,
                    Mark::Theirs => !bare(&other.line).is_empty(),
                    _ => false,
                };
                may_be && bare(&other.line) == bare(&item.line) && !found.iter().any(|(_, taken, _)| taken == place)
            };
            let instead = |(_, other): &(usize, &Item)| matches!(other.mark, Mark::Instead(_));
            let mut candidates = self.items.iter().enumerate().filter(is_it);
            let first = candidates.next();
            let other = first.filter(instead).or_else(|| candidates.find(instead)).or(first);
            found.extend(other.map(|(place, _)| (index, place, edit.clone())));
        }
        for (_, place, edit) in &found {
            if let Some(item) = self.items.get_mut(*place) {
                item.mark = Mark::Made(edit.clone());
            }
        }
        let mut index = 0;
        self.items.retain(|_| {
            index += 1;
            !found.iter().any(|(lost, ..)| lost + 1 == index)
        });
    }
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

//! A model of drafts for tests: it applies edits to plain lists of lines, and searches them from the beginning to the end.

use super::super::EditDefinition;
use super::super::definition::{BlockDefinition, Ensure, IniDefinition, LineDefinition};
use super::super::text::{bare, header};
use super::{Item, Ledger, Mark};
use crate::edits::pattern::Pattern;
use std::ops::Range;

/// The change that an edit makes: the indexes of lines to hide, and new lines with the index of the line after them.
#[derive(Default)]
struct Plan {
    hide: Vec<usize>,
    insert: Option<(usize, Vec<Vec<u8>>)>,
}

/// The former position of an edit: the index among the visible lines, and among all items.
#[derive(Clone, Copy)]
struct Place {
    line: usize,
    item: usize,
}

/// The ledger after an edit is applied or taken back, whether the text changes, and whether that needs force.
pub(in crate::edits) type Modelled = (Ledger, bool, bool);

/// Applies an edit; `None` if it would remove a line of another edit.
pub(in crate::edits) fn make(
    ledger: &Ledger,
    id: &str,
    definition: &EditDefinition,
    is_known: bool,
) -> Option<Modelled> {
    if is_known && holds(definition, &lines(ledger)) {
        return Some((ledger.clone(), false, false));
    }
    let mut made = ledger.clone();
    let before = undo(&mut made, id);
    let plan = plan(definition, &lines(&made), before.map(|before| before.line));
    insert(&mut made, id, plan, before)?;
    Some(modelled(ledger, made, id))
}

pub(in crate::edits) fn take_back(ledger: &Ledger, id: &str) -> Modelled {
    let mut without = ledger.clone();
    undo(&mut without, id);
    modelled(ledger, without, id)
}

fn modelled(before: &Ledger, after: Ledger, id: &str) -> Modelled {
    let changes = before.text() != after.text();
    let is_changed = before.items.iter().any(|item| item.mark == Mark::Instead(id.to_owned()));
    (after, changes, is_changed && changes)
}

fn lines(ledger: &Ledger) -> Vec<&[u8]> {
    ledger.visible().map(|item| bare(&item.line)).collect()
}

fn undo(ledger: &mut Ledger, id: &str) -> Option<Place> {
    ledger.items.retain(|item| item.mark != Mark::Instead(id.to_owned()));
    if !id.starts_with("block:") {
        hand_over(ledger, id);
    }
    let (mut first, mut place) = (None, Place { line: 0, item: 0 });
    ledger.items.retain_mut(|item| {
        let is_own = item.mark.is_of(id);
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

fn hand_over(ledger: &mut Ledger, id: &str) {
    let own = Mark::Made(id.to_owned());
    for index in (0..ledger.items.len()).rev().collect::<Vec<_>>() {
        if ledger.items[index].mark != own {
            continue;
        }
        let below: Vec<&Item> =
            ledger.items[index + 1..].iter().filter(|item| item.mark.is_visible() && item.mark != own).collect();
        let is_blank = |item: &&&Item| bare(&item.line).trim_ascii().is_empty();
        let line = bare(&ledger.items[index].line);
        let heir = if line.trim_ascii().is_empty() {
            below.first().copied().filter(|item| header(bare(&item.line)).is_some())
        } else {
            let next = header(line).and_then(|_| below.iter().find(|item| !is_blank(item)).copied());
            next.filter(|item| header(bare(&item.line)).is_none())
        };
        if let Some(mark) = heir.map(|heir| heir.mark.clone()) {
            ledger.items[index].mark = mark;
        }
    }
}

fn insert(ledger: &mut Ledger, id: &str, plan: Plan, before: Option<Place>) -> Option<()> {
    let visible: Vec<usize> = (0..ledger.items.len()).filter(|&item| ledger.items[item].mark.is_visible()).collect();
    if plan.hide.iter().any(|&line| ledger.items[visible[line]].mark.edit().is_some()) {
        return None;
    }
    for &line in &plan.hide {
        ledger.items[visible[line]].mark = Mark::Hidden(id.to_owned());
    }
    let (at, lines) = plan.insert.unwrap_or_default();
    let exact = before.filter(|before| before.line == at).map(|before| before.item);
    let place = exact.or(visible.get(at).copied()).unwrap_or(ledger.items.len());
    let endings = ledger.endings;
    let made = lines.iter().map(|line| Item { line: endings.fit(line), mark: Mark::Made(id.to_owned()) });
    ledger.items.splice(place..place, made.collect::<Vec<_>>());
    Some(())
}

fn holds(definition: &EditDefinition, lines: &[&[u8]]) -> bool {
    match definition {
        EditDefinition::Line(line) => line_holds(line, lines),
        EditDefinition::Block(block) => {
            wanted_block(block) == block_lines(block, lines).map_or(&[][..], |range| &lines[range])
        }
        EditDefinition::Ini(ini) => ini_holds(ini, lines),
    }
}

fn plan(definition: &EditDefinition, lines: &[&[u8]], before: Option<usize>) -> Plan {
    if !matches!(definition, EditDefinition::Line(LineDefinition { ensure: Ensure::Absent, .. }))
        && holds(definition, lines)
    {
        return Plan::default();
    }
    match definition {
        EditDefinition::Line(line) => plan_line(line, lines, before),
        EditDefinition::Block(block) => {
            let (found, wanted) = (block_lines(block, lines), wanted_block(block));
            let keys = (block.insert_after.as_deref(), block.insert_before.as_deref());
            let at = found.as_ref().map(|found| found.start).or(before).unwrap_or_else(|| anchor(keys, lines));
            Plan {
                hide: found.map(Iterator::collect).unwrap_or_default(),
                insert: (!wanted.is_empty()).then_some((at, wanted)),
            }
        }
        EditDefinition::Ini(ini) => plan_ini(ini, lines, before),
    }
}

fn matching(pattern: Option<&str>, lines: &[&[u8]]) -> Vec<usize> {
    let Some(pattern) = pattern else { return Vec::new() };
    let pattern = Pattern::new("match", pattern).unwrap();
    (0..lines.len()).filter(|&line| pattern.is_match(lines[line])).collect()
}

fn anchor((after, before): (Option<&str>, Option<&str>), lines: &[&[u8]]) -> usize {
    if after == Some("BOF") || before == Some("BOF") {
        return 0;
    }
    let after = matching(after, lines).pop().map(|last| last + 1);
    after.or(matching(before, lines).first().copied()).unwrap_or(lines.len())
}

fn wanted_line(line: &LineDefinition) -> &[u8] {
    line.line.as_deref().unwrap_or_default().as_bytes()
}

fn unwanted_lines(line: &LineDefinition, lines: &[&[u8]]) -> Vec<usize> {
    let matching = matching(line.matches.as_deref(), lines);
    let is_wanted = |index: &usize| line.line.is_some() && lines[*index] == wanted_line(line);
    (0..lines.len()).filter(|index| is_wanted(index) || matching.contains(index)).collect()
}

fn line_holds(line: &LineDefinition, lines: &[&[u8]]) -> bool {
    if line.ensure == Ensure::Absent {
        return unwanted_lines(line, lines).is_empty();
    }
    let is_rival = !matching(line.matches.as_deref(), &[wanted_line(line)]).is_empty();
    let last = matching(line.matches.as_deref().filter(|_| is_rival), lines).pop();
    last.map_or_else(|| lines.contains(&wanted_line(line)), |last| lines[last] == wanted_line(line))
}

fn plan_line(line: &LineDefinition, lines: &[&[u8]], before: Option<usize>) -> Plan {
    if line.ensure == Ensure::Absent {
        return Plan { hide: unwanted_lines(line, lines), insert: None };
    }
    let wanted = vec![wanted_line(line).to_vec()];
    match matching(line.matches.as_deref(), lines).pop() {
        Some(last) => Plan { hide: vec![last], insert: Some((last, wanted)) },
        None => {
            let keys = (line.insert_after.as_deref(), line.insert_before.as_deref());
            Plan { hide: Vec::new(), insert: Some((before.unwrap_or_else(|| anchor(keys, lines)), wanted)) }
        }
    }
}

fn wanted_block(block: &BlockDefinition) -> Vec<Vec<u8>> {
    if block.ensure == Ensure::Absent {
        return Vec::new();
    }
    let [begin, end] = block.markers();
    let content = block.content.as_deref().unwrap_or_default();
    [&*begin].into_iter().chain(content.lines()).chain([&*end]).map(|line| line.as_bytes().to_vec()).collect()
}

fn block_lines(block: &BlockDefinition, lines: &[&[u8]]) -> Option<Range<usize>> {
    let [begin, end] = block.markers();
    let start = lines.iter().rposition(|line| line.trim_ascii() == begin.as_bytes())?;
    let length = lines[start..].iter().position(|line| line.trim_ascii() == end.as_bytes())?;
    Some(start..start + length + 1)
}

fn wanted_value(ini: &IniDefinition) -> &[u8] {
    ini.value.as_deref().unwrap_or_default().as_bytes()
}

/// Returns the sections of the definition, without their headers.
fn sections(ini: &IniDefinition, lines: &[&[u8]]) -> Vec<Range<usize>> {
    let headers: Vec<usize> = (0..lines.len()).filter(|&line| header(lines[line]).is_some()).collect();
    let end = |from: usize| headers.iter().copied().find(|&header| header >= from).unwrap_or(lines.len());
    let Some(section) = &ini.section else { return Vec::from([Range { start: 0, end: end(0) }]) };
    let own = headers.iter().filter(|&&line| header(lines[line]) == Some(section.as_bytes()));
    own.map(|&line| line + 1..end(line + 1)).collect()
}

/// Splits a line that sets the key into everything before the value, and the value.
fn split<'l>(ini: &IniDefinition, line: &'l [u8]) -> Option<(&'l [u8], &'l [u8])> {
    let rest = line.trim_ascii_start().strip_prefix(ini.key.as_bytes())?;
    let behind = rest.trim_ascii_start();
    let value = match ini.separator() {
        Some(separator) => behind.strip_prefix(separator.to_string().as_bytes())?.trim_ascii_start(),
        None if rest.len() == behind.len() => return None,
        None => behind,
    };
    let (spelled, _) = line.split_at(line.len() - value.len());
    Some((spelled, value.trim_ascii_end()))
}

fn keys(ini: &IniDefinition, lines: &[&[u8]]) -> Vec<usize> {
    sections(ini, lines).into_iter().flatten().filter(|&line| split(ini, lines[line]).is_some()).collect()
}

fn ini_holds(ini: &IniDefinition, lines: &[&[u8]]) -> bool {
    let keys = keys(ini, lines);
    if ini.ensure == Ensure::Absent {
        return keys.is_empty();
    }
    keys.last().is_some_and(|&last| split(ini, lines[last]).unwrap().1 == wanted_value(ini))
}

fn plan_ini(ini: &IniDefinition, lines: &[&[u8]], before: Option<usize>) -> Plan {
    let keys = keys(ini, lines);
    if ini.ensure == Ensure::Absent {
        return Plan { hide: keys, insert: None };
    }
    if let Some(&last) = keys.last() {
        let line = [split(ini, lines[last]).unwrap().0, wanted_value(ini)].concat();
        return Plan { hide: vec![last], insert: Some((last, vec![line])) };
    }
    let line = [ini.key.as_bytes(), ini.delimiter().as_bytes(), wanted_value(ini)].concat();
    let is_blank = |line: &[u8]| line.trim_ascii().is_empty();
    let Some(section) = sections(ini, lines).pop() else {
        let header = format!("[{}]", ini.section.as_deref().unwrap_or_default()).into_bytes();
        let blank = if lines.last().is_none_or(|last| is_blank(last)) { None } else { Some(Vec::new()) };
        let new = blank.into_iter().chain([header, line]).collect();
        return Plan { hide: Vec::new(), insert: Some((lines.len(), new)) };
    };
    let end = section.clone().rev().find(|&index| !is_blank(lines[index])).map_or(section.start, |last| last + 1);
    let at = before.filter(|before| (section.start..=end).contains(before)).unwrap_or(end);
    Plan { hide: Vec::new(), insert: Some((at, vec![line])) }
}

//! The value of a key in a file of sections. Comments, order and spelling of everything else stay as they are.

use super::definition::{Ensure, IniDefinition};
use super::ledger::Plan;
use bstr::ByteSlice;
use std::ops::Range;

impl IniDefinition {
    /// Returns true if the lines of a file are as they should be.
    pub(super) fn holds(&self, lines: &[&[u8]]) -> bool {
        let keys = self.keys(lines);
        if self.ensure == Ensure::Absent {
            return keys.is_empty();
        }
        let last = keys.last().and_then(|&last| self.split(lines.get(last)?));
        last.is_some_and(|(_, value)| value == self.wanted())
    }

    /// Returns the change that makes them so. Of several keys, the last one counts. A new one comes to `before`, if that is given and in the
    /// section, and else to the section's end.
    pub(super) fn plan(&self, lines: &[&[u8]], before: Option<usize>) -> Plan {
        let keys = self.keys(lines);
        if self.ensure == Ensure::Absent {
            return Plan { hide: keys, insert: None };
        }
        if self.holds(lines) {
            return Plan::default();
        }
        if let Some((last, (spelled, _))) = keys.last().and_then(|&last| Some((last, self.split(lines.get(last)?)?))) {
            let line = [spelled, self.wanted()].concat();
            return Plan { hide: vec![last], insert: Some((last, vec![line])) };
        }
        let line = [self.key.as_bytes(), self.delimiter().as_bytes(), self.wanted()].concat();
        let Some(section) = self.sections(lines).pop() else { return self.new_section(lines, line) };
        let is_blank = |index: &usize| lines.get(*index).is_some_and(|line| line.trim_ascii().is_empty());
        let end = section.clone().rev().find(|index| !is_blank(index)).map_or(section.start, |last| last + 1);
        let at = before.filter(|before| (section.start..=end).contains(before)).unwrap_or(end);
        Plan { hide: Vec::new(), insert: Some((at, vec![line])) }
    }

    fn new_section(&self, lines: &[&[u8]], line: Vec<u8>) -> Plan {
        let header = format!("[{}]", self.section.as_deref().unwrap_or_default()).into_bytes();
        let is_apart = lines.last().is_none_or(|last| last.trim_ascii().is_empty());
        let blank = if is_apart { None } else { Some(Vec::new()) };
        let new = blank.into_iter().chain([header, line]).collect();
        Plan { hide: Vec::new(), insert: Some((lines.len(), new)) }
    }

    fn wanted(&self) -> &[u8] {
        self.value.as_deref().unwrap_or_default().as_bytes()
    }

    /// Returns the lines of the section, without its header; it may stand in the file several times.
    fn sections(&self, lines: &[&[u8]]) -> Vec<Range<usize>> {
        let headers = (0..).zip(lines).filter_map(|(index, line)| Some((index, header(line)?)));
        let headers: Vec<(usize, &[u8])> = headers.collect();
        let ends = headers.iter().map(|(index, _)| *index).chain([lines.len()]);
        let Some(section) = &self.section else { return Vec::from([Range { start: 0, end: ends.min().unwrap_or(0) }]) };
        let sections = headers.iter().zip(ends.skip(1));
        let own = sections.filter(|((_, name), _)| *name == section.as_bytes());
        own.map(|((start, _), end)| start + 1..end).collect()
    }

    /// Returns the indexes of the lines that give the key a value.
    fn keys(&self, lines: &[&[u8]]) -> Vec<usize> {
        let sections = self.sections(lines);
        let all = sections.into_iter().flatten();
        all.filter(|&index| lines.get(index).is_some_and(|line| self.split(line).is_some())).collect()
    }

    /// Splits a line that gives the key a value: into the key as it is spelled, with what is before the value, and the value.
    fn split<'l>(&self, line: &'l [u8]) -> Option<(&'l [u8], &'l [u8])> {
        let indented = line.trim_ascii_start();
        let rest = indented.strip_prefix(self.key.as_bytes())?;
        let behind = rest.trim_ascii_start();
        let value = match self.separator() {
            Some(separator) => behind.strip_prefix(separator.to_string().as_bytes())?.trim_ascii_start(),
            None if rest.len() == behind.len() => return None,
            None => behind,
        };
        let (spelled, _) = line.split_at(line.len() - value.len());
        Some((spelled, value.trim_ascii_end()))
    }
}

/// Returns the name of the section that a line begins, if it does.
fn header(line: &[u8]) -> Option<&[u8]> {
    let name = line.trim_ascii().strip_prefix(b"[")?;
    let end = name.find_byte(b']')?;
    let (name, behind) = name.split_at(end);
    let behind = behind.get(1..).unwrap_or_default().trim_ascii_start();
    (behind.is_empty() || behind.starts_with(b"#") || behind.starts_with(b";")).then_some(name.trim_ascii())
}

/// Returns which of the lines below a section's header, or a blank line above one, keeps that where it is.
pub(super) fn led(line: &[u8], below: &[&[u8]]) -> Option<usize> {
    if line.trim_ascii().is_empty() {
        return below.first().filter(|line| header(line).is_some()).map(|_| 0);
    }
    header(line)?;
    let first = below.iter().position(|line| !line.trim_ascii().is_empty())?;
    below.get(first).filter(|line| header(line).is_none()).map(|_| first)
}

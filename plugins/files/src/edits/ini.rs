//! The value of a key in a file of sections. Comments, order and spelling of everything else stay as they are.

use super::definition::{Ensure, IniDefinition};
use super::ledger::{Draft, ItemIndex, Plan, Spot};
use bstr::ByteSlice;

impl IniDefinition {
    /// Returns true if the lines of a file are as they should be.
    pub(super) fn holds(&self, draft: &mut Draft) -> bool {
        let keys = self.keys(draft);
        if self.ensure == Ensure::Absent {
            return keys.is_empty();
        }
        let last = keys.last().and_then(|&last| self.split(draft.line(last)));
        last.is_some_and(|(_, value)| value == self.wanted())
    }

    /// Returns the change that makes them so. Of several keys, the last one counts. A new one comes to `before`, if that is given and in the
    /// section, and else to the section's end.
    pub(super) fn plan(&self, draft: &mut Draft, before: Option<Spot>) -> Plan {
        let keys = self.keys(draft);
        if self.ensure == Ensure::Absent {
            return Plan { hide: keys, insert: None };
        }
        if let Some((last, (spelled, value))) =
            keys.last().and_then(|&last| Some((last, self.split(draft.line(last))?)))
        {
            if value == self.wanted() {
                return Plan::default();
            }
            let line = [spelled, self.wanted()].concat();
            return Plan { hide: vec![last], insert: Some((Spot::Before(last), vec![line])) };
        }
        let line = [self.key.as_bytes(), self.delimiter().as_bytes(), self.wanted()].concat();
        let Some(section) = draft.section(self.section.as_deref()) else { return self.new_section(draft, line) };
        let at = before.filter(|&before| draft.is_within(before, &section)).unwrap_or(section.end);
        Plan { hide: Vec::new(), insert: Some((at, vec![line])) }
    }

    fn new_section(&self, draft: &Draft, line: Vec<u8>) -> Plan {
        let header = format!("[{}]", self.section.as_deref().unwrap_or_default()).into_bytes();
        let blank = if draft.ends_blank() { None } else { Some(Vec::new()) };
        let new = blank.into_iter().chain([header, line]).collect();
        Plan { hide: Vec::new(), insert: Some((Spot::End, new)) }
    }

    fn wanted(&self) -> &[u8] {
        self.value.as_deref().unwrap_or_default().as_bytes()
    }

    /// Returns the lines that give the key a value. The section may be in the file several times.
    fn keys(&self, draft: &mut Draft) -> Vec<ItemIndex> {
        draft.values_of(self.section.as_deref(), &self.key, self.separator())
    }

    /// Splits a line that gives the key a value: into the key as it is spelled, with what is before the value, and the value.
    fn split<'l>(&self, line: &'l [u8]) -> Option<(&'l [u8], &'l [u8])> {
        let (_, value) = split(line, self.separator())?;
        let (spelled, _) = line.split_at(line.len() - value.len());
        Some((spelled, value.trim_ascii_end()))
    }
}

/// Returns the key that a line gives a value, if it does. A key ends with a separator, or with a blank.
pub(super) fn key(line: &[u8], separator: Option<char>) -> Option<&[u8]> {
    split(line, separator).map(|(key, _)| key)
}

/// Splits a line into a key and what is behind it, without the blanks before either.
fn split(line: &[u8], separator: Option<char>) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_start();
    let (key, behind) = match separator {
        Some(separator) => line.split_once_str(separator.encode_utf8(&mut [0; 4]))?,
        None => line.split_at(line.iter().position(u8::is_ascii_whitespace)?),
    };
    Some((key.trim_ascii_end(), behind.trim_ascii_start()))
}

/// Returns the name of the section that a line begins, if it does.
pub(super) fn header(line: &[u8]) -> Option<&[u8]> {
    let name = line.trim_ascii().strip_prefix(b"[")?;
    let end = name.find_byte(b']')?;
    let (name, behind) = name.split_at(end);
    let behind = behind.get(1..).unwrap_or_default().trim_ascii_start();
    (behind.is_empty() || behind.starts_with(b"#") || behind.starts_with(b";")).then_some(name.trim_ascii())
}

/// Returns which of the lines below a section's header, or a blank line above one, keeps that where it is.
pub(super) fn led<'l, T>(line: &[u8], below: impl IntoIterator<Item = (&'l [u8], T)>) -> Option<T> {
    let mut below = below.into_iter();
    let (next, is_header) = match line.trim_ascii().is_empty() {
        true => (below.next()?, true),
        false => {
            header(line)?;
            (below.find(|(line, _)| !line.trim_ascii().is_empty())?, false)
        }
    };
    (header(next.0).is_some() == is_header).then_some(next.1)
}

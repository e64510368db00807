//! The value of a key in a file of sections. Comments, the order of lines, and the spelling of keys are kept.

use super::definition::{Ensure, IniDefinition};
use super::ledger::{Draft, ItemIndex, Plan, Spot};
use super::text::split_key;

impl IniDefinition {
    /// Returns true if the file is in the desired state.
    pub(super) fn holds(&self, draft: &mut Draft) -> bool {
        let keys = self.keys(draft);
        if self.ensure == Ensure::Absent {
            return keys.is_empty();
        }
        let last = keys.last().and_then(|&last| self.split(draft.line(last)));
        last.is_some_and(|(_, value)| value == self.wanted())
    }

    /// Returns the change that leads to the desired state. If the key occurs several times, the last line counts. A new line is inserted at
    /// `before` if that is given and in the section, and at the end of the section otherwise.
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

    /// Returns the lines that set the key, in all sections of the name.
    fn keys(&self, draft: &mut Draft) -> Vec<ItemIndex> {
        draft.values_of(self.section.as_deref(), &self.key, self.separator())
    }

    /// Splits a line into everything before the value, and the value.
    fn split<'l>(&self, line: &'l [u8]) -> Option<(&'l [u8], &'l [u8])> {
        let (_, value) = split_key(line, self.separator())?;
        let (spelled, _) = line.split_at(line.len() - value.len());
        Some((spelled, value.trim_ascii_end()))
    }
}

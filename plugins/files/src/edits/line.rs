//! A line that is to be in a file, or not.

use super::definition::{Ensure, LineDefinition, compile};
use super::ledger::Plan;
use holo_plugin::definitions::Invalid;
use regex::bytes::Regex;

impl LineDefinition {
    fn pattern(&self) -> Result<Option<Regex>, Invalid> {
        self.matches.as_deref().map(|pattern| compile("match", pattern)).transpose()
    }

    fn wanted(&self) -> &[u8] {
        self.line.as_deref().unwrap_or_default().as_bytes()
    }

    /// Returns true if the lines of a file are as they should be.
    pub(super) fn holds(&self, lines: &[&[u8]]) -> Result<bool, Invalid> {
        let pattern = self.pattern()?;
        if self.ensure == Ensure::Absent {
            return Ok(self.unwanted(lines, pattern.as_ref()).is_empty());
        }
        // What does not match the line itself is not one that would take effect instead of it.
        let rivals = pattern.filter(|pattern| pattern.is_match(self.wanted()));
        let last = last_match(lines, rivals.as_ref()).and_then(|last| lines.get(last));
        Ok(last.map_or_else(|| lines.contains(&self.wanted()), |last| *last == self.wanted()))
    }

    /// Returns the change that makes them so. A new line comes to `before`, if that is given, and else to its anchor.
    pub(super) fn plan(&self, lines: &[&[u8]], before: Option<usize>) -> Result<Plan, Invalid> {
        let pattern = self.pattern()?;
        if self.ensure == Ensure::Absent {
            return Ok(Plan { hide: self.unwanted(lines, pattern.as_ref()), insert: None });
        }
        if self.holds(lines)? {
            return Ok(Plan::default());
        }
        let wanted = vec![self.wanted().to_vec()];
        if let Some(last) = last_match(lines, pattern.as_ref()) {
            return Ok(Plan { hide: vec![last], insert: Some((last, wanted)) });
        }
        let place = before.map_or_else(|| self.shared().anchors.place(lines), Ok)?;
        Ok(Plan { hide: Vec::new(), insert: Some((place, wanted)) })
    }

    /// Returns the indexes of the lines that are to go.
    fn unwanted(&self, lines: &[&[u8]], pattern: Option<&Regex>) -> Vec<usize> {
        let is_unwanted = |line: &[u8]| {
            self.line.as_ref().is_some_and(|unwanted| unwanted.as_bytes() == line)
                || pattern.is_some_and(|pattern| pattern.is_match(line))
        };
        (0..).zip(lines).filter(|(_, line)| is_unwanted(line)).map(|(index, _)| index).collect()
    }
}

fn last_match(lines: &[&[u8]], pattern: Option<&Regex>) -> Option<usize> {
    let pattern = pattern?;
    lines.iter().rposition(|line| pattern.is_match(line))
}

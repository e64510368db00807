//! A line that is to be in a file, or not.

use super::definition::{BEGINNING, END, Ensure, LineDefinition, compile};
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
        let place = before.map_or_else(|| place(lines, self.insert_after.as_ref(), self.insert_before.as_ref()), Ok)?;
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

/// Returns the index of the line before which something new comes: the end, if there is no such anchor.
pub(super) fn place(lines: &[&[u8]], after: Option<&String>, before: Option<&String>) -> Result<usize, Invalid> {
    let found = match (after.map(String::as_str), before.map(String::as_str)) {
        (Some(BEGINNING), _) | (_, Some(BEGINNING)) => Some(0),
        (Some(END), _) | (_, Some(END)) | (None, None) => None,
        (Some(after), _) => last_match(lines, Some(&compile("insert_after", after)?)).map(|index| index + 1),
        (_, Some(before)) => {
            let before = compile("insert_before", before)?;
            lines.iter().position(|line| before.is_match(line))
        }
    };
    Ok(found.unwrap_or(lines.len()))
}

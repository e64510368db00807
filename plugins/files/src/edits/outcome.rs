//! Applying an edit to the draft of a file, and taking it back: a line that is present or absent, a block between two marker lines, or the
//! value of a key in a file of sections.

#[cfg(test)]
mod tests;

use super::EditDefinition;
use super::definition::{BlockDefinition, Ensure, IniDefinition, LineDefinition};
use super::ledger::{Draft, ItemIndex, Ledger, Plan, SharedLine, Spot};
use super::text::{Text, split_key};
use crate::edits::pattern::Pattern;
use holo_plugin::definitions::Invalid;

/// The type of entities whose lines are contiguous.
const WHOLE: &str = "block:";

/// The reason why an edit cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(super) enum EditError {
    #[error("{0}")]
    Invalid(#[from] Invalid),
    #[error("a line of it is that of {}, too; one of both has to go", .0.0)]
    Shared(SharedLine),
}

/// The effect of an edit on a draft. It can be [reverted](Draft::roll_back) until it is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Whether the text of the file changes.
    pub(super) changes: bool,
    /// Whether manual changes of the edit's own lines would be lost.
    pub(super) needs_force: bool,
}

/// Adds the changes that users and other programs have made in a file.
pub(super) fn follow(ledger: &mut Ledger, current: &Text) {
    ledger.follow(current, &|edit| edit.starts_with(WHOLE));
}

/// Applies an edit. `is_known` means that it was applied from the same definition before.
///
/// # Errors
/// If another edit owns a line that the edit would remove.
pub(super) fn make(
    draft: &mut Draft,
    id: &str,
    definition: &EditDefinition,
    is_known: bool,
) -> Result<Outcome, EditError> {
    if is_known && definition.holds(draft)? {
        return Ok(Outcome::default());
    }
    let was_changed = draft.is_changed(id);
    let before = undo(draft, id);
    let visible = before.map(|before| draft.visible_from(before));
    let plan = definition.plan(draft, visible)?;
    draft.make(id, plan, before).map_err(EditError::Shared)?;
    Ok(outcome(draft, was_changed))
}

/// Takes an edit back.
pub(super) fn take_back(draft: &mut Draft, id: &str) -> Outcome {
    let was_changed = draft.is_changed(id);
    undo(draft, id);
    outcome(draft, was_changed)
}

/// Takes an edit back, with manual changes of its lines. Returns its former position.
fn undo(draft: &mut Draft, id: &str) -> Option<Spot> {
    draft.take_back(id, !id.starts_with(WHOLE))
}

fn outcome(draft: &Draft, was_changed: bool) -> Outcome {
    let changes = draft.changes_text();
    Outcome { changes, needs_force: was_changed && changes }
}

impl LineDefinition {
    fn pattern(&self) -> Result<Option<Pattern>, Invalid> {
        self.matches.as_deref().map(|pattern| Pattern::new("match", pattern)).transpose()
    }

    fn wanted(&self) -> &[u8] {
        self.line.as_deref().unwrap_or_default().as_bytes()
    }

    /// Returns true if the file is in the desired state.
    pub(super) fn holds(&self, draft: &mut Draft) -> Result<bool, Invalid> {
        Ok(self.is_held(draft, self.pattern()?.as_ref()))
    }

    fn is_held(&self, draft: &mut Draft, pattern: Option<&Pattern>) -> bool {
        if self.ensure == Ensure::Absent {
            return self.unwanted(draft, pattern).is_empty();
        }
        // A pattern that does not match the desired line only finds the line to replace: other matching lines do not override it.
        let rivals = pattern.filter(|pattern| pattern.is_match(self.wanted()));
        match rivals.and_then(|rivals| draft.last_match(rivals)) {
            Some(last) => draft.line(last) == self.wanted(),
            None => draft.contains(self.wanted()),
        }
    }

    /// Returns the change that leads to the desired state. A new line is inserted at `before` if that is given, and at its anchor otherwise.
    pub(super) fn plan(&self, draft: &mut Draft, before: Option<Spot>) -> Result<Plan, Invalid> {
        let pattern = self.pattern()?;
        if self.ensure == Ensure::Absent {
            return Ok(Plan { hide: self.unwanted(draft, pattern.as_ref()), insert: None });
        }
        if self.is_held(draft, pattern.as_ref()) {
            return Ok(Plan::default());
        }
        let wanted = vec![self.wanted().to_vec()];
        if let Some(last) = pattern.and_then(|pattern| draft.last_match(&pattern)) {
            return Ok(Plan { hide: vec![last], insert: Some((Spot::Before(last), wanted)) });
        }
        let place = before.map_or_else(|| self.shared().anchors.place(draft), Ok)?;
        Ok(Plan { hide: Vec::new(), insert: Some((place, wanted)) })
    }

    /// Returns the lines that must be removed.
    fn unwanted(&self, draft: &mut Draft, pattern: Option<&Pattern>) -> Vec<ItemIndex> {
        let mut unwanted = self.line.as_ref().map(|line| draft.equal(line.as_bytes())).unwrap_or_default();
        unwanted.extend(pattern.into_iter().flat_map(|pattern| draft.matches(pattern)));
        unwanted.sort_unstable();
        unwanted.dedup();
        unwanted
    }
}

impl BlockDefinition {
    /// Returns the desired lines including the marker lines; none if the block must be absent.
    fn wanted(&self) -> Vec<Vec<u8>> {
        if self.ensure == Ensure::Absent {
            return Vec::new();
        }
        let [begin, end] = self.markers();
        let content = self.content.iter().flat_map(|content| content.lines());
        let lines = [begin.as_str()].into_iter().chain(content).chain([end.as_str()]);
        lines.map(|line| line.as_bytes().to_vec()).collect()
    }

    /// Returns the lines of the last block in the file, including its marker lines; none if there is no block.
    fn find(&self, draft: &mut Draft) -> Vec<ItemIndex> {
        let [begin, end] = self.markers();
        let begins = draft.like(begin.as_bytes());
        let begin = begins.into_iter().rfind(|&index| draft.line(index).trim_ascii() == begin.as_bytes());
        let block = begin.and_then(|begin| Some((begin, draft.first_from(begin, end.as_bytes())?)));
        block.map(|(begin, end)| draft.between(begin, end)).unwrap_or_default()
    }

    /// Returns true if the file is in the desired state.
    pub(super) fn holds(&self, draft: &mut Draft) -> bool {
        let found = self.find(draft);
        self.is_wanted(draft, &found)
    }

    fn is_wanted(&self, draft: &Draft, found: &[ItemIndex]) -> bool {
        self.wanted().iter().map(Vec::as_slice).eq(found.iter().map(|&index| draft.line(index)))
    }

    /// Returns the change that leads to the desired state. A new block is inserted at `before` if that is given, and at its anchor otherwise.
    pub(super) fn plan(&self, draft: &mut Draft, before: Option<Spot>) -> Result<Plan, Invalid> {
        let (found, wanted) = (self.find(draft), self.wanted());
        if self.is_wanted(draft, &found) {
            return Ok(Plan::default());
        }
        let at = match (found.first(), before) {
            (Some(&first), _) => Spot::Before(first),
            (None, Some(before)) => before,
            (None, None) => self.shared().anchors.place(draft)?,
        };
        Ok(Plan { hide: found, insert: (!wanted.is_empty()).then_some((at, wanted)) })
    }
}

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

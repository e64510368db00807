//! A line that must be present in a file, or absent.

use super::definition::{Ensure, LineDefinition};
use super::ledger::{Draft, ItemIndex, Plan, Spot};
use super::pattern::Pattern;
use holo_plugin::definitions::Invalid;

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

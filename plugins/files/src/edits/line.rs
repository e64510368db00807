//! A line that is to be in a file, or not.

use super::definition::{Ensure, LineDefinition, Pattern};
use super::ledger::{Draft, ItemIndex, Plan, Spot};
use holo_plugin::definitions::Invalid;

impl LineDefinition {
    fn pattern(&self) -> Result<Option<Pattern>, Invalid> {
        self.matches.as_deref().map(|pattern| Pattern::new("match", pattern)).transpose()
    }

    fn wanted(&self) -> &[u8] {
        self.line.as_deref().unwrap_or_default().as_bytes()
    }

    /// Returns true if the lines of a file are as they should be.
    pub(super) fn holds(&self, draft: &mut Draft) -> Result<bool, Invalid> {
        Ok(self.is_held(draft, self.pattern()?.as_ref()))
    }

    fn is_held(&self, draft: &mut Draft, pattern: Option<&Pattern>) -> bool {
        if self.ensure == Ensure::Absent {
            return self.unwanted(draft, pattern).is_empty();
        }
        // What does not match the line itself is not one that would take effect instead of it.
        let rivals = pattern.filter(|pattern| pattern.is_match(self.wanted()));
        match rivals.and_then(|rivals| draft.last_match(rivals)) {
            Some(last) => draft.line(last) == self.wanted(),
            None => draft.contains(self.wanted()),
        }
    }

    /// Returns the change that makes them so. A new line comes to `before`, if that is given, and else to its anchor.
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

    /// Returns the lines that are to go.
    fn unwanted(&self, draft: &mut Draft, pattern: Option<&Pattern>) -> Vec<ItemIndex> {
        let mut unwanted = self.line.as_ref().map(|line| draft.equal(line.as_bytes())).unwrap_or_default();
        unwanted.extend(pattern.into_iter().flat_map(|pattern| draft.matches(pattern)));
        unwanted.sort_unstable();
        unwanted.dedup();
        unwanted
    }
}

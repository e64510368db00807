//! Lines between two marker lines.

use super::definition::{BlockDefinition, Ensure};
use super::ledger::{Draft, ItemIndex, Plan, Spot};
use holo_plugin::definitions::Invalid;

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

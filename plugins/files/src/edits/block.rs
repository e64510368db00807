//! Lines between two marker lines.

use super::definition::{BlockDefinition, Ensure};
use super::ledger::Plan;
use holo_plugin::definitions::Invalid;
use std::ops::Range;

impl BlockDefinition {
    /// Returns the block, with its marker lines; nothing if it is not to be there.
    fn wanted(&self) -> Vec<Vec<u8>> {
        if self.ensure == Ensure::Absent {
            return Vec::new();
        }
        let [begin, end] = self.markers();
        let content = self.content.iter().flat_map(|content| content.lines());
        let lines = [begin.as_str()].into_iter().chain(content).chain([end.as_str()]);
        lines.map(|line| line.as_bytes().to_vec()).collect()
    }

    /// Returns the lines from the last marker that begins the block to the one that ends it.
    fn find(&self, lines: &[&[u8]]) -> Option<Range<usize>> {
        let [begin, end] = self.markers();
        let start = lines.iter().rposition(|line| line.trim_ascii() == begin.as_bytes())?;
        let length = lines.iter().skip(start).position(|line| line.trim_ascii() == end.as_bytes())?;
        Some(start..start + length + 1)
    }

    /// Returns true if the lines of a file are as they should be.
    pub(super) fn holds(&self, lines: &[&[u8]]) -> bool {
        let found = self.find(lines).and_then(|range| lines.get(range)).unwrap_or_default();
        self.wanted() == found
    }

    /// Returns the change that makes them so. A new block comes to `before`, if that is given, and else to its anchor.
    pub(super) fn plan(&self, lines: &[&[u8]], before: Option<usize>) -> Result<Plan, Invalid> {
        let (found, wanted) = (self.find(lines), self.wanted());
        if self.holds(lines) {
            return Ok(Plan::default());
        }
        let at = match (&found, before) {
            (Some(found), _) => found.start,
            (None, Some(before)) => before,
            (None, None) => self.shared().anchors.place(lines)?,
        };
        let insert = (!wanted.is_empty()).then_some((at, wanted));
        Ok(Plan { hide: found.map(Iterator::collect).unwrap_or_default(), insert })
    }
}

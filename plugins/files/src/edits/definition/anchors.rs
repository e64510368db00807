//! The position of new lines in a file.

use super::{Ensure, not_absent};
use crate::edits::ledger::{Draft, Spot};
use crate::edits::pattern::{Pattern, compile};
use holo_plugin::definitions::Invalid;

/// The values of an anchor that are not regular expressions: the beginning and the end of the file.
const BEGINNING: &str = "BOF";
const END: &str = "EOF";

/// The keys for the position of new lines.
#[derive(Clone, Copy, Default)]
pub(in crate::edits) struct Anchors<'a> {
    pub(super) after: Option<&'a str>,
    pub(super) before: Option<&'a str>,
}

impl Anchors<'_> {
    /// Returns the position for new lines: the end, if there is no matching line.
    pub(in crate::edits) fn place(&self, draft: &mut Draft) -> Result<Spot, Invalid> {
        Ok(match (self.after, self.before) {
            (Some(BEGINNING), _) | (_, Some(BEGINNING)) => draft.beginning(),
            (Some(END), _) | (_, Some(END)) | (None, None) => Spot::End,
            (Some(after), _) => {
                let after = Pattern::new("insert_after", after)?;
                draft.last_match(&after).map_or(Spot::End, |last| draft.behind(last))
            }
            (_, Some(before)) => {
                let before = Pattern::new("insert_before", before)?;
                draft.first_match(&before).map_or(Spot::End, Spot::Before)
            }
        })
    }

    /// Checks each value.
    pub(super) fn validate_values(&self) -> [Result<(), Invalid>; 2] {
        [("insert_after", self.after), ("insert_before", self.before)].map(|(key, anchor)| match anchor {
            None | Some(BEGINNING | END) => Ok(()),
            Some(anchor) => compile(key, anchor).map(drop),
        })
    }

    /// Checks combinations of keys.
    pub(super) fn validate(&self, ensure: Ensure) -> Result<(), Invalid> {
        if self.after.is_some() && self.before.is_some() {
            return Err(Invalid::new("insert_before", "cannot be given together with insert_after"));
        }
        not_absent("insert_after", self.after.is_some(), ensure)?;
        not_absent("insert_before", self.before.is_some(), ensure)
    }
}

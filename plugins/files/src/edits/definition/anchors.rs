//! The place in a file where something new comes.

use super::{Ensure, Pattern, compile, not_absent};
use crate::edits::ledger::{Draft, Spot};
use holo_plugin::definitions::Invalid;

/// The words for the beginning and the end of a file, where an anchor can be a regular expression.
const BEGINNING: &str = "BOF";
const END: &str = "EOF";

/// The keys that say where something new comes, of types of edits that have them.
#[derive(Clone, Copy, Default)]
pub(in crate::edits) struct Anchors<'a> {
    pub(super) after: Option<&'a str>,
    pub(super) before: Option<&'a str>,
}

impl Anchors<'_> {
    /// Returns the position where something new comes: the end, if there is no such anchor.
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

    /// Checks each by itself.
    pub(super) fn validate_values(&self) -> [Result<(), Invalid>; 2] {
        [("insert_after", self.after), ("insert_before", self.before)].map(|(key, anchor)| match anchor {
            None | Some(BEGINNING | END) => Ok(()),
            Some(anchor) => compile(key, anchor).map(drop),
        })
    }

    /// Checks both together.
    pub(super) fn validate(&self, ensure: Ensure) -> Result<(), Invalid> {
        if self.after.is_some() && self.before.is_some() {
            return Err(Invalid::new("insert_before", "cannot be given together with insert_after"));
        }
        not_absent("insert_after", self.after.is_some(), ensure)?;
        not_absent("insert_before", self.before.is_some(), ensure)
    }
}

//! The place in a file where something new comes.

use super::{Ensure, compile, not_absent};
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
    /// Returns the index of the line before which something new comes: the end, if there is no such anchor.
    pub(in crate::edits) fn place(&self, lines: &[&[u8]]) -> Result<usize, Invalid> {
        let found = match (self.after, self.before) {
            (Some(BEGINNING), _) | (_, Some(BEGINNING)) => Some(0),
            (Some(END), _) | (_, Some(END)) | (None, None) => None,
            (Some(after), _) => {
                let after = compile("insert_after", after)?;
                lines.iter().rposition(|line| after.is_match(line)).map(|index| index + 1)
            }
            (_, Some(before)) => {
                let before = compile("insert_before", before)?;
                lines.iter().position(|line| before.is_match(line))
            }
        };
        Ok(found.unwrap_or(lines.len()))
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

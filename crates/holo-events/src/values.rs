//! Texts that need not be UTF-8.

use crate::Outcome;
use bstr::{BStr, BString, ByteSlice};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// Bytes in JSON: a string if they are UTF-8, as nearly all are, otherwise an array of byte values, so that none are
/// lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, BStr>);

impl Text<'_> {
    /// Returns the bytes.
    #[must_use]
    pub fn as_bstr(&self) -> &BStr {
        &self.0
    }

    /// Returns the bytes as an owned string.
    #[must_use]
    pub fn into_owned(self) -> BString {
        self.0.into_owned()
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Text<'a> {
    fn from(bytes: &'a T) -> Self {
        Text(Cow::Borrowed(bytes.as_ref().as_bstr()))
    }
}

impl fmt::Display for Text<'_> {
    /// Formats the text; invalid UTF-8 is replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        holo_protocol::Text::serialize_bytes(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Text<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let holo_protocol::Text(bytes) = holo_protocol::Text::deserialize(deserializer)?;
        Ok(Text(Cow::Owned(bytes)))
    }
}

/// The number of entities by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[expect(missing_docs, reason = "each counts the outcome of its name")]
pub struct Tally {
    pub unchanged: usize,
    pub changed: usize,
    pub pending: usize,
    pub refused: usize,
    pub skipped: usize,
    pub failed: usize,
    /// The number of skipped entities whose definitions exclude this system.
    #[serde(skip)]
    pub left_out: usize,
    /// True if all entities were requested, and some are missing because their definitions are invalid.
    #[serde(skip)]
    pub flawed: bool,
}

impl Tally {
    /// Adds an entity.
    pub fn count(&mut self, outcome: Outcome) {
        *self.number(outcome) += 1;
    }

    /// Removes an entity that was added with this outcome and will be added with another one.
    pub fn uncount(&mut self, outcome: Outcome) {
        let number = self.number(outcome);
        *number = number.saturating_sub(1);
    }

    fn number(&mut self, outcome: Outcome) -> &mut usize {
        match outcome {
            Outcome::Unchanged => &mut self.unchanged,
            Outcome::Changed => &mut self.changed,
            Outcome::Pending => &mut self.pending,
            Outcome::Refused => &mut self.refused,
            Outcome::Skipped => &mut self.skipped,
            Outcome::Failed => &mut self.failed,
        }
    }

    /// Returns true if any entity failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed > 0 || self.flawed
    }

    /// Returns true if no entity failed, was refused, or was skipped.
    #[must_use]
    pub fn has_reached(&self) -> bool {
        !self.has_failed() && self.hindered() == 0
    }

    /// Returns the number of entities that did not reach their desired state.
    #[must_use]
    pub fn hindered(&self) -> usize {
        self.refused + self.skipped - self.left_out
    }
}

impl fmt::Display for Tally {
    /// Formats the numbers: `14 entities: 3 changed, 11 unchanged`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { unchanged, changed, pending, refused, skipped, failed, .. } = *self;
        let counts = [
            (changed, "changed"),
            (unchanged, "unchanged"),
            (pending, "pending"),
            (refused, "refused"),
            (skipped, "skipped"),
            (failed, "failed"),
        ];
        let all: usize = counts.iter().map(|(count, _)| count).sum();
        write!(f, "{all} {}", if all == 1 { "entity" } else { "entities" })?;
        let shown = counts.iter().filter(|(count, _)| *count > 0);
        for (index, (count, what)) in shown.enumerate() {
            write!(f, "{} {count} {what}", if index == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

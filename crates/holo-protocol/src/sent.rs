//! Values that entities send to other entities.

use crate::Text;
use bstr::{BStr, BString, ByteSlice};
use serde::{Deserialize, Serialize};

/// A value that an entity sends under a name, which must be a valid shell variable name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    /// The name.
    pub name: Text,
    /// The value, which must fit an environment variable.
    pub value: Text,
    /// True if the value must never be shown.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sensitive: bool,
}

/// A value and the entity that sent it: a line of the file named by [`VALUES`](crate::environment::VALUES).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sending {
    /// The ID of the sender.
    pub entity: Text,
    /// The value.
    pub sent: Sent,
}

/// The maximum length of a name in bytes.
pub const MAX_NAME: usize = 255;
/// The maximum length of a value in bytes.
pub const MAX_VALUE: usize = 32 << 10;
/// The maximum length of `KEY=VALUE` on a line in bytes.
pub const MAX_SENT: usize = 4000;

impl Sending {
    /// Returns the valid lines of a text.
    #[must_use]
    pub fn read_all(text: &[u8]) -> Vec<Sending> {
        text.lines().filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Returns the line, including its newline.
    #[must_use]
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(truth: &bool) -> bool {
    !truth
}

impl Sent {
    /// Returns a value that is not sensitive.
    pub fn new(name: impl Into<BString>, value: impl Into<BString>) -> Sent {
        Sent { name: Text(name.into()), value: Text(value.into()), sensitive: false }
    }

    /// Parses `KEY=VALUE`. Returns `None` if it cannot be sent.
    #[must_use]
    pub fn parse(text: &BStr) -> Option<Sent> {
        let (name, value) = text.split_once_str("=")?;
        Some(Sent::new(name, value)).filter(|sent| text.len() <= MAX_SENT && sent.can_be_sent())
    }

    /// Parses the JSON form. Returns `None` if it cannot be sent.
    #[must_use]
    pub fn parse_json(text: &[u8]) -> Option<Sent> {
        serde_json::from_slice(text).ok().filter(Sent::can_be_sent)
    }

    /// Returns true if the name is valid, and the value is neither too long nor impossible in an environment variable.
    #[must_use]
    pub fn can_be_sent(&self) -> bool {
        is_name(self.name.as_bstr()) && self.value.0.len() <= MAX_VALUE && !self.value.0.contains(&0)
    }

    /// Returns `KEY=VALUE`.
    #[must_use]
    pub fn to_pair(&self) -> BString {
        [&self.name.0[..], b"=", &self.value.0].concat().into()
    }

    /// Returns true if the value fits on a line, so that JSON is not needed.
    pub(crate) fn is_one_line(&self) -> bool {
        let length = self.name.0.len() + 1 + self.value.0.len();
        !self.sensitive && !self.value.0.contains(&b'\n') && length <= MAX_SENT
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Returns true if a name is valid for a value: letters, digits and `_`, no leading digit, at most [`MAX_NAME`] bytes.
#[must_use]
pub fn is_name(name: &BStr) -> bool {
    name.len() <= MAX_NAME
        && name.first().is_some_and(|first| !first.is_ascii_digit())
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

//! Texts that need not be UTF-8.

use bstr::{BStr, BString, ByteSlice};
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

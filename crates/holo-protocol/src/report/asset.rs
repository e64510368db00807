//! Assets that entities provide, need and own.

use bstr::{BStr, BString, ByteSlice};

/// An asset that an entity provides, needs or owns, identified by its kind and value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asset<S = BString> {
    /// A kind such as `path`, `user` or `package`. Assets of most kinds match if they are equal; a needed `path` is
    /// provided by its nearest ancestor that any entity provides.
    pub kind: S,
    /// A value such as `/etc/motd`.
    pub value: S,
}

impl Asset {
    /// Returns an asset of this kind.
    #[must_use]
    pub fn new(kind: impl Into<BString>, value: impl Into<BString>) -> Asset {
        Asset { kind: kind.into(), value: value.into() }
    }

    /// Returns the text of an asset: its kind, a blank and its value.
    #[must_use]
    pub fn to_text(&self) -> BString {
        [&self.kind[..], b" ", &self.value].concat().into()
    }

    /// Parses the text of an asset. Returns `None` if the kind or the value is missing.
    #[must_use]
    pub fn from_text(text: &[u8]) -> Option<Asset> {
        let (kind, value) = text.split_once_str(" ").filter(|(kind, value)| !kind.is_empty() && !value.is_empty())?;
        Some(Asset::new(kind, value))
    }

    /// Returns true if this asset equals the other one, or is a path below it.
    #[must_use]
    pub fn is_within(&self, other: &Asset) -> bool {
        if self.kind != other.kind || self.kind != "path" {
            return self == other;
        }
        // Fast path: most paths are already normalised.
        self.value == other.value || parts(&self.value).starts_with(&parts(&other.value))
    }
}

/// Returns the components of a path, normalised lexically.
fn parts(path: &[u8]) -> Vec<&BStr> {
    let mut parts = Vec::new();
    for part in path.split_str("/") {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part.as_bstr()),
        }
    }
    parts
}

//! Assets: what entities provide, need and own.

use bstr::{BStr, BString, ByteSlice};

/// Something that an entity provides, needs or owns: a word that says of which kind it is, and which one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asset<S = BString> {
    /// Such as `path`, `user`, `package`. Only `path` has a meaning beyond being equal: what is needed is provided by the nearest
    /// ancestor that anybody provides.
    pub kind: S,
    /// Such as `/etc/motd`.
    pub value: S,
}

impl Asset {
    /// Returns an asset of a kind.
    #[must_use]
    pub fn new(kind: impl Into<BString>, value: impl Into<BString>) -> Asset {
        Asset { kind: kind.into(), value: value.into() }
    }

    /// Returns the text of an asset: its kind, a blank and its value.
    #[must_use]
    pub fn to_text(&self) -> BString {
        [&self.kind[..], b" ", &self.value].concat().into()
    }

    /// Returns the asset of a text; none if there is no kind, or no value.
    #[must_use]
    pub fn from_text(text: &[u8]) -> Option<Asset> {
        let (kind, value) = text.split_once_str(" ").filter(|(kind, value)| !kind.is_empty() && !value.is_empty())?;
        Some(Asset::new(kind, value))
    }

    /// Returns true if it is the other one, or a path below that.
    #[must_use]
    pub fn is_within(&self, other: &Asset) -> bool {
        if self.kind != other.kind || self.kind != "path" {
            return self == other;
        }
        // Most paths are written in the same way.
        self.value == other.value || parts(&self.value).starts_with(&parts(&other.value))
    }
}

/// Returns the names that a path is made of, normalised lexically.
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

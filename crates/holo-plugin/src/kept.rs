//! The values of an earlier state that is being restored.

use bstr::{BStr, BString, ByteSlice};
use holo_protocol::environment::{KeptAt, parse_kept};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The values that entities have kept with [`Output::keep`](crate::Output::keep).
#[derive(Clone, Debug, Default)]
pub struct Kept(HashMap<(KeptAt, BString), BString>);

impl Kept {
    /// Reads the file of a run; empty if it cannot be read.
    pub(crate) fn read(path: &Path) -> Kept {
        let mut kept = HashMap::new();
        for line in fs::read(path).unwrap_or_default().lines() {
            if let Some((at, id, value)) = parse_kept(line)
                && let Some((key, value)) = value.split_once_str("=")
            {
                kept.insert((at, name(id.as_bstr(), key)), value.into());
            }
        }
        Kept(kept)
    }

    /// Returns true if no earlier state is being restored, or it has no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value that an entity had in the state that is being restored.
    #[must_use]
    pub fn then(&self, id: &str, key: &str) -> Option<String> {
        self.get(KeptAt::Then, id, key)
    }

    /// Returns the most recent value of an entity.
    #[must_use]
    pub fn last(&self, id: &str, key: &str) -> Option<String> {
        self.get(KeptAt::Last, id, key)
    }

    fn get(&self, at: KeptAt, id: &str, key: &str) -> Option<String> {
        self.0.get(&(at, name(id.into(), key.as_bytes()))).map(|value| value.to_str_lossy().into_owned())
    }
}

/// Returns the ID of an entity and the key of a value as one string. IDs contain no tabs.
fn name(id: &BStr, key: &[u8]) -> BString {
    [id.as_bytes(), b"\t", key].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_then_or_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        let text = "then\tpackage:a\tversion=1=2\nlast\tpackage:a\tversion=3\nnot a line\nonce\tpackage:a\tx=1\n";
        fs::write(&path, text).unwrap();
        let kept = Kept::read(&path);
        assert_eq!(kept.then("package:a", "version").as_deref(), Some("1=2"));
        assert_eq!(kept.last("package:a", "version").as_deref(), Some("3"));
        assert_eq!((kept.then("package:b", "version"), kept.then("package:a", "x")), (None, None));
        assert!(Kept::read(&folder.path().join("none")).is_empty());
    }
}

//! The record of scripts that have run successfully, with their contents. A script with subscriptions also runs if it
//! is new or changed.

use crate::comments;
use bstr::ByteSlice;
use holo_change::error::{PathError, Result};
use holo_change::tracked::Digest;
use holo_change::{OnDisk, PathHandle, Tree};
use holo_plugin::Host;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The file in the state directory. Each line contains the SHA-256 of a script, a space, and its name.
const FILE: &str = ".succeeded";

/// Returns the digest of a script's current content.
pub(crate) fn checksum(script: &Path) -> Result<Digest> {
    let mut file = comments::open(script).map_err(|error| PathError::new("open", script, error))?;
    Digest::of(&mut file).map_err(|error| PathError::new("read", script, error))
}

/// The record of successful runs.
pub(crate) struct Record {
    place: PathHandle,
    known: BTreeMap<OsString, Digest>,
}

impl Record {
    /// Reads the record of earlier applies. Invalid lines are ignored.
    pub(crate) fn open(host: &Host) -> Result<Record> {
        let place = Tree::open(host.state_dir())?.place(Path::new(FILE));
        let mut text = Vec::new();
        if let Some(mut file) = place.open_if_file()? {
            file.read_to_end(&mut text).map_err(|error| PathError::new("read", place.shown(), error))?;
        }
        Ok(Record { place, known: text.split_str("\n").filter_map(parse).collect() })
    }

    /// Returns true if the script has run successfully with this content.
    pub(crate) fn knows(&self, name: &OsStr, content: &Digest) -> bool {
        self.known.get(name) == Some(content)
    }

    /// Records that the script has run successfully with this content, and removes scripts that no longer exist.
    pub(crate) fn learn(mut self, name: &OsStr, content: Digest, host: &Host) -> Result<()> {
        self.known.insert(name.to_owned(), content);
        let resources = host.resources();
        let is_there = |name: &Path| resources.iter().any(|directory| directory.join(name).symlink_metadata().is_ok());
        self.known.retain(|name, _| is_there(Path::new(name)));
        let lines =
            self.known.iter().map(|(name, digest)| [digest.as_str().as_bytes(), b" ", name.as_bytes(), b"\n"].concat());
        let text = lines.collect::<Vec<_>>().concat();
        // A lost record only causes scripts to run again, so it need not be durable, but it must never be truncated.
        self.place.replace(&text, 0o600, OnDisk::Whole)
    }
}

fn parse(line: &[u8]) -> Option<(OsString, Digest)> {
    let (digest, name) = line.split_once_str(" ")?;
    let digest = String::from_utf8(digest.to_vec()).ok()?;
    Some((OsStr::from_bytes(name).to_owned(), Digest::try_from(digest).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_damaged_say_nothing() {
        let sum = "ab".repeat(32);
        let (name, parsed) = parse(format!("{sum} a b").as_bytes()).unwrap();
        assert_eq!((name, parsed.as_str()), ("a b".into(), &*sum));
        for line in ["", " a", "ab a", &sum, &format!("{}x a", &sum[1..])] {
            assert!(parse(line.as_bytes()).is_none(), "{line}");
        }
    }
}

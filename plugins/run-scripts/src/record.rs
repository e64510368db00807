//! The scripts that have run successfully, with their content: a script that waits for something is otherwise run to begin with.

use crate::comments;
use bstr::ByteSlice;
use holo_change::error::{PathError, Result};
use holo_change::{OnDisk, PathHandle, Tree};
use holo_plugin::Host;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// In the state directory: a line a script, with the SHA-256 sum of its content, a blank and its name.
const FILE: &str = ".succeeded";
const SUM_LENGTH: usize = 64;

/// The checksum of a script's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sum(String);

impl Sum {
    /// The sum of the script as it is.
    pub(crate) fn from_file(script: &Path) -> Result<Sum> {
        let failed = |operation| move |error| PathError::new(operation, script, error);
        let mut file = comments::open(script).map_err(failed("open"))?;
        let mut sum = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer).map_err(failed("read"))? {
                0 => break,
                length => sum.update(&buffer[..length]),
            }
        }
        let hexadecimal = sum.finalize().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        Ok(Sum(hexadecimal))
    }
}

/// The record of successful runs.
pub(crate) struct Record {
    place: PathHandle,
    known: BTreeMap<OsString, Sum>,
}

impl Record {
    /// Reads what earlier applies have remembered. Whatever is unreadable was never said.
    pub(crate) fn open(host: &Host) -> Result<Record> {
        let place = Tree::open(host.state_dir())?.place(Path::new(FILE));
        let mut text = Vec::new();
        if let Some(mut file) = place.open_if_file()? {
            file.read_to_end(&mut text).map_err(|error| PathError::new("read", place.shown(), error))?;
        }
        Ok(Record { place, known: text.split_str("\n").filter_map(parse).collect() })
    }

    /// Returns true if the script has run successfully with this content.
    pub(crate) fn knows(&self, name: &OsStr, content: &Sum) -> bool {
        self.known.get(name) == Some(content)
    }

    /// Remembers that the script has run successfully with this content, and forgets the scripts that are gone.
    pub(crate) fn learn(mut self, name: &OsStr, content: Sum, host: &Host) -> Result<()> {
        self.known.insert(name.to_owned(), content);
        let resources = host.resources();
        let is_there = |name: &Path| resources.iter().any(|directory| directory.join(name).symlink_metadata().is_ok());
        self.known.retain(|name, _| is_there(Path::new(name)));
        let lines = self.known.iter().map(|(name, Sum(sum))| [sum.as_bytes(), b" ", name.as_bytes(), b"\n"].concat());
        let text = lines.collect::<Vec<_>>().concat();
        // A lost record only makes scripts run once more, so it need not be on disk, but it must never be half of it.
        self.place.replace(&text, 0o600, OnDisk::Whole)
    }
}

fn parse(line: &[u8]) -> Option<(OsString, Sum)> {
    let (sum, name) = line.split_once_str(" ")?;
    let is_sum = sum.len() == SUM_LENGTH && sum.iter().all(u8::is_ascii_hexdigit);
    let sum = String::from_utf8(sum.to_vec()).ok()?;
    is_sum.then(|| (OsStr::from_bytes(name).to_owned(), Sum(sum)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_damaged_say_nothing() {
        let sum = "ab".repeat(32);
        let (name, parsed) = parse(format!("{sum} a b").as_bytes()).unwrap();
        assert_eq!((name, parsed), ("a b".into(), Sum(sum.clone())));
        for line in ["", " a", "ab a", &sum, &format!("{}x a", &sum[1..])] {
            assert!(parse(line.as_bytes()).is_none(), "{line}");
        }
    }
}

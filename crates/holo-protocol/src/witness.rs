//! Witnesses: files whose stamps prove that an answer of a plugin still holds, and the claims of other entities.

use bstr::{BStr, BString, ByteSlice};
use serde::{Deserialize, Serialize};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A file or directory on which an answer rests: as long as it does not change, neither does the answer. The directories
/// that lead to it count too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Witness {
    /// What of it counts.
    pub kind: WitnessKind,
    /// Its absolute path, which includes the root directory. Symlinks at its end are not followed.
    pub path: BString,
}

/// What of a file or directory counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WitnessKind {
    /// Its stamp (`file PATH`), or that it does not exist. The stamp consists of device, inode, type, mode, owner, size
    /// and times; for a directory, it also stands for the names in it.
    File,
    /// Only whether it exists (`absent PATH`). The answer requires that it does not.
    Absent,
    /// What other entities claim at, above or below the path (`claims PATH`).
    Claims,
}

impl WitnessKind {
    const ALL: [WitnessKind; 3] = [WitnessKind::File, WitnessKind::Absent, WitnessKind::Claims];

    fn word(self) -> &'static str {
        match self {
            WitnessKind::File => "file",
            WitnessKind::Absent => "absent",
            WitnessKind::Claims => "claims",
        }
    }
}

impl Witness {
    /// Returns a witness.
    #[must_use]
    pub fn new(kind: WitnessKind, path: impl Into<BString>) -> Witness {
        Witness { kind, path: path.into() }
    }

    /// Returns the witness of the stamp of a file.
    #[must_use]
    pub fn file(path: &Path) -> Witness {
        Witness::new(WitnessKind::File, path.as_os_str().as_bytes())
    }

    /// Returns the witness that a path does not exist.
    #[must_use]
    pub fn absent(path: &Path) -> Witness {
        Witness::new(WitnessKind::Absent, path.as_os_str().as_bytes())
    }

    /// Returns the witness of what other entities claim at, above or below a path.
    #[must_use]
    pub fn claims(path: &Path) -> Witness {
        Witness::new(WitnessKind::Claims, path.as_os_str().as_bytes())
    }

    /// Parses `KIND PATH`.
    #[must_use]
    pub fn parse(text: &BStr) -> Option<Witness> {
        let (word, path) = text.split_once_str(" ")?;
        let kind = WitnessKind::ALL.into_iter().find(|kind| kind.word().as_bytes() == word)?;
        path.starts_with(b"/").then(|| Witness::new(kind, path))
    }

    /// Returns `KIND PATH`; `None` for a path that a message cannot express: one that is relative or contains a newline.
    #[must_use]
    pub fn to_text(&self) -> Option<BString> {
        let text = || [self.kind.word().as_bytes(), b" ", &self.path].concat().into();
        (self.path.starts_with(b"/") && !self.path.contains(&b'\n')).then(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for kind in WitnessKind::ALL {
            for path in [&b"/"[..], b"/etc/a b", b"/\xff"] {
                let witness = Witness::new(kind, path);
                assert_eq!(Witness::parse(witness.to_text().unwrap().as_ref()), Some(witness));
            }
        }
        for text in ["", "file", "file etc", "other /etc", "file\t/etc"] {
            assert_eq!(Witness::parse(text.into()), None, "{text}");
        }
        for path in ["/a\nb", "a"] {
            assert_eq!(Witness::new(WitnessKind::File, path).to_text(), None);
        }
    }
}

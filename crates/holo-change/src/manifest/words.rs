//! The fields of manifest entries, in the format of mtree(5).

use super::entry::{EntryKind, ManifestEntry, Ownership};
use std::fmt::Write as _;

impl ManifestEntry {
    /// Appends the fields of the entry. Writing to a string cannot fail.
    pub(super) fn write_words(&self, text: &mut String) {
        let _ = match &self.kind {
            EntryKind::Directory { mode } => write!(text, "type=dir mode={mode:04o}"),
            EntryKind::File { mode, size, sha256 } => {
                write!(text, "type=file mode={mode:04o} size={size} sha256digest={sha256}")
            }
            EntryKind::Symlink { target } => write!(text, "type=link link={}", encode(target)),
        };
        for (key, id) in [("uid", self.owner.uid), ("gid", self.owner.gid)] {
            if let Some(id) = id {
                let _ = write!(text, " {key}={id}");
            }
        }
    }

    pub(super) fn parse_words(text: &str) -> Option<ManifestEntry> {
        let (mut kind, mut mode, mut size, mut sha256, mut link) = (None, None, None, None, None);
        let mut owner = Ownership::default();
        for word in text.split(' ') {
            let (key, value) = word.split_once('=')?;
            match key {
                "type" => kind = Some(value),
                "mode" => mode = Some(u32::from_str_radix(value, 8).ok()?),
                "size" => size = Some(value.parse().ok()?),
                "sha256digest" => sha256 = Some(value.to_owned()),
                "link" => link = Some(decode(value)?),
                "uid" => owner.uid = Some(value.parse().ok()?),
                "gid" => owner.gid = Some(value.parse().ok()?),
                _ => {}
            }
        }
        let kind = match kind? {
            "dir" => EntryKind::Directory { mode: mode? },
            "file" => EntryKind::File { mode: mode?, size: size?, sha256: sha256? },
            "link" => EntryKind::Symlink { target: link? },
            _ => return None,
        };
        Some(ManifestEntry { kind, owner })
    }
}

/// Encodes bytes as a word of mtree: special characters become a backslash and three octal digits.
pub(super) fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, &byte| {
        if byte.is_ascii_graphic() && !b"\\#=*?[".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "\\{byte:03o}");
        }
        text
    })
}

pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' {
            let digits = [bytes.next()?, bytes.next()?, bytes.next()?];
            decoded.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    Some(decoded)
}

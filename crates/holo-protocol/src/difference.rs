//! The two files that show how an entity differs from what it was, and what they are called.

use crate::session::Answer;
use crate::{API_VERSION_4, Text};
use bstr::{BStr, BString, ByteSlice};
use std::ffi::OsString;
use std::fmt::Display;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Two files: the entity as it was last applied, and as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePair {
    /// The entity as it was last applied.
    pub from: PathBuf,
    /// The entity as it is.
    pub to: PathBuf,
    /// The name to show instead of the first path.
    pub from_label: Option<Label>,
    /// The name to show instead of the second path.
    pub to_label: Option<Label>,
}

impl FilePair {
    /// Returns a pair of files that are shown under their paths.
    #[must_use]
    pub fn new(from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> FilePair {
        FilePair { from: from.into(), to: to.into(), from_label: None, to_label: None }
    }

    /// Labels the first file `ID (applied)`: it is a copy in the cache directory, whose path is another one in each run.
    #[must_use]
    pub fn with_applied_label(self, id: impl Display) -> FilePair {
        FilePair { from_label: Label::new(format!("{id} (applied)").as_bytes()), ..self }
    }

    /// Labels the first file.
    #[must_use]
    pub fn with_from_label(self, label: &[u8]) -> FilePair {
        FilePair { from_label: Label::new(label), ..self }
    }

    /// Labels the second file.
    #[must_use]
    pub fn with_to_label(self, label: &[u8]) -> FilePair {
        FilePair { to_label: Label::new(label), ..self }
    }

    /// Parses what a plugin writes to file descriptor 3 during `diff`. There is no pair if that is less than two paths.
    ///
    /// Version 4 has two labels after them, of which each may be empty. Anything that follows is ignored.
    #[must_use]
    pub fn parse(said: &[u8], version: u32) -> Option<FilePair> {
        let mut parts = said.split_inclusive(|&byte| byte == 0).filter_map(|part| part.strip_suffix(b"\0"));
        let mut path = || parts.next().map(|path| PathBuf::from(OsString::from_vec(path.to_vec())));
        let pair = FilePair::new(path()?, path()?);
        match (parts.next(), parts.next()) {
            (Some(from), Some(to)) if version >= API_VERSION_4 => {
                Some(FilePair { from_label: Label::new(from), to_label: Label::new(to), ..pair })
            }
            _ => Some(pair),
        }
    }

    /// Returns how many bytes more than those that were said may still matter.
    #[must_use]
    pub fn room(said: &[u8], version: u32) -> usize {
        let mut ends = said.find_iter(b"\0");
        let Some(end_of_paths) = ends.nth(1) else { return usize::MAX };
        if version < API_VERSION_4 || ends.nth(1).is_some() {
            return 0;
        }
        (2 * (Label::MAX_BYTES + 1)).saturating_sub(said.len() - end_of_paths - 1)
    }

    /// Returns the bytes that [`FilePair::parse`] understands. Version 3 has no labels.
    #[must_use]
    pub fn to_bytes(&self, version: u32) -> Vec<u8> {
        let paths = [&self.from, &self.to].map(|path| path.as_os_str().as_bytes());
        let labels = [&self.from_label, &self.to_label];
        let mut parts = paths.to_vec();
        if version >= API_VERSION_4 && labels.iter().any(|label| label.is_some()) {
            parts.extend(labels.map(|label| label.as_ref().map_or(&b""[..], |label| label.as_bstr())));
        }
        parts.into_iter().flat_map(|part| [part, b"\0"]).collect::<Vec<_>>().concat()
    }

    /// Returns the pair that an answer [`Answer::Diff`] names, and none for any other answer.
    #[must_use]
    pub fn from_answer(answer: &Answer) -> Option<FilePair> {
        let Answer::Diff { from, to, from_label, to_label, .. } = answer else { return None };
        let path = |text: &Text| PathBuf::from(OsString::from_vec(text.0.to_vec()));
        let label = |text: &Option<Text>| text.as_ref().and_then(|text| Label::new(text.as_bstr()));
        Some(FilePair { from: path(from), to: path(to), from_label: label(from_label), to_label: label(to_label) })
    }

    /// Returns the answer that names the pair.
    #[must_use]
    pub fn to_answer(&self, request: u64, entity: &BStr) -> Answer {
        let path = |path: &PathBuf| Text::from(path.as_os_str().as_bytes());
        let label = |label: &Option<Label>| label.as_ref().map(|label| Text(label.0.clone()));
        let (from_label, to_label) = (label(&self.from_label), label(&self.to_label));
        Answer::Diff {
            request,
            entity: entity.into(),
            from: path(&self.from),
            to: path(&self.to),
            from_label,
            to_label,
        }
    }
}

/// The name under which a difference shows a file whose path says nothing to its reader.
///
/// It is not empty, has no control characters, and is at most [`Label::MAX_BYTES`] long. It need not be UTF-8, as entity IDs need not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(BString);

impl Label {
    /// The longest label, in bytes. An entity's ID may be a path, so this is more than a path has.
    pub const MAX_BYTES: usize = 8192;

    /// Makes a label of anything, so that it cannot be taken for other lines of a difference and does nothing to a terminal: control
    /// characters become U+FFFD, and what is too long is cut off. There is none if nothing was said.
    #[must_use]
    pub fn new(said: &[u8]) -> Option<Label> {
        let mut label = BString::default();
        for (start, end, letter) in said.char_indices() {
            let written = said.get(start..end).filter(|_| !letter.is_control());
            let piece = written.unwrap_or("\u{fffd}".as_bytes());
            if label.len() + piece.len() > Label::MAX_BYTES {
                break;
            }
            label.extend_from_slice(piece);
        }
        (!label.is_empty()).then_some(Label(label))
    }

    /// Returns true if what a plugin says is shown as it is.
    #[must_use]
    pub fn is_sound(said: &[u8]) -> bool {
        Label::new(said).map_or(said.is_empty(), |label| label.as_bstr() == said)
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bstr(&self) -> &BStr {
        self.0.as_bstr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::API_VERSION_3;

    fn pair(from: &str, to: &str) -> Option<FilePair> {
        Some(FilePair::new(from, to))
    }

    #[test]
    fn a_pair_is_two_paths_that_are_ended() {
        for version in [API_VERSION_3, API_VERSION_4] {
            assert_eq!(FilePair::parse(b"a\0b\0", version), pair("a", "b"));
            assert_eq!(FilePair::parse(b"a\0b\0c\0", version), pair("a", "b"));
            assert_eq!(FilePair::parse(b"a\nb\0\0", version), pair("a\nb", ""));
            for fewer in [&b""[..], b"a", b"a\0", b"a\0b", b"a\nb\n"] {
                assert_eq!(FilePair::parse(fewer, version), None);
            }
        }
    }

    #[test]
    fn labels_follow_in_version_4_alone() {
        let labelled = FilePair::new("a", "b").with_applied_label("x:y").with_to_label(b"z");
        assert_eq!(labelled.to_bytes(API_VERSION_3), b"a\0b\0");
        assert_eq!(labelled.to_bytes(API_VERSION_4), b"a\0b\0x:y (applied)\0z\0");
        assert_eq!(FilePair::new("a", "b").to_bytes(API_VERSION_4), b"a\0b\0");
        let half = FilePair::new("a", "b").with_to_label(b"z");
        assert_eq!(half.to_bytes(API_VERSION_4), b"a\0b\0\0z\0");
        for pair in [labelled, half] {
            assert_eq!(FilePair::parse(&pair.to_bytes(API_VERSION_4), API_VERSION_4), Some(pair.clone()));
            assert_eq!(FilePair::parse(&pair.to_bytes(API_VERSION_4), API_VERSION_3), Some(FilePair::new("a", "b")));
            assert_eq!(FilePair::from_answer(&pair.to_answer(1, "x:y".into())), Some(pair));
        }
        // One that is not ended is none.
        assert_eq!(FilePair::parse(b"a\0b\0c\0d", API_VERSION_4), pair("a", "b"));
    }

    #[test]
    fn no_more_is_read_than_counts() {
        let room = |said: &[u8], version| FilePair::room(said, version);
        assert_eq!(room(b"a\0b", API_VERSION_3), usize::MAX);
        assert_eq!(room(b"a\0b\0", API_VERSION_3), 0);
        assert_eq!(room(b"a\0b\0", API_VERSION_4), 2 * (Label::MAX_BYTES + 1));
        assert_eq!(room(b"a\0b\0c\0d", API_VERSION_4), 2 * (Label::MAX_BYTES + 1) - 3);
        assert_eq!(room(b"a\0b\0c\0d\0", API_VERSION_4), 0);
        assert_eq!(room(&[b"a\0b\0", &[b'x'; 1 << 20][..]].concat(), API_VERSION_4), 0);
    }

    #[test]
    fn labels_do_no_harm() {
        let label = |said: &[u8]| Label::new(said).map(|label| label.0);
        assert_eq!(label(b""), None);
        for (said, shown) in [
            (&b"file:/etc/caf\xe9 (applied)"[..], &b"file:/etc/caf\xe9 (applied)"[..]),
            (b"a\n+b\r\x1b[2J", "a\u{fffd}+b\u{fffd}\u{fffd}[2J".as_bytes()),
            ("a\u{9b}b\0".as_bytes(), "a\u{fffd}b\u{fffd}".as_bytes()),
        ] {
            assert_eq!(label(said).unwrap(), shown);
            assert_eq!(Label::is_sound(said), said == shown);
        }
        let long = "\u{e9}".repeat(Label::MAX_BYTES);
        assert_eq!(label(long.as_bytes()).unwrap().len(), Label::MAX_BYTES);
        assert!(Label::is_sound(b"") && !Label::is_sound(long.as_bytes()));
    }
}

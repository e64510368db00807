//! The two files that show the difference between an entity and its last applied state, their labels, and whether they show
//! modes.

use crate::session::Answer;
use crate::{API_VERSION_4, Text};
use bstr::{BStr, BString, ByteSlice};
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Two files to compare: the entity as last applied, and as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePair {
    /// The entity as last applied.
    pub from: PathBuf,
    /// The entity as it is now.
    pub to: PathBuf,
    /// The label shown instead of the first path.
    pub from_label: Option<Label>,
    /// The label shown instead of the second path.
    pub to_label: Option<Label>,
    /// Whether both files have the modes to show. Otherwise, only the execute permission of their owners is shown.
    pub has_modes: bool,
}

/// The text after the labels that says that both files have the modes to show.
const MODES: &[u8] = b"modes";
/// The path of a file that does not exist.
const NO_FILE: &[u8] = b"/dev/null";

impl FilePair {
    /// Returns a pair of files without labels; their paths are shown.
    #[must_use]
    pub fn new(from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> FilePair {
        FilePair { from: from.into(), to: to.into(), from_label: None, to_label: None, has_modes: false }
    }

    /// Labels the first file `ID (applied)`: its own path is a copy in the cache directory, which differs in each run.
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

    /// States that both files have the modes to show.
    #[must_use]
    pub fn with_modes(self) -> FilePair {
        FilePair { has_modes: true, ..self }
    }

    /// Parses the text that a plugin writes to file descriptor 3 during `diff`. Returns `None` if it has fewer than two
    /// paths.
    ///
    /// As in version 3, the NUL byte after the second path may be missing, and an empty path is `/dev/null`. In version 4,
    /// two labels follow, each of which may be empty, and the word `modes` if both files have the modes to show. The rest
    /// is ignored.
    #[must_use]
    pub fn parse(said: &[u8], version: u32) -> Option<FilePair> {
        let mut parts = said.splitn(3, |&byte| byte == 0);
        let mut path = || parts.next().map(|path| if path.is_empty() { NO_FILE } else { path });
        let (from, to) = (path()?, path()?);
        let pair = FilePair::new(OsStr::from_bytes(from), OsStr::from_bytes(to));
        let labels = parts.next().unwrap_or_default();
        let mut parts = labels.split_inclusive(|&byte| byte == 0).filter_map(|part| part.strip_suffix(b"\0"));
        match (parts.next(), parts.next()) {
            (Some(from), Some(to)) if version >= API_VERSION_4 => {
                let has_modes = parts.next() == Some(MODES);
                Some(FilePair { from_label: Label::new(from), to_label: Label::new(to), has_modes, ..pair })
            }
            _ => Some(pair),
        }
    }

    /// Returns the maximum number of further bytes that can be relevant after these.
    #[must_use]
    pub fn room(said: &[u8], version: u32) -> usize {
        let mut ends = said.find_iter(b"\0");
        let Some(end_of_paths) = ends.nth(1) else { return usize::MAX };
        if version < API_VERSION_4 || ends.nth(2).is_some() {
            return 0;
        }
        (2 * (Label::MAX_BYTES + 1) + MODES.len() + 1).saturating_sub(said.len() - end_of_paths - 1)
    }

    /// Returns the bytes for [`FilePair::parse`]. Version 3 has neither labels nor modes.
    #[must_use]
    pub fn to_bytes(&self, version: u32) -> Vec<u8> {
        let paths = [&self.from, &self.to].map(|path| path.as_os_str().as_bytes());
        let labels = [&self.from_label, &self.to_label];
        let mut parts = paths.to_vec();
        if version >= API_VERSION_4 && (self.has_modes || labels.iter().any(|label| label.is_some())) {
            parts.extend(labels.map(|label| label.as_ref().map_or(&b""[..], |label| label.as_bstr())));
            parts.extend(self.has_modes.then_some(MODES));
        }
        parts.into_iter().flat_map(|part| [part, b"\0"]).collect::<Vec<_>>().concat()
    }

    /// Returns the pair of an [`Answer::Diff`], or `None` for any other answer.
    #[must_use]
    pub fn from_answer(answer: &Answer) -> Option<FilePair> {
        let Answer::Diff { from, to, from_label, to_label, modes, .. } = answer else { return None };
        let path = |text: &Text| PathBuf::from(OsString::from_vec(text.0.to_vec()));
        let label = |text: &Option<Text>| text.as_ref().and_then(|text| Label::new(text.as_bstr()));
        let (from_label, to_label) = (label(from_label), label(to_label));
        Some(FilePair { from: path(from), to: path(to), from_label, to_label, has_modes: *modes })
    }

    /// Returns the [`Answer::Diff`] with this pair.
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
            modes: self.has_modes,
        }
    }
}

/// The name under which a diff shows a file whose path means little to users.
///
/// It is not empty, contains no control characters, and has at most [`Label::MAX_BYTES`] bytes. Like entity IDs, it
/// need not be UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(BString);

impl Label {
    /// The maximum length of a label in bytes. This exceeds the maximum length of a path, as an entity's ID may contain
    /// one.
    pub const MAX_BYTES: usize = 8192;

    /// Returns a label that can neither be mistaken for other lines of a diff nor control a terminal: control
    /// characters become U+FFFD, and text beyond [`Label::MAX_BYTES`] is cut off. Returns `None` if the text is empty.
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

    /// Returns true if the text is shown unchanged as a label.
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
    fn a_pair_is_two_paths() {
        for version in [API_VERSION_3, API_VERSION_4] {
            for said in [&b"a\0b\0"[..], b"a\0b", b"a\0b\0c\0", b"a\0b\0c"] {
                assert_eq!(FilePair::parse(said, version), pair("a", "b"));
            }
            for said in [&b"a\nb\0\0"[..], b"a\nb\0", b"a\nb\0/dev/null\0"] {
                assert_eq!(FilePair::parse(said, version), pair("a\nb", "/dev/null"));
            }
            assert_eq!(FilePair::parse(b"\0b\0", version), pair("/dev/null", "b"));
            for fewer in [&b""[..], b"a", b"a\nb\n"] {
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
        let with_modes = FilePair::new("a", "b").with_modes();
        assert_eq!(with_modes.to_bytes(API_VERSION_4), b"a\0b\0\0\0modes\0");
        assert_eq!(FilePair::parse(b"a\0b\0c\0d\0others\0", API_VERSION_4).map(|pair| pair.has_modes), Some(false));
        for pair in [labelled.clone().with_modes(), labelled, half, with_modes] {
            assert_eq!(FilePair::parse(&pair.to_bytes(API_VERSION_4), API_VERSION_4), Some(pair.clone()));
            assert_eq!(FilePair::parse(&pair.to_bytes(API_VERSION_4), API_VERSION_3), Some(FilePair::new("a", "b")));
            assert_eq!(FilePair::from_answer(&pair.to_answer(1, "x:y".into())), Some(pair));
        }
        // An incomplete label is ignored.
        assert_eq!(FilePair::parse(b"a\0b\0c\0d", API_VERSION_4), pair("a", "b"));
    }

    #[test]
    fn no_more_is_read_than_counts() {
        let room = |said: &[u8], version| FilePair::room(said, version);
        assert_eq!(room(b"a\0b", API_VERSION_3), usize::MAX);
        assert_eq!(room(b"a\0b\0", API_VERSION_3), 0);
        assert_eq!(room(b"a\0b\0", API_VERSION_4), 2 * (Label::MAX_BYTES + 1) + 6);
        assert_eq!(room(b"a\0b\0c\0d", API_VERSION_4), 2 * (Label::MAX_BYTES + 1) + 6 - 3);
        assert_eq!(room(b"a\0b\0c\0d\0", API_VERSION_4), 2 * (Label::MAX_BYTES + 1) + 6 - 4);
        assert_eq!(room(b"a\0b\0c\0d\0modes\0", API_VERSION_4), 0);
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

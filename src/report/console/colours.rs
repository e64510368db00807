//! Colours lines by their prefixes.

use bstr::{BStr, BString, ByteSlice};

pub(in crate::report) const BOLD: &str = "\x1b[1m";
pub(super) const ERROR: &str = "\x1b[1;31m";
pub(super) const WARNING: &str = "\x1b[1;33m";
pub(super) const OK: &str = "\x1b[32m";
const HUNK: &str = "\x1b[36m";
const REMOVED: &str = "\x1b[31m";
const ADDED: &str = "\x1b[32m";
const RESET: &str = "\x1b[0m";

/// The prefixes and colours of lines on a plugin's stderr.
const MARKS: [(&[u8], &str); 2] = [(b"!! ", ERROR), (b">> ", WARNING)];
/// The prefixes and colours of lines of a diff; the first match applies.
const DIFF_MARKS: [(&[u8], &str); 8] = [
    (b"diff ", BOLD),
    (b"new ", BOLD),
    (b"deleted ", BOLD),
    (b"--- ", BOLD),
    (b"+++ ", BOLD),
    (b"@@ ", HUNK),
    (b"-", REMOVED),
    (b"+", ADDED),
];

/// Returns the text in a colour.
pub(super) fn coloured(colour: &str, text: &BStr) -> BString {
    [colour.as_bytes(), text, RESET.as_bytes()].concat().into()
}

/// Returns a line of a diff in its colour.
pub(super) fn diff_line(line: &[u8]) -> BString {
    let (text, newline) = line.strip_suffix(b"\n").map_or((line, &b""[..]), |text| (text, b"\n"));
    match DIFF_MARKS.iter().find(|(mark, _)| text.starts_with(mark)) {
        Some((_, colour)) => [&coloured(colour, text.as_bstr())[..], newline].concat().into(),
        None => line.into(),
    }
}

/// The beginning of a line on stderr: its first three bytes determine its colour.
#[derive(Default)]
pub(super) struct LineStart {
    held: Vec<u8>,
    inside: bool,
    coloured: bool,
}

impl LineStart {
    /// Colours the lines that begin with a mark. An unfinished beginning that may become a mark is held back.
    pub(super) fn colour(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut coloured = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            if byte == b'\n' {
                coloured.append(&mut self.finish());
                coloured.push(b'\n');
            } else if self.inside {
                coloured.push(byte);
            } else {
                self.held.push(byte);
                self.decide(&mut coloured);
            }
        }
        coloured
    }

    fn decide(&mut self, coloured: &mut Vec<u8>) {
        let colour = MARKS.iter().find(|(mark, _)| *mark == self.held).map(|(_, colour)| colour);
        if let Some(colour) = colour {
            coloured.extend_from_slice(colour.as_bytes());
            self.coloured = true;
        } else if MARKS.iter().any(|(mark, _)| mark.starts_with(&self.held)) {
            return;
        }
        self.inside = true;
        coloured.append(&mut self.held);
    }

    /// Ends the line. Returns the bytes that were held back, and the end of the colour.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let line = std::mem::take(self);
        let mut rest = line.held;
        if line.coloured {
            rest.extend_from_slice(RESET.as_bytes());
        }
        rest
    }
}

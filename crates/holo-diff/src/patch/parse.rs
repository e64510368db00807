//! Parses patches.

use super::{Hunk, Kind, Line};
use bstr::{BString, ByteSlice};

/// A text that is not a patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct PatchError {
    /// The line number, counted from 1.
    pub line: usize,
    /// The error.
    pub reason: &'static str,
}

/// Parses all hunks.
pub(super) fn hunks(text: &[u8]) -> Result<Vec<Hunk>, PatchError> {
    let lines: Vec<&[u8]> = text.lines_with_terminator().collect();
    let mut hunks = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let error = |reason| PatchError { line: at + 1, reason };
        if line.starts_with(b"@@ ") {
            let header =
                Header::parse(line).ok_or(error("the header of a hunk should be \"@@ -LINE,COUNT +LINE,COUNT @@\""))?;
            let end = hunk(&lines, at, &header, &mut hunks)?;
            at = end;
        } else if line.starts_with(b"--- ") && !hunks.is_empty() {
            return Err(error("a second file begins here, and only one can be changed"));
        } else {
            at += 1;
        }
    }
    if hunks.is_empty() && !text.trim().is_empty() {
        return Err(PatchError { line: 1, reason: "there is no hunk, which would begin with \"@@ \"" });
    }
    Ok(hunks)
}

/// The header of a hunk.
struct Header {
    start: usize,
    old: usize,
    new: usize,
}

impl Header {
    fn parse(line: &[u8]) -> Option<Header> {
        let (ranges, _) = line.strip_prefix(b"@@ ")?.split_once_str(" @@")?;
        let (old, new) = ranges.split_once_str(" ")?;
        let (start, old) = range(old.strip_prefix(b"-")?)?;
        let (_, new) = range(new.strip_prefix(b"+")?)?;
        (old == 0 || start > 0).then_some(Header { start, old, new })
    }
}

/// Parses the first line number and the number of lines.
fn range(text: &[u8]) -> Option<(usize, usize)> {
    let number = |digits: &[u8]| digits.to_str().ok()?.parse::<u32>().ok().map(|number| number as usize);
    match text.split_once_str(",") {
        Some((start, count)) => Some((number(start)?, number(count)?)),
        None => Some((number(text)?, 1)),
    }
}

/// Parses the hunk whose header is at this index. Returns the index after it.
fn hunk(lines: &[&[u8]], header_at: usize, header: &Header, hunks: &mut Vec<Hunk>) -> Result<usize, PatchError> {
    let mut at = header_at + 1;
    let (mut old, mut new) = (header.old, header.new);
    let mut of_hunk: Vec<Line> = Vec::new();
    loop {
        let error = |reason| PatchError { line: at + 1, reason };
        let line = lines.get(at).copied().unwrap_or_default();
        if line.starts_with(b"\\") {
            // The previous line has no newline.
            let text = of_hunk.last_mut().map(|line| &mut line.text).ok_or(error("this stands behind no line"))?;
            if text.ends_with(b"\n") {
                text.pop();
            }
            at += 1;
            continue;
        }
        if old == 0 && new == 0 {
            break;
        }
        let (kind, text) = match line.split_first() {
            Some((b' ', text)) => (Kind::Context, text),
            Some((b'-', text)) => (Kind::Removed, text),
            Some((b'+', text)) => (Kind::Added, text),
            // Editors strip trailing blanks.
            Some((b'\n', _)) => (Kind::Context, line),
            Some((b'\r', _)) => (Kind::Context, line),
            Some(_) => return Err(error("a line of a hunk begins with a blank, \"-\" or \"+\"")),
            None => return Err(error("the hunk ends early")),
        };
        let counts = match kind {
            Kind::Context => old.checked_sub(1).zip(new.checked_sub(1)),
            Kind::Removed => old.checked_sub(1).map(|old| (old, new)),
            Kind::Added => new.checked_sub(1).map(|new| (old, new)),
        };
        (old, new) = counts.ok_or(error("the hunk has more lines than its header says"))?;
        of_hunk.push(Line { kind, text: text.into() });
        at += 1;
    }
    let text: BString = lines.get(header_at..at).unwrap_or_default().concat().into();
    hunks.push(Hunk { start: header.start, lines: of_hunk, text });
    Ok(at)
}

//! Patches: differences in the unified format, applied to a text that need not be the one that they were made of.

mod locate;
mod parse;

use bstr::{BString, ByteSlice};
use locate::Locator;
pub use parse::PatchError;
use std::fmt;

/// The number of unchanged lines at the ends of a hunk that need not fit.
const MAX_FUZZ: usize = 2;

/// The hunks of one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    hunks: Vec<Hunk>,
}

/// Some lines that are changed together, with unchanged ones around them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hunk {
    /// The number of the first line in the old text, or of the line in front of it if there are none.
    start: usize,
    lines: Vec<Line>,
    /// Everything of it, as it was written.
    text: BString,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    kind: Kind,
    /// With its newline, if it has one.
    text: BString,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Context,
    Removed,
    Added,
}

/// A hunk does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct HunkError {
    /// The number of the hunk, from 1 on.
    pub number: usize,
    /// The number of all hunks.
    pub count: usize,
    /// The hunk, as it was written.
    pub hunk: BString,
}

impl fmt::Display for HunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hunk {} of {} does not fit", self.number, self.count)
    }
}

impl Patch {
    /// Parses a text. What is before the first hunk, and between hunks, does not count; a text without hunks changes nothing if it is empty,
    /// and is no patch otherwise.
    ///
    /// # Errors
    /// If it is not a patch of one file.
    pub fn parse(text: &[u8]) -> Result<Patch, PatchError> {
        Ok(Patch { hunks: parse::hunks(text)? })
    }

    /// Returns true if it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hunks.is_empty()
    }

    /// Returns the patch that leads the other way.
    #[must_use]
    pub fn reversed(&self) -> Patch {
        let mut drift = 0;
        let hunks = self.hunks.iter().map(|hunk| hunk.reversed(&mut drift)).collect();
        Patch { hunks }
    }

    /// Applies it as `patch` does: each hunk where it was, else at the nearest line where it fits, else without the outermost one or two
    /// unchanged lines of it.
    ///
    /// # Errors
    /// If a hunk fits nowhere.
    pub fn apply(&self, base: &[u8]) -> Result<Vec<u8>, HunkError> {
        self.apply_with_fuzz(base, MAX_FUZZ)
    }

    /// Applies it where all of each hunk fits, be it moved.
    ///
    /// # Errors
    /// If a hunk fits nowhere so.
    pub fn apply_exactly(&self, base: &[u8]) -> Result<Vec<u8>, HunkError> {
        self.apply_with_fuzz(base, 0)
    }

    fn apply_with_fuzz(&self, base: &[u8], max_fuzz: usize) -> Result<Vec<u8>, HunkError> {
        let lines: Vec<&[u8]> = base.lines_with_terminator().collect();
        let mut locator = Locator::new(&lines, max_fuzz);
        let mut pieces: Vec<&[u8]> = Vec::new();
        // The lines of the base before this have been copied or left out.
        let mut done = 0;
        for (index, hunk) in self.hunks.iter().enumerate() {
            let Some(start) = locator.locate(hunk, done) else {
                return Err(HunkError { number: index + 1, count: self.hunks.len(), hunk: hunk.text.clone() });
            };
            let mut at = start;
            for line in &hunk.lines {
                match line.kind {
                    // What the base has there is kept, also where it only fits nearly.
                    Kind::Context => at += 1,
                    Kind::Removed => {
                        pieces.extend(lines.get(done..at).unwrap_or_default());
                        at += 1;
                        done = at;
                    }
                    Kind::Added => {
                        pieces.extend(lines.get(done..at).unwrap_or_default());
                        pieces.push(&line.text);
                        done = done.max(at);
                    }
                }
            }
        }
        pieces.extend(lines.get(done..).unwrap_or_default());
        Ok(join(&pieces))
    }
}

/// Joins lines. One that has no newline gets one, unless it is the last.
fn join(pieces: &[&[u8]]) -> Vec<u8> {
    let mut text: Vec<u8> = Vec::new();
    for piece in pieces {
        if text.last().is_some_and(|&last| last != b'\n') {
            text.push(b'\n');
        }
        text.extend_from_slice(piece);
    }
    text
}

impl Hunk {
    /// Returns the lines that the text has to have.
    fn pattern(&self) -> Vec<&[u8]> {
        self.lines.iter().filter(|line| line.kind != Kind::Added).map(|line| &line.text[..]).collect()
    }

    fn count(&self, kind: Kind) -> usize {
        self.lines.iter().filter(|line| line.kind == kind).count()
    }

    /// Returns the numbers of unchanged lines at its beginning and end.
    fn context(&self) -> (usize, usize) {
        let is_context = |line: &&Line| line.kind == Kind::Context;
        (self.lines.iter().take_while(is_context).count(), self.lines.iter().rev().take_while(is_context).count())
    }

    /// Returns the hunk that leads the other way. `drift` is the number of lines that those before it have added.
    fn reversed(&self, drift: &mut isize) -> Hunk {
        let (added, removed) = (self.count(Kind::Added), self.count(Kind::Removed));
        let context = self.count(Kind::Context);
        // A hunk without lines of a text names the line in front of it.
        let first = if context + removed == 0 { self.start + 1 } else { self.start };
        let first = first.saturating_add_signed(*drift);
        let start = if context + added == 0 { first.saturating_sub(1) } else { first };
        *drift += added.cast_signed() - removed.cast_signed();
        // What is removed stands before what is added.
        let mut lines: Vec<Line> = Vec::with_capacity(self.lines.len());
        for group in self.lines.chunk_by(|one, other| (one.kind == Kind::Context) == (other.kind == Kind::Context)) {
            let of_kind = |kind| group.iter().filter(move |line| line.kind == kind);
            let turned = |line: &Line, kind| Line { kind, text: line.text.clone() };
            lines.extend(of_kind(Kind::Context).cloned());
            lines.extend(of_kind(Kind::Added).map(|line| turned(line, Kind::Removed)));
            lines.extend(of_kind(Kind::Removed).map(|line| turned(line, Kind::Added)));
        }
        Hunk { start, lines, text: self.text.clone() }
    }
}

#[cfg(test)]
mod tests;

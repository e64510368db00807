//! Patches: unified diffs, applied to a text that may differ from the original.

mod locate;
mod parse;

use bstr::{BString, ByteSlice};
use locate::Locator;
pub use parse::PatchError;
use std::fmt;

/// The maximum number of unchanged lines at the ends of a hunk that need not match.
const MAX_FUZZ: usize = 2;

/// The hunks for one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    hunks: Vec<Hunk>,
}

/// A group of changed lines with their context.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hunk {
    /// The number of the first line in the old text; if the hunk has none, that of the preceding line.
    start: usize,
    lines: Vec<Line>,
    /// The complete text of the hunk.
    text: BString,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    kind: Kind,
    /// The text, including its newline if it has one.
    text: BString,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Context,
    Removed,
    Added,
}

/// A hunk that does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct HunkError {
    /// The number of the hunk, counted from 1.
    pub number: usize,
    /// The total number of hunks.
    pub count: usize,
    /// The text of the hunk.
    pub hunk: BString,
}

impl fmt::Display for HunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hunk {} of {} does not fit", self.number, self.count)
    }
}

impl Patch {
    /// Parses a patch. Text before and between hunks is ignored. An empty text changes nothing; any other text without
    /// hunks is not a patch.
    ///
    /// # Errors
    /// If the text is not a patch of one file.
    pub fn parse(text: &[u8]) -> Result<Patch, PatchError> {
        Ok(Patch { hunks: parse::hunks(text)? })
    }

    /// Returns true if the patch changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hunks.is_empty()
    }

    /// Returns the reverse patch.
    #[must_use]
    pub fn reversed(&self) -> Patch {
        let mut drift = 0;
        let hunks = self.hunks.iter().map(|hunk| hunk.reversed(&mut drift)).collect();
        Patch { hunks }
    }

    /// Applies the patch like `patch`: each hunk at its original position, else at the nearest matching one, else
    /// without its one or two outermost context lines.
    ///
    /// # Errors
    /// If a hunk does not match anywhere.
    pub fn apply(&self, base: &[u8]) -> Result<Vec<u8>, HunkError> {
        self.apply_with_fuzz(base, MAX_FUZZ)
    }

    /// Like `apply`, but all context lines must match, possibly at another position.
    ///
    /// # Errors
    /// If a hunk does not match anywhere.
    pub fn apply_exactly(&self, base: &[u8]) -> Result<Vec<u8>, HunkError> {
        self.apply_with_fuzz(base, 0)
    }

    fn apply_with_fuzz(&self, base: &[u8], max_fuzz: usize) -> Result<Vec<u8>, HunkError> {
        let lines: Vec<&[u8]> = base.lines_with_terminator().collect();
        let mut locator = Locator::new(&lines, max_fuzz);
        let mut pieces: Vec<&[u8]> = Vec::new();
        // The lines of the base before this one have been processed.
        let mut done = 0;
        for (index, hunk) in self.hunks.iter().enumerate() {
            let Some(start) = locator.locate(hunk, done) else {
                return Err(HunkError { number: index + 1, count: self.hunks.len(), hunk: hunk.text.clone() });
            };
            let mut at = start;
            for line in &hunk.lines {
                match line.kind {
                    // Keep the base's line, even if it only matches approximately.
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

/// Joins lines. A line without a newline gets one unless it is the last.
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
    /// Returns the lines that the text must contain.
    fn pattern(&self) -> Vec<&[u8]> {
        self.lines.iter().filter(|line| line.kind != Kind::Added).map(|line| &line.text[..]).collect()
    }

    fn count(&self, kind: Kind) -> usize {
        self.lines.iter().filter(|line| line.kind == kind).count()
    }

    /// Returns the numbers of context lines at the start and end.
    fn context(&self) -> (usize, usize) {
        let is_context = |line: &&Line| line.kind == Kind::Context;
        (self.lines.iter().take_while(is_context).count(), self.lines.iter().rev().take_while(is_context).count())
    }

    /// Returns the reverse hunk. `drift` is the number of lines added by preceding hunks.
    fn reversed(&self, drift: &mut isize) -> Hunk {
        let (added, removed) = (self.count(Kind::Added), self.count(Kind::Removed));
        let context = self.count(Kind::Context);
        // A hunk without lines of a text is positioned at the preceding line.
        let first = if context + removed == 0 { self.start + 1 } else { self.start };
        let first = first.saturating_add_signed(*drift);
        let start = if context + added == 0 { first.saturating_sub(1) } else { first };
        *drift += added.cast_signed() - removed.cast_signed();
        // Removed lines come before added ones.
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

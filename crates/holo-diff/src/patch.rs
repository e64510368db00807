//! Patches: unified diffs, applied to a text that may differ from the original.

#[cfg(test)]
mod tests;

use crate::is_binary;
use bstr::{BString, ByteSlice};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

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
        Ok(Patch { hunks: hunks(text)? })
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
        let mut text = PatchedText::new(base);
        text.apply(self)?;
        Ok(text.into_bytes())
    }

    /// Returns the changes to these lines, in order: ranges that do not touch each other, and the lines in their place.
    fn edits(&self, lines: &[Cow<'_, [u8]>], max_fuzz: usize) -> Result<Vec<Edit<'_>>, HunkError> {
        let mut locator = Locator::new(lines, max_fuzz);
        let mut edits: Vec<Edit<'_>> = Vec::new();
        for (index, hunk) in self.hunks.iter().enumerate() {
            let done = edits.last().map_or(0, |(range, _)| range.end);
            let Some(mut at) = locator.locate(hunk, done) else {
                return Err(HunkError { number: index + 1, count: self.hunks.len(), hunk: hunk.text.clone() });
            };
            for line in &hunk.lines {
                if line.kind == Kind::Context {
                    // Keep the line of the text, even if it only matches approximately.
                    at += 1;
                    continue;
                }
                if edits.last().is_none_or(|(range, _)| range.end != at) {
                    edits.push((at..at, Vec::new()));
                }
                let Some((range, added)) = edits.last_mut() else { continue };
                if line.kind == Kind::Added {
                    added.push(&line.text);
                } else {
                    at += 1;
                    range.end = at;
                }
            }
        }
        Ok(edits)
    }
}

/// A range of lines, and the lines in their place.
type Edit<'p> = (Range<usize>, Vec<&'p [u8]>);

/// A text to which patches are applied one after the other. Each of them only touches the lines that it changes.
#[derive(Debug)]
pub struct PatchedText<'t> {
    /// The lines, each with its newline except possibly the last one.
    lines: Vec<Cow<'t, [u8]>>,
    /// True if a line contains a NUL, or did before a patch removed it.
    may_be_binary: bool,
}

impl<'t> PatchedText<'t> {
    /// Creates a text without patches.
    #[must_use]
    pub fn new(text: &'t [u8]) -> PatchedText<'t> {
        let lines = text.lines_with_terminator().map(Cow::Borrowed).collect();
        PatchedText { lines, may_be_binary: is_binary(text) || text.contains(&0) }
    }

    /// Applies a patch like [`Patch::apply`].
    ///
    /// # Errors
    /// If a hunk does not match anywhere. The text is unchanged then.
    pub fn apply(&mut self, patch: &Patch) -> Result<(), HunkError> {
        self.apply_with_fuzz(patch, MAX_FUZZ)
    }

    /// Like `apply`, but all context lines must match, possibly at another position.
    ///
    /// # Errors
    /// If a hunk does not match anywhere. The text is unchanged then.
    pub fn apply_exactly(&mut self, patch: &Patch) -> Result<(), HunkError> {
        self.apply_with_fuzz(patch, 0)
    }

    fn apply_with_fuzz(&mut self, patch: &Patch, max_fuzz: usize) -> Result<(), HunkError> {
        let edits = patch.edits(&self.lines, max_fuzz)?;
        for (range, added) in edits.into_iter().rev() {
            let mut lines: Vec<Cow<'t, [u8]>> = Vec::with_capacity(added.len());
            for line in added {
                let before = range.start.checked_sub(1).and_then(|before| self.lines.get_mut(before));
                if let Some(before) = lines.last_mut().or(before) {
                    terminate(before);
                }
                self.may_be_binary |= line.contains(&0);
                // The last line may be an empty one without a newline.
                lines.extend((!line.is_empty()).then(|| Cow::Owned(line.to_vec())));
            }
            if range.end < self.lines.len()
                && let Some(last) = lines.last_mut()
            {
                terminate(last);
            }
            self.lines.splice(range, lines);
        }
        Ok(())
    }

    /// Returns true if the text is [binary](crate::is_binary).
    #[must_use]
    pub fn is_binary(&self) -> bool {
        self.may_be_binary && is_binary(&self.lines.concat())
    }

    /// Returns the text.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.lines.concat()
    }
}

/// Adds the newline that a line lacks, as soon as it is not the last one.
fn terminate(line: &mut Cow<'_, [u8]>) {
    if !line.ends_with(b"\n") {
        line.to_mut().push(b'\n');
    }
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

/// Finds positions for successive hunks.
struct Locator<'a> {
    lines: &'a [Cow<'a, [u8]>],
    max_fuzz: usize,
    /// The number of lines by which the last hunk was moved.
    offset: isize,
}

/// A hunk to find, ignoring some lines at its ends.
struct Search<'a> {
    lines: &'a [Cow<'a, [u8]>],
    pattern: &'a [&'a [u8]],
    prefix_fuzz: usize,
    suffix_fuzz: usize,
}

impl<'a> Locator<'a> {
    /// Creates a locator for these lines. `max_fuzz` is the maximum number of context lines at the ends of hunks that
    /// need not match.
    fn new(lines: &'a [Cow<'a, [u8]>], max_fuzz: usize) -> Locator<'a> {
        Locator { lines, max_fuzz, offset: 0 }
    }

    /// Returns the index of the line where a hunk matches, after the processed lines.
    fn locate(&mut self, hunk: &Hunk, done: usize) -> Option<usize> {
        let (prefix, suffix) = hunk.context();
        let most = self.max_fuzz.min(prefix.max(suffix));
        let found = (0..=most).find_map(|fuzz| self.locate_fuzzily(hunk, done, fuzz))?;
        self.offset += found - self.guess(hunk);
        usize::try_from(found).ok()
    }

    /// Returns the expected index of the hunk.
    fn guess(&self, hunk: &Hunk) -> isize {
        let is_insertion = hunk.pattern().is_empty();
        let first = hunk.start.cast_signed() - isize::from(!is_insertion);
        first + self.offset
    }

    fn locate_fuzzily(&self, hunk: &Hunk, done: usize, fuzz: usize) -> Option<isize> {
        let pattern = hunk.pattern();
        let guess = self.guess(hunk);
        if pattern.is_empty() {
            // The hunk has no context.
            return Some(guess.clamp(done.cast_signed(), self.lines.len().cast_signed()));
        }
        // If a hunk has less context at one end, that end is at the end of the text, and so more of it must match.
        let (prefix, suffix) = hunk.context();
        let context = prefix.max(suffix).cast_signed();
        let prefix_fuzz = fuzz.cast_signed() + prefix.cast_signed() - context;
        let suffix_fuzz = fuzz.cast_signed() + suffix.cast_signed() - context;
        let search = Search {
            lines: self.lines,
            pattern: &pattern,
            prefix_fuzz: prefix_fuzz.max(0).cast_unsigned(),
            suffix_fuzz: suffix_fuzz.max(0).cast_unsigned(),
        };
        let (count, length, done) = (self.lines.len().cast_signed(), pattern.len().cast_signed(), done.cast_signed());
        if prefix_fuzz < 0 && hunk.start <= 1 {
            let may_begin = done <= prefix.cast_signed() && (suffix_fuzz >= 0 || length == count);
            return (may_begin && search.fits_at(0)).then_some(0);
        }
        if suffix_fuzz < 0 {
            let end = count - length;
            return (end >= done && search.fits_at(end)).then_some(end);
        }
        let last = count - (length - suffix_fuzz);
        // The guess may be far outside of the text.
        let nearest = (done - guess).max(guess - last).max(0);
        let most = (last - guess).max(guess - done);
        let places = (nearest..=most).flat_map(|offset| {
            let ahead = Some(guess + offset);
            let behind = (offset > 0).then_some(guess - offset);
            ahead.into_iter().chain(behind)
        });
        places.filter(|place| (done..=last).contains(place)).find(|&place| search.fits_at(place))
    }
}

impl Search<'_> {
    fn fits_at(&self, place: isize) -> bool {
        let pattern = self.pattern.get(self.prefix_fuzz..self.pattern.len().saturating_sub(self.suffix_fuzz));
        let Some(pattern) = pattern else { return true };
        let Ok(start) = usize::try_from(place + self.prefix_fuzz.cast_signed()) else { return false };
        let lines = self.lines.get(start..start + pattern.len());
        lines.is_some_and(|lines| lines.iter().zip(pattern).all(|(line, wanted)| **line == **wanted))
    }
}

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
fn hunks(text: &[u8]) -> Result<Vec<Hunk>, PatchError> {
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

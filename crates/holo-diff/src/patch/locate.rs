//! Finds where hunks match.

use super::Hunk;

/// Finds positions for successive hunks.
pub(super) struct Locator<'a> {
    lines: &'a [&'a [u8]],
    max_fuzz: usize,
    /// The number of lines by which the last hunk was moved.
    offset: isize,
}

/// A hunk to find, ignoring some lines at its ends.
struct Search<'a> {
    lines: &'a [&'a [u8]],
    pattern: &'a [&'a [u8]],
    prefix_fuzz: usize,
    suffix_fuzz: usize,
}

impl<'a> Locator<'a> {
    /// Creates a locator for these lines. `max_fuzz` is the maximum number of context lines at the ends of hunks that
    /// need not match.
    pub(super) fn new(lines: &'a [&'a [u8]], max_fuzz: usize) -> Locator<'a> {
        Locator { lines, max_fuzz, offset: 0 }
    }

    /// Returns the index of the line where a hunk matches, after the processed lines.
    pub(super) fn locate(&mut self, hunk: &Hunk, done: usize) -> Option<usize> {
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
        let most = (last - guess).max(guess - done);
        let places = (0..=most).flat_map(|offset| {
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
        self.lines.get(start..start + pattern.len()) == Some(pattern)
    }
}

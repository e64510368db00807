//! Formats the differences of two texts as hunks of the unified format.

use crate::{Change, Comparison};
use bstr::ByteSlice;
use std::ops::Range;

/// The number of unchanged lines shown before and after each change.
const CONTEXT: usize = 3;

/// The maximum length of a hunk header, including its newline.
const HEADER_LIMIT: usize = 128;

/// The maximum length of the line in a hunk header.
const FUNCTION_LIMIT: usize = 80;

/// Returns the hunks of the unified format between two texts, as git formats them; empty if the texts are equal.
#[must_use]
pub fn hunks(old: &[u8], new: &[u8]) -> Vec<u8> {
    let Comparison { old, new, changes } = Comparison::new(old, new);
    let mut writer = Writer { old: &old, new: &new, function: None, searched: 0, out: Vec::new() };
    for hunk in group(&changes) {
        writer.hunk(hunk);
    }
    writer.out
}

/// Groups changes into hunks if their context lines touch or overlap.
fn group(changes: &[Change]) -> impl Iterator<Item = &[Change]> {
    changes.chunk_by(|a, b| b.old.start - a.old.end <= 2 * CONTEXT)
}

struct Writer<'a> {
    old: &'a [&'a [u8]],
    new: &'a [&'a [u8]],
    /// The last line before the current hunk that looks like a function header.
    function: Option<&'a [u8]>,
    /// The number of lines of the old text searched for `function`.
    searched: usize,
    out: Vec<u8>,
}

impl Writer<'_> {
    fn hunk(&mut self, changes: &[Change]) {
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else {
            return;
        };
        let before = CONTEXT.min(first.old.start).min(first.new.start);
        let after = (CONTEXT.min(self.old.len() - last.old.end)).min(self.new.len() - last.new.end);
        let old = first.old.start - before..last.old.end + after;
        let new = first.new.start - before..last.new.end + after;

        self.find_function(old.start);
        self.header(&old, &new);
        let mut context = old.start;
        for change in changes {
            self.lines(b' ', self.old, context..change.old.start);
            self.lines(b'-', self.old, change.old.clone());
            self.lines(b'+', self.new, change.new.clone());
            context = change.old.end;
        }
        self.lines(b' ', self.old, context..old.end);
    }

    fn find_function(&mut self, hunk_start: usize) {
        let unsearched = self.old.iter().take(hunk_start).skip(self.searched);
        let found = unsearched.rev().find(|line| heads_function(line));
        self.function = found.copied().or(self.function);
        self.searched = hunk_start;
    }

    fn header(&mut self, old: &Range<usize>, new: &Range<usize>) {
        let mut header = format!("@@ -{} +{} @@", span(old), span(new)).into_bytes();
        if let Some(line) = self.function {
            header.push(b' ');
            let line = line.get(..FUNCTION_LIMIT).unwrap_or(line);
            // Form feeds are not considered white space.
            let line = line.trim_end_with(|letter| matches!(letter, ' ' | '\t' | '\r' | '\n'));
            let room = HEADER_LIMIT - 1 - header.len();
            header.extend(line.iter().take(room));
        }
        header.truncate(valid_length(&header));
        self.out.append(&mut header);
        self.out.push(b'\n');
    }

    fn lines(&mut self, mark: u8, text: &[&[u8]], range: Range<usize>) {
        for line in text.get(range).unwrap_or_default() {
            self.out.push(mark);
            self.out.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                self.out.extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        }
    }
}

fn heads_function(line: &[u8]) -> bool {
    let first = line.first();
    first.is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$'))
}

/// Formats the position and length of a range of lines. An empty range is positioned after the given line.
fn span(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        len => format!("{},{len}", lines.start + 1),
    }
}

/// Returns the length of the valid UTF-8 prefix. It also ends before a noncharacter.
fn valid_length(bytes: &[u8]) -> usize {
    let valid = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    valid.find(['\u{fffe}', '\u{ffff}']).unwrap_or(valid.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the header of the hunk that changes the line `old` after the given text.
    fn header_behind(text: &[u8]) -> Vec<u8> {
        let old = [text, b"1\n2\n3\nold\n"].concat();
        let new = [text, b"1\n2\n3\nnew\n"].concat();
        hunks(&old, &new).lines().next().unwrap().to_vec()
    }

    #[test]
    fn a_hunk_names_the_function_that_it_is_in() {
        assert_eq!(header_behind(b"fn f()\n    x\n").as_bstr(), "@@ -3,4 +3,4 @@ fn f()");
        assert_eq!(header_behind(b"_f\n").as_bstr(), "@@ -2,4 +2,4 @@ _f");
        assert_eq!(header_behind(b"$f\n").as_bstr(), "@@ -2,4 +2,4 @@ $f");
        assert_eq!(header_behind(b"{\n").as_bstr(), "@@ -2,4 +2,4 @@");
        assert_eq!(header_behind("é\n".as_bytes()).as_bstr(), "@@ -2,4 +2,4 @@");
    }

    #[test]
    fn the_name_of_a_function_is_trimmed_and_cut() {
        assert_eq!(header_behind(b"f \t\r\n").as_bstr(), "@@ -2,4 +2,4 @@ f");
        assert_eq!(header_behind(b"f\x0c\n").as_bstr(), "@@ -2,4 +2,4 @@ f\x0c");
        let long = "f".repeat(80);
        let expected = format!("@@ -2,4 +2,4 @@ {long}");
        assert_eq!(header_behind(format!("{long}g\n").as_bytes()).as_bstr(), expected.as_str());
        assert_eq!(header_behind(b"f \xff g\n").as_bstr(), "@@ -2,4 +2,4 @@ f ");
        assert_eq!(header_behind("f\u{ffff}g\n".as_bytes()).as_bstr(), "@@ -2,4 +2,4 @@ f");
        let cut_in_two = format!("{}é\n", "f".repeat(79));
        let expected = format!("@@ -2,4 +2,4 @@ {}", "f".repeat(79));
        assert_eq!(header_behind(cut_in_two.as_bytes()).as_bstr(), expected.as_str());
    }

    #[test]
    fn a_hunk_without_a_function_of_its_own_names_an_earlier_one() {
        let text = |changed: &str| format!("f\n1\n2\n3\n{changed}\n4\n5\n6\n7\n8\n9\n0\n{changed}\n");
        let hunks = hunks(text("-").as_bytes(), text("+").as_bytes());
        let headers: Vec<_> = hunks.lines().filter(|line| line.starts_with(b"@@")).collect();
        assert_eq!(headers, [&b"@@ -2,7 +2,7 @@ f"[..], b"@@ -10,4 +10,4 @@ f"]);
    }

    #[test]
    fn changes_share_a_hunk_if_their_contexts_touch() {
        let text = |changed: &str, between: &str| format!("{changed}\n{between}{changed}\n");
        let count = |between: &str| {
            let hunks = hunks(text("x", between).as_bytes(), text("y", between).as_bytes());
            hunks.lines().filter(|line| line.starts_with(b"@@")).count()
        };
        assert_eq!(count("1\n2\n3\n4\n5\n6\n"), 1);
        assert_eq!(count("1\n2\n3\n4\n5\n6\n7\n"), 2);
    }
}

//! Differences, in runs of lines with the same style.

use super::budget::Budget;
use super::text::safe;
use bstr::ByteSlice;
use serde::Serialize;

/// The number of bytes shown of a difference.
const MOST: usize = 32 << 10;

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Diff {
    pub(super) pieces: Vec<Piece>,
    /// The number of omitted lines.
    pub(super) left_out: usize,
}

/// Consecutive lines with the same style.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Piece {
    /// The CSS class; empty for context lines.
    pub(super) class: &'static str,
    pub(super) text: String,
}

impl Diff {
    /// Parses a difference in git's format, as far as the budget allows.
    pub(super) fn new(text: &[u8], budget: &mut Budget) -> Diff {
        let (mut pieces, mut left_out, mut size): (Vec<Piece>, usize, usize) = (Vec::new(), 0, 0);
        let mut is_header = true;
        // The entity is named above, and the next lines name both sides.
        for line in text.lines_with_terminator().filter(|line| !line.starts_with(b"diff --")) {
            is_header &= !line.starts_with(b"@@");
            size += line.len();
            if left_out > 0 || size > MOST || !budget.take(line, 0) {
                left_out += 1;
                continue;
            }
            let class = class(line, is_header);
            let text = safe(line);
            match pieces.last_mut().filter(|last| last.class == class) {
                Some(last) => last.text.push_str(&text),
                None => pieces.push(Piece { class, text }),
            }
        }
        Diff { pieces, left_out }
    }
}

fn class(line: &[u8], is_header: bool) -> &'static str {
    match line.first() {
        _ if is_header => "head",
        Some(b'@') => "hunk",
        Some(b'+') => "add",
        Some(b'-') => "del",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"diff --holo a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n a\n---b\n+++c\n+d\n";

    #[test]
    fn lines_of_the_same_style_are_grouped() {
        let diff = Diff::new(TEXT, &mut Budget::new(1000));
        let pieces: Vec<_> = diff.pieces.iter().map(|piece| (piece.class, piece.text.as_str())).collect();
        let head = "--- a/x\n+++ b/x\n";
        let expected =
            [("head", head), ("hunk", "@@ -1,2 +1,3 @@\n"), ("", " a\n"), ("del", "---b\n"), ("add", "+++c\n+d\n")];
        assert_eq!((pieces.as_slice(), diff.left_out), (&expected[..], 0));
    }

    #[test]
    fn lines_beyond_the_limit_are_counted() {
        let mut budget = Budget::new(26);
        assert_eq!(Diff::new(TEXT, &mut budget).left_out, 5);
        let long = [&TEXT[..36], &b"+x\n".repeat(MOST)].concat();
        let diff = Diff::new(&long, &mut Budget::new(usize::MAX));
        assert!(diff.left_out > MOST / 2 && diff.pieces.iter().map(|piece| piece.text.len()).sum::<usize>() <= MOST);
    }
}

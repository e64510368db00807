//! Differences of texts, line by line: finding them as git does, applying them as `patch` does, and merging those of two sides.

mod comparison;
mod hunks;
mod lines;
mod matching;
mod merge;
mod patch;
mod search;
mod sliding;

pub use comparison::{Change, Comparison};
pub use hunks::hunks;
pub use merge::{Labels, Merged, merge};
pub use patch::{HunkError, Patch, PatchError};

/// Files with a NUL so early are not text.
const NUL_WINDOW: usize = 8000;

/// Larger files are not looked at as text.
const BIGGEST_TEXT: usize = 512 << 20;

/// Returns true if a content is not text, as git has it.
#[must_use]
pub fn is_binary(content: &[u8]) -> bool {
    let start = content.get(..NUL_WINDOW).unwrap_or(content);
    start.contains(&0) || content.len() > BIGGEST_TEXT
}

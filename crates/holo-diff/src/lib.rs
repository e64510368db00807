//! Line diffs: finding differences like git, applying them like `patch`, and three-way merges.

mod comparison;
mod hunks;
mod merge;
mod patch;
mod search;
mod sliding;

pub use comparison::{Change, Comparison};
pub use hunks::hunks;
pub use merge::{Labels, Merged, merge};
pub use patch::{HunkError, Patch, PatchError, PatchedText};

/// A file with a NUL in this many first bytes is binary.
const NUL_WINDOW: usize = 8000;

/// Larger files are considered binary.
const BIGGEST_TEXT: usize = 512 << 20;

/// Returns true if the content is binary, by git's rules.
#[must_use]
pub fn is_binary(content: &[u8]) -> bool {
    let start = content.get(..NUL_WINDOW).unwrap_or(content);
    start.contains(&0) || content.len() > BIGGEST_TEXT
}

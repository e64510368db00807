//! Shows differences of files and symlinks in the format of `git diff`.

mod format;
mod load;

pub use format::{render, render_prefixed, render_texts};
pub use load::{LoadError, load};

use bstr::BString;

/// One side of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing is there.
    Missing,
    /// A regular file.
    File {
        /// All its bytes.
        content: Vec<u8>,
        /// True if its owner may execute it.
        executable: bool,
    },
    /// A symlink, which is not followed.
    Symlink {
        /// The path that it holds.
        target: Vec<u8>,
    },
}

/// One side of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// The path as the user sees it.
    pub name: BString,
    /// The content.
    pub content: Content,
}

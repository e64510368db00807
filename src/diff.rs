//! Renders differences between files and symlinks in the format of `git diff`.

mod format;
mod load;
pub mod preview;
pub mod view;

use bstr::BString;

pub use format::{render, render_prefixed, render_texts};
pub use load::{LoadError, load};

/// The content of one side of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// No file exists.
    Missing,
    /// A regular file.
    File {
        /// Its bytes.
        content: Vec<u8>,
        /// Whether its owner may execute it.
        executable: bool,
    },
    /// A symlink, which is not followed.
    Symlink {
        /// The path that it points to.
        target: Vec<u8>,
    },
}

/// One side of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// The path as the user knows it.
    pub name: BString,
    /// The content.
    pub content: Content,
}

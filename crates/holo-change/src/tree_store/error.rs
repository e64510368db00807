//! Errors of tree changes.

use crate::error::PathError;
use crate::image::Unmanageable;
use crate::tracked::Unmanaged;
use std::path::PathBuf;

/// A version of a tree could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// Manual changes of these paths would be lost.
    #[error("changes of a user would be lost")]
    LosesChanges(Vec<PathBuf>),
    /// A path cannot be read or changed.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file could not be copied.
    #[error(transparent)]
    Unmanageable(#[from] Unmanageable),
    /// The state of a path cannot be managed.
    #[error(transparent)]
    Unmanaged(#[from] Unmanaged),
    /// Two entities create the same path.
    #[error("{path} is brought by both {first} and {second}{}", and_more(*.more))]
    BroughtByBoth {
        /// The first such path.
        path: PathBuf,
        /// The entity that owns the path.
        first: String,
        /// The entity that is refused.
        second: String,
        /// The number of other paths with the same conflict.
        more: usize,
    },
    /// The path is a directory that does not belong to the entity.
    #[error("{0} is a directory")]
    IsDirectory(PathBuf),
    /// The path is a directory of the entity that is not empty.
    #[error("{0} is a directory that is not empty")]
    DirectoryNotEmpty(PathBuf),
    /// The path is a device, a FIFO or a socket.
    #[error("{0} is not a manageable file")]
    NotManageable(PathBuf),
    /// A base cannot be restored because of another file.
    #[error("{path} is {obstacle}: what was there before cannot be put back")]
    BaseNotRestored {
        /// The path.
        path: PathBuf,
        /// The type of that file.
        obstacle: &'static str,
    },
    /// There is an overlay on the path.
    #[error("{0} has resource files, and would not be a file any more")]
    HasOverlay(PathBuf),
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(", and so are {more} more paths") }
}

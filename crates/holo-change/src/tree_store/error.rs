//! Errors of changes of trees.

use crate::error::PathError;
use crate::image::Unmanageable;
use crate::tracked::Unmanaged;
use std::path::PathBuf;

/// The reason that a version of a tree is not put into place.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// Changes of a user at these paths would be lost.
    #[error("changes of a user would be lost")]
    LosesChanges(Vec<PathBuf>),
    /// A path cannot be read or changed.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file cannot be copied.
    #[error(transparent)]
    Unmanageable(#[from] Unmanageable),
    /// The state of a path cannot be managed.
    #[error(transparent)]
    Unmanaged(#[from] Unmanaged),
    /// Two entities make the same path.
    #[error("{path} is brought by both {first} and {second}{}", and_more(*.more))]
    BroughtByBoth {
        /// The first such path.
        path: PathBuf,
        /// The entity that has the path.
        first: String,
        /// The entity that does not get it.
        second: String,
        /// The number of other paths with the same problem.
        more: usize,
    },
    /// There is a directory that is not ours.
    #[error("{0} is a directory")]
    IsDirectory(PathBuf),
    /// There is a directory of ours with something in it.
    #[error("{0} is a directory that is not empty")]
    DirectoryNotEmpty(PathBuf),
    /// There is a device, a FIFO or a socket.
    #[error("{0} is not a manageable file")]
    NotManageable(PathBuf),
    /// There is something in the way of a base.
    #[error("{path} is {obstacle}: what was there before cannot be put back")]
    BaseNotRestored {
        /// The path.
        path: PathBuf,
        /// The kind of thing that it is by now.
        obstacle: &'static str,
    },
    /// An overlay lies over the path.
    #[error("{0} has resource files, and would not be a file any more")]
    HasOverlay(PathBuf),
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(", and so are {more} more paths") }
}

//! Why work on an archive ends before everything is done.

use holo_plugin::ForceTo;

/// A reason to go no further.
pub(crate) enum ArchiveError {
    NeedsForce(ForceTo),
    Failed(String),
}

impl<E: std::error::Error> From<E> for ArchiveError {
    fn from(error: E) -> Self {
        ArchiveError::Failed(error.to_string())
    }
}

//! Why work on an archive ends before everything is done.

use holo_plugin::ForceTo;

/// A reason to go no further.
pub(crate) enum Stop {
    NeedsForce(ForceTo),
    Failed(String),
}

impl<E: std::error::Error> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Failed(error.to_string())
    }
}

//! The reasons why a scaffold cannot be applied.

use holo_change::tracked::Unmanaged;
use std::fmt::Display;

/// The reason why a scaffold cannot be applied; the text is a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScaffoldError {
    /// The scaffold can be applied with `--force`.
    NeedsForce(String),
    /// The scaffold cannot be applied.
    Never(String),
}

impl<E: Display> From<E> for ScaffoldError {
    fn from(error: E) -> Self {
        ScaffoldError::Never(error.to_string())
    }
}

/// Converts the error of a change of paths.
#[expect(clippy::needless_pass_by_value, reason = "this is for map_err")]
pub(crate) fn of_change(error: Unmanaged) -> ScaffoldError {
    let words = error.to_string();
    if matches!(error, Unmanaged::Meanwhile(_)) {
        ScaffoldError::NeedsForce(words)
    } else {
        ScaffoldError::Never(words)
    }
}

/// The result of an operation on a scaffold.
pub(crate) type Result<T> = std::result::Result<T, ScaffoldError>;

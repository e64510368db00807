//! Why a scaffold cannot become what is declared.

use holo_plugin::tracked::Unmanaged;
use std::fmt::Display;

/// Why a scaffold cannot become what is declared; the reason is a fragment.
#[derive(Clone, Debug)]
pub(crate) enum Obstacle {
    /// It could by force.
    NeedsForce(String),
    /// It cannot.
    Never(String),
}

impl<E: Display> From<E> for Obstacle {
    fn from(error: E) -> Self {
        Obstacle::Never(error.to_string())
    }
}

/// What stands in the way of changing paths.
#[expect(clippy::needless_pass_by_value, reason = "this is for map_err")]
pub(crate) fn of_change(error: Unmanaged) -> Obstacle {
    let words = error.to_string();
    if matches!(error, Unmanaged::Meanwhile(_)) { Obstacle::NeedsForce(words) } else { Obstacle::Never(words) }
}

/// A result that something may stand in the way of.
pub(crate) type Result<T> = std::result::Result<T, Obstacle>;

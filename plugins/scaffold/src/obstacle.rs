//! Why a scaffold cannot become what is declared.

use std::fmt::Display;

/// Why a scaffold cannot become what is declared; the reason is a fragment.
#[derive(Debug)]
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

/// A result that something may stand in the way of.
pub(crate) type Result<T> = std::result::Result<T, Obstacle>;

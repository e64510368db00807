//! The limits of a conversation: sizes and deadlines.

use std::time::{Duration, Instant};

/// The maximum sizes of the output of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a line in bytes, without the newline; 1 MiB by default.
    pub line: usize,
    /// Maximum length of the answer to one request in bytes; 16 MiB by default.
    pub answer: usize,
}

/// The point in time until which an answer is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    pub(super) limit: Duration,
    /// `None` if it is beyond the range of the clock.
    pub(super) at: Option<Instant>,
}

impl Deadline {
    /// Returns the deadline after this duration from now.
    #[must_use]
    pub fn after(limit: Duration) -> Deadline {
        Deadline { limit, at: Instant::now().checked_add(limit) }
    }

    pub(super) fn is_over(&self) -> bool {
        self.at.is_some_and(|at| Instant::now() >= at)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { line: 1 << 20, answer: 16 << 20 }
    }
}

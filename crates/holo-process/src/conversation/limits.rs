//! The limits of a conversation: of what is said, and of the time until then.

use std::time::{Duration, Instant};

/// The most that a program may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of bytes of one line, without its newline: 1 MiB unless set.
    pub line: usize,
    /// The number of bytes that are answered to one request: 16 MiB unless set.
    pub answer: usize,
}

/// The time until which something is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    pub(super) limit: Duration,
    /// Nothing if it is later than clocks go.
    pub(super) at: Option<Instant>,
}

impl Deadline {
    /// Returns the deadline that is so much time from now.
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

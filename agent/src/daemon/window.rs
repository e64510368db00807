//! The state of the maintenance window.

use holo_schedule::{Schedule, is_open, next_change};
use jiff::Zoned;
use std::time::Duration;
use tokio::time::Instant;

/// The interval for checking the clock, as it may have been set.
const LOOK_AGAIN: Duration = Duration::from_secs(60 * 60);

/// Whether changes are permitted, and until when this is certain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    is_open: bool,
    until: Option<Instant>,
}

impl Window {
    pub(super) fn new(schedule: Option<&Schedule>, now: &Zoned) -> Window {
        let Some(schedule) = schedule else { return Window { is_open: true, until: None } };
        let change = next_change(schedule, now).map(|change| now.duration_until(&change).unsigned_abs());
        let wait = change.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN);
        Window { is_open: is_open(schedule, now), until: Some(Instant::now() + wait) }
    }

    pub(super) fn is_open(self) -> bool {
        self.is_open
    }

    /// Returns true if the window must be checked again.
    pub(super) fn is_over(self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Returns the time at which the window must be checked again.
    pub(super) fn until(self) -> Option<Instant> {
        self.until
    }
}

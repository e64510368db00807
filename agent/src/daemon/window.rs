//! The maintenance window, as it is now.

use holo_schedule::{Schedule, is_open, next_change};
use jiff::Zoned;
use std::time::Duration;
use tokio::time::Instant;

/// The time after which the clock is looked at again, as it may have been put to another time.
const LOOK_AGAIN: Duration = Duration::from_secs(60 * 60);

/// True or false for some time: if something may be changed.
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

    /// Returns true if it has to be looked at again.
    pub(super) fn is_over(self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Returns the time at which it has to be looked at again.
    pub(super) fn until(self) -> Option<Instant> {
        self.until
    }
}

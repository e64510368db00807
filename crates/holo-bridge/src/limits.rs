//! The time that modules have. Nothing is waited for without an end.

use std::time::Duration;

/// The time in which a module has to introduce itself.
pub const HEADER: Duration = Duration::from_secs(30);
/// The time that a module has for what changes nothing.
pub const LOOK: Duration = Duration::from_secs(60);
/// The time that a module has for its work, unless a definition says something else.
const WORK: Duration = Duration::from_secs(600);

/// Returns the time that a module has for its work on an entity with this `timeout`.
#[must_use]
pub fn work(timeout: Option<Duration>) -> Duration {
    timeout.unwrap_or(WORK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_minutes_unless_something_else_is_said() {
        assert_eq!(work(None), Duration::from_secs(10 * 60));
        assert_eq!(work(Some(Duration::from_millis(1500))), Duration::from_millis(1500));
        assert!(work(Some(HEADER)) == HEADER && HEADER < LOOK && LOOK < work(None));
    }
}

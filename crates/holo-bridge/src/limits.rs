//! Timeouts for modules.

use std::time::Duration;

/// The timeout for a module to introduce itself.
pub const HEADER: Duration = Duration::from_secs(30);
/// The timeout for read-only operations of a module.
pub const LOOK: Duration = Duration::from_secs(60);
/// The default timeout for changes by a module.
const WORK: Duration = Duration::from_secs(600);

/// Returns the timeout for changes by a module, for an entity with this `timeout`.
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

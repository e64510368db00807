//! Notifications for systemd, if it has started the agent.

use sd_notify::NotifyState;
use std::time::Duration;

/// Notifies systemd. Does nothing if systemd has not started the agent.
fn tell(states: &[NotifyState<'_>]) {
    // Failed notifications are ignored.
    let _ = sd_notify::notify(states);
}

pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
}

pub(crate) fn reloading() {
    let now = NotifyState::monotonic_usec_now();
    tell(&[NotifyState::Reloading]);
    if let Ok(now) = now {
        tell(&[NotifyState::Reloading, now]);
    }
}

pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

pub(crate) fn status(text: &str) {
    tell(&[NotifyState::Status(text)]);
}

pub(crate) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// Returns the interval of watchdog notifications, half of systemd's timeout; `None` without a watchdog.
pub(crate) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}

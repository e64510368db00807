//! What systemd is told, where it has started the agent.

use sd_notify::NotifyState;
use std::time::Duration;

/// Tells systemd something. Without it this does nothing.
fn tell(states: &[NotifyState<'_>]) {
    // It is no trouble of the machine's if nobody listens.
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

/// Returns the interval at which systemd wants to hear that the agent is alive, if it does: half of the time after which it gives up.
pub(crate) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}

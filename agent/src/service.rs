//! Notifications for systemd, if it has started the agent, and log messages for the journal.

use holo_process::streams;
use sd_notify::NotifyState;
use std::fmt::Display;
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

/// The levels of messages, as journald parses them at the start of lines.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    Error,
    Warning,
    Info,
}

/// Logs a message. If stderr is the journal, the line is prefixed with its level.
pub(crate) fn say(level: Level, text: impl Display) {
    // Unit tests check actions instead.
    if cfg!(test) {
        return;
    }
    let mark = match level {
        _ if std::env::var_os("JOURNAL_STREAM").is_none() => "",
        Level::Error => "<3>",
        Level::Warning => "<4>",
        Level::Info => "<6>",
    };
    let text = text.to_string().replace('\n', "; ");
    streams::complain(format_args!("{mark}{text}"));
}

//! The ways in which our own binary is started: its private words, and what it inherits.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// The binary that is running, whatever has become of its path.
pub(crate) const OURSELVES: &str = "/proc/self/exe";
/// The descriptor of the pipe that a program may get besides its standard streams.
pub(crate) const EXTRA_FD: RawFd = 3;
/// The descriptor on which the launcher says why it could not become the program.
pub(crate) const REPORT_FD: RawFd = 4;

/// The prefix of the names of a program's variables while its launcher has them: there they mean nothing to the dynamic linker, which must not
/// load another user's library into a launcher that is still root.
pub(crate) const CARRIED: &str = "+";

pub(crate) const LAUNCH: &str = "holo-process:launch";
/// As [`LAUNCH`], but the program is a child.
pub(crate) const SUPERVISE: &str = "holo-process:supervise";
/// Followed by the number of the process whose programs it guards.
pub(crate) const WATCH: &str = "holo-process:watch";
pub(crate) const HOLD: &str = "holo-process:hold-lock";

/// True if our binary knows what its private words mean.
static SERVED: AtomicBool = AtomicBool::new(false);

/// Notes that our own binary does what private words ask for.
pub(crate) fn set_served() {
    SERVED.store(true, Ordering::Relaxed);
}

/// Returns true if [`serve_if_asked`](crate::serve_if_asked) was called, so that our own binary can be started with private words.
pub(crate) fn is_served() -> bool {
    SERVED.load(Ordering::Relaxed)
}

/// Returns the signals that this process ignores, as the kernel's bit mask.
#[must_use]
pub fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}

//! The exit codes, as listed in `holo(8)`.

/// Success.
pub const DONE: u8 = 0;
/// An entity failed or was refused, a generator failed, or a scenario deviated.
pub const FAILED: u8 = 1;
/// `doctor` found warnings, but no errors.
pub const WARNINGS_FOUND: u8 = 1;
/// `doctor` found errors.
pub const ERRORS_FOUND: u8 = 2;
/// The command line is invalid.
pub const USAGE: u8 = 2;
/// An entity would be changed, or its plugin cannot tell.
pub const PENDING: u8 = 3;
/// The run could not begin: configuration, scan, selectors, lock.
pub const COULD_NOT_RUN: u8 = 255;

/// Returns the exit code of a run that a signal ended, computed as shells do: 130 for SIGINT, 143 for SIGTERM.
#[must_use]
pub fn interrupted(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or(0).saturating_add(128)
}

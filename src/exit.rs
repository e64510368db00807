//! The exit codes, as `holo(8)` lists them.

/// Everything was done.
pub const DONE: u8 = 0;
/// An entity failed or was refused, a generator failed, or a scenario deviated.
pub const FAILED: u8 = 1;
/// `doctor` has found nothing worse than warnings.
pub const WARNINGS_FOUND: u8 = 1;
/// `doctor` has found errors.
pub const ERRORS_FOUND: u8 = 2;
/// The command line was not understood.
pub const USAGE: u8 = 2;
/// Something would be changed, or that cannot be told.
pub const PENDING: u8 = 3;
/// The run could not begin: configuration, scan, selectors, lock.
pub const COULD_NOT_RUN: u8 = 255;

/// Returns the exit code of a run that was ended by a signal, as shells count it: 130 for SIGINT, 143 for SIGTERM.
#[must_use]
pub fn interrupted(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or(0).saturating_add(128)
}

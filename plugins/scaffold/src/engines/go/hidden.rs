//! The names of functions that only `tree` can call: templates cannot, as these names begin with a space.

/// The function that records a position.
pub(super) const AT: &str = " at";
/// The function that prints a value.
pub(super) const SHOW: &str = " show";

/// The function that checks a format.
pub(super) const FORMAT: &str = " format";
/// The function that returns nil.
pub(super) const NOTHING: &str = " nothing";

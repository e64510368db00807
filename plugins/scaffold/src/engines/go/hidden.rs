//! The names of functions that `tree` calls and templates cannot, as no name begins with a blank.

/// The function that notes a place.
pub(super) const AT: &str = " at";
/// The function that prints a value.
pub(super) const SHOW: &str = " show";

/// The function that looks at a format.
pub(super) const FORMAT: &str = " format";
/// The function that gives nothing.
pub(super) const NOTHING: &str = " nothing";

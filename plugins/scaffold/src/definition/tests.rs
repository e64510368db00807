//! Definitions that are valid, and those that are not.

//! The two conventions by which providers are called.

pub(crate) mod json;
pub(crate) mod simple;

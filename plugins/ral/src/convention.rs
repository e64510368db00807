//! The two conventions for calling providers.

pub(crate) mod json;
pub(crate) mod simple;

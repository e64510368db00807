//! Warnings from gathering facts.

use holo_definitions::LocatedError;
use std::fmt::{self, Display};

/// The error of a source without facts; the other sources are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub LocatedError);

impl Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no facts from {}", self.0)
    }
}

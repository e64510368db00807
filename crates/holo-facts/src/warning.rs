//! Warnings that come up while facts are gathered.

use holo_definitions::LocatedError;
use std::fmt::{self, Display};

/// A source of facts that gave none; the others count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub LocatedError);

impl Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no facts from {}", self.0)
    }
}

//! The reason why a command failed.

use std::fmt::{self, Display};

/// The reason why something failed, in words.
#[derive(Debug)]
pub(crate) struct FleetError(pub(crate) String);

impl FleetError {
    /// Returns an error about something: `SUBJECT: REASON`.
    pub(crate) fn about(subject: impl Display, reason: impl Display) -> FleetError {
        FleetError(format!("{subject}: {reason}"))
    }
}

impl Display for FleetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FleetError {}

impl From<crate::config::ConfigError> for FleetError {
    fn from(error: crate::config::ConfigError) -> FleetError {
        FleetError(error.to_string())
    }
}

impl From<crate::signing::SigningError> for FleetError {
    fn from(error: crate::signing::SigningError) -> FleetError {
        FleetError(error.to_string())
    }
}

//! Units that users may want to adopt.

use crate::unit::UnitName;
use std::path::PathBuf;

/// A unit that a user may want to keep in its current state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noticed {
    pub(crate) unit: UnitName,
    pub(crate) notice: Notice,
    /// Its unit file, as an absolute path below the root.
    pub(crate) file: Option<PathBuf>,
}

/// The reason why a unit may be adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It was enabled manually.
    Enabled,
    /// It is enabled by default.
    EnabledAsUsual,
    /// It was disabled manually.
    Disabled,
    /// It was masked manually.
    Masked,
}

impl Notice {
    /// Returns the reason shown for a candidate.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Notice::Enabled => "enabled by hand",
            Notice::EnabledAsUsual => "enabled, as its package has it",
            Notice::Disabled => "disabled by hand",
            Notice::Masked => "masked by hand",
        }
    }
}

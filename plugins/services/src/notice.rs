//! Units that are worth a person's notice.

use crate::unit::UnitName;
use std::path::PathBuf;

/// A unit that a person may want to keep as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noticed {
    pub(crate) unit: UnitName,
    pub(crate) notice: Notice,
    /// The file in which it stands; absolute, below the root.
    pub(crate) file: Option<PathBuf>,
}

/// The way in which a unit is worth notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A person has enabled it.
    Enabled,
    /// It is enabled, as it would be without a person.
    EnabledAsUsual,
    /// A person has disabled it.
    Disabled,
    /// A person has masked it.
    Masked,
}

impl Notice {
    /// Returns the reason for which it is a candidate.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Notice::Enabled => "enabled by hand",
            Notice::EnabledAsUsual => "enabled, as its package has it",
            Notice::Disabled => "disabled by hand",
            Notice::Masked => "masked by hand",
        }
    }
}

//! The findings of `holo doctor`, as data.

use bstr::BString;
use holo_protocol::{Diagnosis, Level};

/// A finding about this machine: its level, a description, and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name of the check that found it, or the ID of the plugin.
    pub check: String,
    /// The level and the texts.
    pub diagnosis: Diagnosis,
}

impl Finding {
    /// Returns the finding of a check.
    pub fn new(check: &str, level: Level, title: impl AsRef<[u8]>, remedy: impl AsRef<[u8]>) -> Finding {
        Finding { check: check.to_owned(), diagnosis: Diagnosis::new(level, title, remedy) }
    }

    /// Returns its level.
    #[must_use]
    pub fn level(&self) -> Level {
        self.diagnosis.level
    }

    /// Returns the description.
    #[must_use]
    pub fn title(&self) -> &BString {
        &self.diagnosis.title
    }

    /// Returns the remedy, if there is one.
    #[must_use]
    pub fn remedy(&self) -> Option<&BString> {
        Some(&self.diagnosis.remedy).filter(|remedy| !remedy.is_empty())
    }
}

//! Findings of `holo doctor`, as data.

use bstr::BString;
use holo_protocol::{Diagnosis, Level};

/// A finding about this machine: something that is well, or not, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check that found it, or the ID of the plugin that did.
    pub check: String,
    /// The level and the texts.
    pub diagnosis: Diagnosis,
}

impl Finding {
    /// Returns the finding of a check.
    pub fn new(check: &str, level: Level, title: impl AsRef<[u8]>, remedy: impl AsRef<[u8]>) -> Finding {
        Finding { check: check.to_owned(), diagnosis: Diagnosis::new(level, title, remedy) }
    }

    /// Returns how bad it is.
    #[must_use]
    pub fn level(&self) -> Level {
        self.diagnosis.level
    }

    /// Returns what was found.
    #[must_use]
    pub fn title(&self) -> &BString {
        &self.diagnosis.title
    }

    /// Returns what a person can do about it, if there is anything.
    #[must_use]
    pub fn remedy(&self) -> Option<&BString> {
        Some(&self.diagnosis.remedy).filter(|remedy| !remedy.is_empty())
    }
}

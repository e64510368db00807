//! The data of a promise that is sent to a module.

use crate::level::LogLevel;
use holo_bridge::Attributes;

/// A promise, as sent to a module.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The type of the promise.
    pub(crate) kind: String,
    pub(crate) promiser: String,
    pub(crate) attributes: Attributes,
    pub(crate) log_level: LogLevel,
    /// The absolute path of the definition.
    pub(crate) filename: String,
    pub(crate) line: usize,
}

impl Subject {
    /// Returns the promise for a dry run.
    pub(crate) fn for_dry_run(&self) -> Subject {
        let mut subject = self.clone();
        subject.attributes.insert("action_policy", "warn");
        subject
    }
}

//! The data of a promise that a module gets.

use crate::level::LogLevel;
use holo_bridge::Attributes;

/// A promise, as a module gets to know it.
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
    /// Returns the same promise, but that nothing is to be changed for it.
    pub(crate) fn for_dry_run(&self) -> Subject {
        let mut subject = self.clone();
        subject.attributes.insert("action_policy", "warn");
        subject
    }
}

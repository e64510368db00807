//! What is managed: a plugin's report of it, and what selects it.

use bstr::{BStr, BString};
use holo_protocol::EntityReport;

/// An entity, as the user sees it.
#[derive(Clone, Debug)]
pub struct Entity {
    /// The place of its plugin in the configuration.
    pub plugin: usize,
    /// What its plugin reports of it, with paths as the user knows them.
    pub report: EntityReport,
    /// Every string that selects it: its ID, its plugin's, its resource files and their generators.
    pub selectors: Vec<BString>,
}

impl Entity {
    /// Its ID.
    #[must_use]
    pub fn id(&self) -> &BStr {
        self.report.id.as_ref()
    }
}

//! Formats records in words.

use super::record::{EntityRecord, RefusalRecord};
use holo_protocol::Text;

impl EntityRecord {
    /// Returns the changes to the entity, or the reason why there are none.
    #[must_use]
    pub fn what(&self) -> String {
        let mut what: Vec<String> = self.changes.iter().map(|Text(text)| text.to_string()).collect();
        what.extend(self.refused.iter().map(RefusalRecord::words));
        what.extend(self.reason.as_ref().map(|Text(reason)| reason.to_string()));
        if !self.refreshed_by.is_empty() {
            let sources: Vec<String> = self.refreshed_by.iter().map(|Text(id)| id.to_string()).collect();
            what.push(format!("refreshed by {}", sources.join(", ")));
        }
        what.join("; ")
    }
}

impl RefusalRecord {
    /// Returns the reason.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            RefusalRecord::Overwrite => "modified by user".to_owned(),
            RefusalRecord::Restore => "deleted by user".to_owned(),
            RefusalRecord::Other { reason } => reason.0.to_string(),
        }
    }
}

//! The records of declared files that a scan needs.

use holo_change::base_store::Remembered;
use holo_change::tracked::Tracks;
use std::collections::BTreeMap;

pub(super) enum Records {
    /// The records of all files.
    All(BTreeMap<String, Remembered<Tracks>>),
    /// The records of orphans only, because the scan is limited to some files.
    Orphans(BTreeMap<String, Remembered<Tracks>>),
}

impl Records {
    pub(super) fn get(&self) -> &BTreeMap<String, Remembered<Tracks>> {
        match self {
            Records::All(records) | Records::Orphans(records) => records,
        }
    }
}

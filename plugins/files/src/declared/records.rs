//! The records of declared files that a scan needs.

use holo_change::base_store::Remembered;
use holo_change::tracked::Tracks;
use std::collections::BTreeMap;

/// The records of declared files.
pub(super) enum Records {
    /// Those of all.
    All(BTreeMap<String, Remembered<Tracks>>),
    /// Those of files that nothing declares any more, as not all others have been asked for.
    Orphans(BTreeMap<String, Remembered<Tracks>>),
}

impl Records {
    pub(super) fn get(&self) -> &BTreeMap<String, Remembered<Tracks>> {
        match self {
            Records::All(records) | Records::Orphans(records) => records,
        }
    }
}

//! The plugin's [record](UnchangedRecord) of entities that are known to be unchanged: overlays and declared files.

use crate::overlay::layout::Layout;
use holo_change::UnchangedRecord;
use holo_plugin::Host;

/// Reads the record that earlier applies have kept, unless everything is to be read.
pub(crate) fn open(host: &Host, layout: &Layout) -> UnchangedRecord {
    let mut record = UnchangedRecord::open(&layout.record());
    if host.verifies() {
        record.distrust();
    }
    record
}

/// Keeps what this apply has learned.
pub(crate) fn keep(record: &UnchangedRecord, layout: &Layout) {
    record.keep(&layout.record(), &layout.images.staged("unchanged"));
}

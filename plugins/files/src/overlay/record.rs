//! The [record](UnchangedRecord) of unchanged overlays and declared files.

use crate::overlay::layout::Layout;
use holo_change::UnchangedRecord;
use holo_plugin::Host;

/// Reads the record, unless the user requested to read everything.
pub(crate) fn open(host: &Host, layout: &Layout) -> UnchangedRecord {
    let mut record = UnchangedRecord::open(&layout.record());
    if host.verifies() {
        record.distrust();
    }
    record
}

/// Writes the record of this apply.
pub(crate) fn keep(record: &UnchangedRecord, layout: &Layout) {
    record.keep(&layout.record(), &layout.images.staged("unchanged"));
}

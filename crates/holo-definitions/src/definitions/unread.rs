//! Entities whose tables were not read.

use crate::outline::TableId;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::OnceLock;

/// IDs of entities. There may be very many, and most are never looked up.
#[derive(Debug, Default)]
pub(super) struct UnreadIds {
    /// One per line.
    all: String,
    by_id: OnceLock<HashSet<String>>,
}

impl UnreadIds {
    pub(super) fn add(&mut self, id: TableId<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.all, "{id}");
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        let all = || self.all.split_terminator('\n').map(str::to_owned).collect();
        !self.all.is_empty() && self.by_id.get_or_init(all).contains(id)
    }
}

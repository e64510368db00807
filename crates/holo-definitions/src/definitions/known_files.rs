//! Cache of files known to be valid.

use crate::outline::{OutlinedTable, TableId};
use crate::source::FileState;

/// Records which files were valid the last time, so that only a part of them has to be read.
pub trait KnownFiles {
    /// Returns true if all of these files, and no others, were valid when last read, and have not changed since.
    fn are_right(&self, files: &[FileState]) -> bool;

    /// Records that these files, which are all that exist, are valid.
    fn found_right(&self, files: &[FileState]);

    /// Returns, for each table, whether it must be read; `None` if all must be. Tables that affect no other entity come
    /// with their IDs; all others are read anyway.
    fn choose(&self, tables: &[(OutlinedTable<'_>, Option<TableId<'_>>)]) -> Option<Vec<bool>>;
}

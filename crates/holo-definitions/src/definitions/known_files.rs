//! Files that are known to be right.

use crate::outline::{OutlinedTable, TableId};
use crate::source::FileState;

/// Files in which nothing was wrong the last time, so that not all that is in them has to be read.
pub trait KnownFiles {
    /// Returns true if nothing was wrong when all of these files were read, which were all that there were, and they are as they were then.
    fn are_right(&self, files: &[FileState]) -> bool;

    /// Notes that all of these files have been read, which are all that there are, and nothing is wrong in them.
    fn found_right(&self, files: &[FileState]);

    /// Returns for each table true if it is to be read; none if all are to be. Those that concern nobody but their entities have the IDs of
    /// these; all others are read anyway.
    fn choose(&self, tables: &[(OutlinedTable<'_>, Option<TableId<'_>>)]) -> Option<Vec<bool>>;
}

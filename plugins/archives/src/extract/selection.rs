//! Selecting the entries of an archive that are extracted.

use crate::definition::Archive;
use holo_change::PathError;
use holo_plugin::definitions::Globs;
use std::cell::Cell;
use std::path::Path;

/// Returns true if there is a user's file at a path.
pub(crate) type IsUsers<'a> = &'a dyn Fn(&Path) -> Result<bool, PathError>;

/// The selection of entries.
pub(crate) struct Selection<'a> {
    include: Globs,
    exclude: Globs,
    keep: Globs,
    is_users: IsUsers<'a>,
    /// True if any entry is included.
    has_any: Cell<bool>,
}

impl<'a> Selection<'a> {
    /// Creates the selection for a definition.
    pub(crate) fn new(archive: &Archive, is_users: IsUsers<'a>) -> Selection<'a> {
        // The patterns were validated.
        let globs = |texts: &[String]| Globs::new(texts).unwrap_or_default();
        let (include, exclude) = (globs(&archive.include), globs(&archive.exclude));
        Selection { include, exclude, keep: globs(&archive.keep), is_users, has_any: Cell::new(false) }
    }

    /// Returns true if the entry with this path is extracted.
    ///
    /// # Errors
    /// If it depends on an existing file that cannot be read.
    pub(super) fn has(&self, path: &Path) -> Result<bool, PathError> {
        if !self.include.is_empty() && !self.include.cover(path) {
            return Ok(false);
        }
        self.has_any.set(true);
        Ok(!self.exclude.cover(path) && (!self.keep.cover(path) || !(self.is_users)(path)?))
    }

    /// Returns true if there are include patterns, but no entry matches them.
    pub(super) fn includes_nothing(&self) -> bool {
        !self.include.is_empty() && !self.has_any.get()
    }
}

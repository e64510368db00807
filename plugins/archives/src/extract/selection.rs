//! The entries of an archive that are extracted.

use crate::definition::Archive;
use holo_change::PathError;
use holo_plugin::definitions::Globs;
use std::cell::Cell;
use std::path::Path;

/// Returns true if a file of a user is at a path.
pub(crate) type IsUsers<'a> = &'a dyn Fn(&Path) -> Result<bool, PathError>;

/// The choice among the entries of an archive.
pub(crate) struct Selection<'a> {
    include: Globs,
    exclude: Globs,
    keep: Globs,
    is_users: IsUsers<'a>,
    /// True if anything is included.
    has_any: Cell<bool>,
}

impl<'a> Selection<'a> {
    /// Returns the choice of a definition.
    pub(crate) fn new(archive: &Archive, is_users: IsUsers<'a>) -> Selection<'a> {
        // They were checked by the validation.
        let globs = |texts: &[String]| Globs::new(texts).unwrap_or_default();
        let (include, exclude) = (globs(&archive.include), globs(&archive.exclude));
        Selection { include, exclude, keep: globs(&archive.keep), is_users, has_any: Cell::new(false) }
    }

    /// Returns true if the entry of this path is extracted.
    ///
    /// # Errors
    /// If it depends on what is there, and that cannot be read.
    pub(super) fn has(&self, path: &Path) -> Result<bool, PathError> {
        if !self.include.is_empty() && !self.include.cover(path) {
            return Ok(false);
        }
        self.has_any.set(true);
        Ok(!self.exclude.cover(path) && (!self.keep.cover(path) || !(self.is_users)(path)?))
    }

    /// Returns true if something was to be included, and the archive has nothing of it.
    pub(super) fn includes_nothing(&self) -> bool {
        !self.include.is_empty() && !self.has_any.get()
    }
}

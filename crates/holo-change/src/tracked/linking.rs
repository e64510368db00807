//! Contents of files that are about to be replaced, as hard links to these files instead of copies.
//!
//! For a file that no other user can write to, this saves writing it again, and allocating and freeing an inode. Until
//! the file is replaced, writing to it also changes the content, which must not be used for other paths. Therefore
//!
//! - linked contents are recognized by their mode, which differs from that of written contents. A path that needs the
//!   same content gets a copy, which replaces the link;
//! - the file is only replaced if it has not changed since it was linked. Otherwise the link is removed;
//! - if a process has the file open for writing, the content is copied after the replacement. After a kill, this is
//!   done when the state is tidied up.

use super::Tracker;
use super::contents::{Contents, Digest, WRITTEN_MODE, copy, temporary_name};
use super::tracks::Tracks;
use crate::error::{Result, at};
use crate::image::Stamp;
use crate::open_files::are_open_by_name;
use crate::path_handle::{Durability, PathHandle};
use rustix::fs::Mode;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A marker file that exists while contents may be open for writing in other processes.
pub(super) const LINKED: &str = "linked";
/// The mode of a copy whose content does not match its digest, because the file was modified. It must not be used for
/// other paths.
const ALTERED_MODE: u32 = 0o400;

/// A content that is a hard link to the file at a path, until that file is replaced.
#[derive(Debug)]
pub(super) struct LinkedContent {
    path: PathBuf,
    digest: Digest,
    pub(super) content: PathHandle,
}

impl Contents {
    /// Returns true if a content is a hard link to an original file.
    fn is_linked(&self, content: &PathHandle) -> Result<bool> {
        Ok(content.stat()?.is_some_and(|stat| stat.mode != WRITTEN_MODE && stat.mode != ALTERED_MODE))
    }

    /// Stores the remaining data of an open file under this digest, which may not match: a process that has the file
    /// open may have modified it.
    pub(super) fn keep_as(&self, digest: &Digest, file: &mut File, shown: &Path) -> Result<()> {
        self.create_folder()?;
        let (new, content) = (self.place(&temporary_name()), self.place(digest.as_str()));
        let kept = new.create().and_then(|mut to| {
            if copy(file, &mut to, None).map_err(at("copy", shown))? != *digest {
                let mode = Mode::from_raw_mode(ALTERED_MODE);
                rustix::fs::fchmod(&to, mode).map_err(at("chmod", &new.shown()))?;
            }
            Durability::Each.sync([&new], [])?;
            new.rename_to(&content)
        });
        if kept.is_err() {
            let _ = new.remove();
        }
        kept.and_then(|()| Durability::Each.sync([], [&content]))
    }
}

impl Tracker {
    /// Links the original file of a path as its content, if it is going to be replaced, and no other user can write to
    /// it. `None` if a copy is needed.
    pub(super) fn link_content(&self, path: &Path, digest: &Digest, stamp: &Stamp) -> Result<Option<LinkedContent>> {
        let content = self.contents.place(digest.as_str());
        let is_linked = self.is_linked_to(path, digest, stamp)?;
        let looks_written = [WRITTEN_MODE, ALTERED_MODE].contains(&stamp.stat().mode);
        if looks_written || !stamp.is_ours_alone(if is_linked { 2 } else { 1 }) || self.contents.has(digest)? {
            return Ok(None);
        }
        self.contents.create_folder()?;
        // The link fails if the file is on another file system, or the content of another path exists.
        let is_linked = is_linked || self.place(path).link_to(&content).is_ok();
        Ok(is_linked.then(|| LinkedContent { path: path.to_owned(), digest: digest.clone(), content }))
    }

    /// Returns true if the original file of a path is already linked as its content, by a killed run.
    pub(super) fn is_linked_to(&self, path: &Path, digest: &Digest, stamp: &Stamp) -> Result<bool> {
        Ok(stamp.names() > 1 && self.contents.place(digest.as_str()).is_same_file(&self.place(path))?)
    }

    /// Removes a content that is still the file at its path. Returns false if it is not.
    pub(super) fn unlink_content(&self, linked: &LinkedContent) -> Result<bool> {
        let is_unchanged = linked.content.is_same_file(&self.place(&linked.path))?;
        if is_unchanged {
            linked.content.remove()?;
        }
        Ok(is_unchanged)
    }

    /// Creates the marker that contents may be linked.
    pub(super) fn begin_linking(&self) -> Result<()> {
        self.own.mark(LINKED)
    }

    /// Copies the contents of replaced files that a process can still write to.
    pub(super) fn end_linking<'l>(&self, all: impl Iterator<Item = &'l LinkedContent>) -> Result<()> {
        let all: Vec<&LinkedContent> = all.collect();
        let named: Vec<(&OsStr, &PathHandle)> =
            all.iter().map(|linked| (linked.path.file_name().unwrap_or_default(), &linked.content)).collect();
        for (linked, is_open) in all.iter().zip(are_open_by_name(&named)?) {
            if is_open {
                let mut file = linked.content.open()?;
                self.contents.keep_as(&linked.digest, &mut file, &linked.content.shown())?;
            }
        }
        self.own.place(LINKED).remove()
    }

    /// Does the same for all records, if a killed run has not done so.
    pub(super) fn recover_linking<'t>(&self, records: impl Iterator<Item = &'t Tracks>) -> Result<()> {
        if !self.own.place(LINKED).exists()? {
            return Ok(());
        }
        let mut linked = Vec::new();
        for (path, track) in records.flat_map(Tracks::iter) {
            let Some(digest) = track.base.content() else { continue };
            let content = self.contents.place(digest.as_str());
            if self.contents.is_linked(&content)? {
                linked.push(LinkedContent { path, digest: digest.clone(), content });
            }
        }
        self.end_linking(linked.iter())
    }
}

#[cfg(test)]
mod tests;

//! Contents of files that are about to be replaced: their own files, by a second name, and not copies.
//!
//! Of a file that nobody else can write to, that saves writing it again, and the file system an inode to make and one to free. Until it is
//! replaced, what is written to it is written to its content, too, and it may be the content of no other path. So
//!
//! - it is known by its mode, which is none that a written content has: a path that needs the same content gets a copy, which takes the
//!   place of this one;
//! - it is replaced only if it is still as it was when it was linked, and is no content any more otherwise;
//! - one that some process has open for writing is copied once it is replaced. After a kill, that is done when everything is tidied up.

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

/// Is there while contents may be files that others have open.
pub(super) const LINKED: &str = "linked";
/// The mode of a copy that turns out to be another content than its name says, as that has been written to: no other path may need it.
const ALTERED_MODE: u32 = 0o400;

/// A content that is the file at a path, until that is replaced.
#[derive(Debug)]
pub(super) struct LinkedContent {
    path: PathBuf,
    digest: Digest,
    pub(super) content: PathHandle,
}

impl Contents {
    /// Returns true if a content is a file that was found somewhere.
    fn is_linked(&self, content: &PathHandle) -> Result<bool> {
        Ok(content.stat()?.is_some_and(|stat| stat.mode != WRITTEN_MODE && stat.mode != ALTERED_MODE))
    }

    /// Keeps everything that is left to read of an open file as this content, which it may not be any more: somebody who has it open may have
    /// written to it.
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
    /// Makes the file that was found at a path its own content, if it is going to be replaced and nobody else can write to it; none if there
    /// has to be a copy.
    pub(super) fn link_content(&self, path: &Path, digest: &Digest, stamp: &Stamp) -> Result<Option<LinkedContent>> {
        let content = self.contents.place(digest.as_str());
        let is_linked = self.is_linked_to(path, digest, stamp)?;
        let looks_written = [WRITTEN_MODE, ALTERED_MODE].contains(&stamp.stat().mode);
        if looks_written || !stamp.is_ours_alone(if is_linked { 2 } else { 1 }) || self.contents.has(digest)? {
            return Ok(None);
        }
        self.contents.create_folder()?;
        // It may be on another file system, or there may be such a content, of another path.
        let is_linked = is_linked || self.place(path).link_to(&content).is_ok();
        Ok(is_linked.then(|| LinkedContent { path: path.to_owned(), digest: digest.clone(), content }))
    }

    /// Returns true if the file that was found at a path is its own content already, as a killed run has left it.
    pub(super) fn is_linked_to(&self, path: &Path, digest: &Digest, stamp: &Stamp) -> Result<bool> {
        Ok(stamp.names() > 1 && self.contents.place(digest.as_str()).is_same_file(&self.place(path))?)
    }

    /// Gives up a content that is still the file at its path; returns false if it is not.
    pub(super) fn unlink_content(&self, linked: &LinkedContent) -> Result<bool> {
        let is_unchanged = linked.content.is_same_file(&self.place(&linked.path))?;
        if is_unchanged {
            linked.content.remove()?;
        }
        Ok(is_unchanged)
    }

    /// Notes that contents may be linked from now on.
    pub(super) fn begin_linking(&self) -> Result<()> {
        self.own.mark(LINKED)
    }

    /// Copies the contents that some process can still write to, of paths that have been replaced.
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

    /// Does the same for all records, if a killed run has not come to it.
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

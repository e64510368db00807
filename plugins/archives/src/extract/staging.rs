//! The staging directory during an extraction.

use super::{EntryError, ExtractError, Extraction, ShortCopy, Target, names};
use crate::limits::Allowance;
use holo_change::manifest::{EntryKind, ManifestEntry, Ownership};
use holo_change::{Kind, PathError, PathHandle, Stamp, set_ownership};
use holo_download::Digests;
use holo_plugin::{Meter, Output};
use std::fs::{File, FileTimes};
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The permitted mode bits of extracted files, which exclude set-user-ID and set-group-ID, and writing by others.
const ALLOWED_MODE: u32 = 0o755;

/// The staging directory during an extraction. Examining it is faster than a list that is not in memory.
pub(super) struct Staging<'a, 'o> {
    pub(super) target: Target<'a>,
    pub(super) extraction: Extraction<'a>,
    pub(super) allowance: &'a Allowance,
    pub(super) progress: Progress<'a, 'o>,
    pub(super) buffer: Vec<u8>,
    /// The directory of the last entry.
    pub(super) last_directory: Option<PathBuf>,
}

/// The progress of reading the archive.
pub(super) struct Progress<'a, 'o> {
    /// A duplicated descriptor of the archive, which shares its position.
    pub(super) file: File,
    pub(super) meter: Meter,
    pub(super) output: &'a mut Output<'o>,
}

impl Progress<'_, '_> {
    fn show(&mut self) {
        if self.meter.is_due()
            && let Ok(position) = self.file.stream_position()
        {
            self.meter.reached(position, self.output);
        }
    }
}

impl Staging<'_, '_> {
    /// Returns the path for the entry with this name, if it is extracted.
    pub(super) fn destination(&self, name: &[u8]) -> Result<Option<PathBuf>, ExtractError> {
        self.allowance.count_entry().map_err(ExtractError::TooMany)?;
        let destination = names::destination(name, self.extraction.strip);
        let Some(path) = destination.map_err(|error| EntryError::Name(error).in_entry(name))? else { return Ok(None) };
        let is_selected = self.extraction.selection.has(&path);
        Ok(is_selected.map_err(|error| EntryError::from(error).in_entry(name))?.then_some(path))
    }

    pub(super) fn directory(&mut self, path: &Path, mode: u32) -> Result<(), EntryError> {
        self.make_parents(path)?;
        self.make_directory(path, (mode | 0o700) & ALLOWED_MODE)
    }

    /// Creates the parent directories that are not entries of the archive.
    fn make_parents(&mut self, path: &Path) -> Result<(), EntryError> {
        let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(()) };
        if self.last_directory.as_deref() == Some(parent) {
            return Ok(());
        }
        let mut is_missing = false;
        let mut above: Vec<&Path> = parent.ancestors().filter(|above| !above.as_os_str().is_empty()).collect();
        above.reverse();
        for above in above {
            let kind = if is_missing { None } else { self.kind(above)? };
            match kind {
                Some(Kind::Directory) => {}
                Some(_) => return Err(EntryError::ParentNotDirectory),
                None => {
                    is_missing = true;
                    self.allowance.count_entry()?;
                    self.make_directory(above, 0o755)?;
                }
            }
        }
        self.last_directory = Some(parent.to_owned());
        Ok(())
    }

    fn make_directory(&mut self, path: &Path, mode: u32) -> Result<(), EntryError> {
        // It is private in the staging directory, and gets its mode at its final path.
        if let Some(location) = self.location(path) {
            location.create_directory(0o700)?;
        }
        self.add(path, EntryKind::Directory { mode });
        Ok(())
    }

    /// Returns the path to be written, if files are written.
    fn location(&self, path: &Path) -> Option<PathHandle> {
        self.target.tree.as_ref().map(|tree| tree.place(path))
    }

    fn kind(&self, path: &Path) -> Result<Option<Kind>, PathError> {
        if let Some(location) = self.location(path) {
            return Ok(location.stat()?.map(|stat| stat.kind));
        }
        Ok(self.target.entries.get(path).map(|entry| match entry.kind {
            EntryKind::Directory { .. } => Kind::Directory,
            EntryKind::File { .. } => Kind::File,
            EntryKind::Symlink { .. } => Kind::Symlink,
        }))
    }

    /// Returns the target of the symlink at a path, if it is one.
    fn symlink_at(&self, path: &Path) -> Result<Option<Vec<u8>>, PathError> {
        let Some(location) = self.location(path) else {
            let target = |entry: &ManifestEntry| match &entry.kind {
                EntryKind::Symlink { target } => Some(target.0.to_vec()),
                _ => None,
            };
            return Ok(self.target.entries.get(path).and_then(target));
        };
        let is_symlink = location.stat()?.is_some_and(|stat| stat.kind == Kind::Symlink);
        is_symlink.then(|| location.read_link()).transpose()
    }

    /// Creates the parents of a file or symlink. Returns the path to be written, if files are written.
    fn free_location(&mut self, path: &Path) -> Result<Option<PathHandle>, EntryError> {
        self.make_parents(path)?;
        let location = self.location(path);
        // If files are written, creating the file detects this.
        if location.is_none() && self.kind(path)? == Some(Kind::Directory) {
            return Err(EntryError::AlsoDirectory);
        }
        Ok(location)
    }

    pub(super) fn file(
        &mut self,
        path: &Path,
        mode: u32,
        size: Option<u64>,
        modified: Option<u64>,
        content: &mut impl Read,
    ) -> Result<(), EntryError> {
        let mode = mode & ALLOWED_MODE;
        let location = self.free_location(path)?;
        let create = |location: &PathHandle| location.create().or_else(|error| self.not_made(path, error));
        let mut file = location.as_ref().map(create).transpose()?;
        let copy = ShortCopy::new(self.target.contents.is_some());
        let (allowance, progress) = (self.allowance, &mut self.progress);
        let mut tee = Tee { content, file: file.as_mut(), copy, allowance, progress, size: 0 };
        let digests = Digests::read_with(&mut tee, None, &mut self.buffer)?;
        let (actual, copy) = (tee.size, tee.copy.into_content());
        if let Some(size) = size.filter(|size| *size != actual) {
            return Err(EntryError::Truncated { actual, size });
        }
        let sha256 = digests.sha256.clone();
        if let (Some(contents), Some(copy)) = (&mut self.target.contents, copy) {
            contents.offer(&sha256, copy);
        }
        if let (Some(location), Some(file)) = (&location, &file) {
            self.complete(location, file, mode, modified, digests)?;
        }
        self.add(path, EntryKind::File { mode, size: actual, sha256 });
        Ok(())
    }

    /// Sets the metadata of a written file, and caches its digests.
    fn complete(
        &self,
        location: &PathHandle,
        file: &File,
        mode: u32,
        modified: Option<u64>,
        digests: Digests,
    ) -> Result<(), EntryError> {
        let Ownership { uid, gid } = self.extraction.owner;
        let shown = location.shown();
        set_ownership(file, &shown, uid, gid, mode)?;
        if let Some(time) =
            modified.and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)))
        {
            // Times that the file system cannot represent are ignored.
            let _ = file.set_times(FileTimes::new().set_modified(time));
        }
        self.extraction.checksums.note_written(&Stamp::of_open(file, &shown)?, digests);
        Ok(())
    }

    pub(super) fn symlink(&mut self, path: &Path, target: &[u8]) -> Result<(), EntryError> {
        if target.is_empty() || target.contains(&0) {
            return Err(EntryError::EmptySymlink);
        }
        if let Some(location) = self.free_location(path)? {
            let Ownership { uid, gid } = self.extraction.owner;
            location.create_symlink(target).or_else(|error| self.not_made(path, error))?;
            location.give_to(uid, gid)?;
        }
        self.add(path, EntryKind::Symlink { target: target.to_owned().into() });
        Ok(())
    }

    /// Creates a hard link to a file that was already extracted.
    pub(super) fn hard_link(&mut self, path: &Path, target: &Path) -> Result<(), EntryError> {
        let is_file = |entry: &&ManifestEntry| matches!(entry.kind, EntryKind::File { .. });
        let Some(kind) = self.target.entries.get(target).filter(is_file).map(|entry| entry.kind.clone()) else {
            let is_selected = self.extraction.selection.has(target)?;
            return Err(if is_selected { EntryError::HardLinkToMissing } else { EntryError::HardLinkToStripped });
        };
        if path == target {
            return Ok(());
        }
        if let (Some(location), Some(target)) = (self.free_location(path)?, self.location(target)) {
            location.remove().or_else(|error| self.not_made(path, error))?;
            target.link_to(&location)?;
        }
        self.add(path, kind);
        Ok(())
    }

    /// Returns the error for a file that could not be created. As with tar, the last entry with a name is used, except
    /// for directories.
    fn not_made<T>(&self, path: &Path, error: PathError) -> Result<T, EntryError> {
        Err(if self.kind(path)? == Some(Kind::Directory) { EntryError::AlsoDirectory } else { error.into() })
    }

    fn add(&mut self, path: &Path, kind: EntryKind) {
        self.target.entries.insert(path.to_owned(), ManifestEntry { kind, owner: self.extraction.owner });
    }

    pub(super) fn finish(self) -> Result<(), ExtractError> {
        if self.extraction.selection.includes_nothing() {
            return Err(ExtractError::NothingIncluded);
        }
        let symlink_at = |path: &Path| self.symlink_at(path);
        for (link, entry) in &*self.target.entries {
            let EntryKind::Symlink { target } = &entry.kind else { continue };
            let name = link.as_os_str().as_bytes();
            match names::leads_out(link, &target.0, &symlink_at, self.extraction.top) {
                Ok(false) => {}
                Ok(true) => return Err(EntryError::LeadsOut(target.0.clone()).in_entry(name)),
                Err(error) => return Err(EntryError::from(error).in_entry(name)),
            }
        }
        Ok(())
    }
}

/// A reader that also writes the content to a file, if there is one, and copies short contents.
struct Tee<'a, 'p, 'o, R> {
    content: &'a mut R,
    file: Option<&'a mut File>,
    copy: ShortCopy,
    allowance: &'a Allowance,
    progress: &'a mut Progress<'p, 'o>,
    size: u64,
}

impl<R: Read> Read for Tee<'_, '_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.content.read(buffer)?;
        self.allowance.count_written(length as u64)?;
        self.size += length as u64;
        self.progress.show();
        let read = buffer.get(..length).unwrap_or_default();
        self.copy.add(read);
        if let Some(file) = &mut self.file {
            io::Write::write_all(file, read)?;
        }
        Ok(length)
    }
}

//! Extraction of archives into a staging directory, or nowhere, to know their entries. Nothing that is in use is touched.

mod error;
mod names;
mod tar;
mod zip;

use crate::checksum::{BUFFER_SIZE, Digests};
use crate::checksum_cache::ChecksumCache;
use crate::format::Format;
use crate::limits::{Allowance, Limits};
use error::EntryError;
use holo_change::manifest::{EntryKind, ManifestEntry, Ownership};
use holo_change::{PathHandle, Stamp, Tree, set_ownership};
use holo_plugin::{Meter, Output, Silence};
use std::collections::BTreeMap;
use std::fs::{File, FileTimes};
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub(crate) use error::ExtractError;

/// The options of an extraction.
#[derive(Clone, Copy)]
pub(crate) struct Extraction<'a> {
    /// The path that the tree is going to have, as symlinks may name it.
    pub(crate) top: &'a Path,
    pub(crate) strip: u32,
    pub(crate) limits: Limits,
    pub(crate) owner: Ownership,
    /// Takes note of the digests of files.
    pub(crate) checksums: &'a ChecksumCache,
}

/// The permissions that extracted files may have: not to run as others, nor to be written by them.
const ALLOWED_MODE: u32 = 0o755;

/// Extracts everything into an empty directory. Returns the entries by path. Nothing is synced.
///
/// # Errors
/// If something is wrong with the archive or the disk.
pub(crate) fn extract(
    file: &mut File,
    into: &Arc<Tree>,
    extraction: Extraction<'_>,
    output: &mut Output<'_>,
) -> Result<BTreeMap<PathBuf, ManifestEntry>, ExtractError> {
    read(file, Some(into), extraction, output)
}

/// Returns the entries that extracting everything would make. Nothing is written.
///
/// # Errors
/// If something is wrong with the archive.
pub(crate) fn list(
    file: &mut File,
    extraction: Extraction<'_>,
) -> Result<BTreeMap<PathBuf, ManifestEntry>, ExtractError> {
    read(file, None, extraction, &mut Output::new(&mut Silence))
}

fn read(
    file: &mut File,
    into: Option<&Arc<Tree>>,
    extraction: Extraction<'_>,
    output: &mut Output<'_>,
) -> Result<BTreeMap<PathBuf, ManifestEntry>, ExtractError> {
    let size = file.metadata().map_err(ExtractError::Unreadable)?.len();
    let allowance = Allowance::new(extraction.limits, size);
    let mut staging = Staging {
        tree: into.cloned(),
        extraction,
        allowance: &allowance,
        progress: Progress {
            file: file.try_clone().map_err(ExtractError::Unreadable)?,
            meter: Meter::of_bytes("extracting", Some(size)),
            output,
        },
        buffer: vec![0; BUFFER_SIZE],
        entries: BTreeMap::new(),
        symlinks: BTreeMap::new(),
    };
    match Format::detect(file).map_err(ExtractError::Unreadable)? {
        None => return Err(ExtractError::UnknownFormat),
        Some(Format::Tar(compression)) => {
            tar::read(compression.reader(file).map_err(ExtractError::Unreadable)?, &mut staging)?;
        }
        Some(Format::Zip) => zip::read(file, &mut staging)?,
    }
    staging.finish()
}

/// The staging directory while entries are extracted into it.
struct Staging<'a, 'o> {
    /// The directory itself, unless only the entries are to be known.
    tree: Option<Arc<Tree>>,
    extraction: Extraction<'a>,
    allowance: &'a Allowance,
    progress: Progress<'a, 'o>,
    buffer: Vec<u8>,
    entries: BTreeMap<PathBuf, ManifestEntry>,
    symlinks: BTreeMap<PathBuf, Vec<u8>>,
}

/// The progress of reading the archive.
struct Progress<'a, 'o> {
    /// A second descriptor of the archive, with the same position.
    file: File,
    meter: Meter,
    output: &'a mut Output<'o>,
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
    /// Returns the path of the entry with this name, if it is to be extracted.
    fn destination(&self, name: &[u8]) -> Result<Option<PathBuf>, ExtractError> {
        self.allowance.count_entry().map_err(ExtractError::TooMany)?;
        names::destination(name, self.extraction.strip).map_err(|error| EntryError::Name(error).in_entry(name))
    }

    fn directory(&mut self, path: PathBuf, mode: u32) -> Result<(), EntryError> {
        self.make_parents(&path)?;
        self.make_directory(path, (mode | 0o700) & ALLOWED_MODE)
    }

    /// Makes the directories above a path that are not entries of the archive.
    fn make_parents(&mut self, path: &Path) -> Result<(), EntryError> {
        let mut missing = Vec::new();
        for parent in path.ancestors().skip(1).take_while(|parent| !parent.as_os_str().is_empty()) {
            match self.entries.get(parent) {
                Some(entry) if entry.is_directory() => break,
                Some(_) => return Err(EntryError::ParentNotDirectory),
                None => missing.push(parent.to_owned()),
            }
        }
        missing.into_iter().rev().try_for_each(|parent| {
            self.allowance.count_entry()?;
            self.make_directory(parent, 0o755)
        })
    }

    fn make_directory(&mut self, path: PathBuf, mode: u32) -> Result<(), EntryError> {
        // It is private in the staging directory; it gets its mode where it is going to be.
        if let Some(tree) = &self.tree {
            tree.place(&path).create_directory(0o700)?;
        }
        self.add(path, EntryKind::Directory { mode });
        Ok(())
    }

    fn file(
        &mut self,
        path: PathBuf,
        mode: u32,
        size: u64,
        modified: Option<u64>,
        content: &mut impl Read,
    ) -> Result<(), EntryError> {
        let mode = mode & ALLOWED_MODE;
        let location = self.free_location(&path)?;
        let mut file = location.as_ref().map(PathHandle::create).transpose()?;
        let mut tee =
            Tee { content, file: file.as_mut(), allowance: self.allowance, progress: &mut self.progress, size: 0 };
        let digests = Digests::read_with(&mut tee, None, &mut self.buffer)?;
        if tee.size != size {
            return Err(EntryError::Truncated { actual: tee.size, size });
        }
        let sha256 = digests.sha256.clone();
        if let (Some(location), Some(file)) = (&location, &file) {
            self.complete(location, file, mode, modified, digests)?;
        }
        self.add(path, EntryKind::File { mode, size, sha256 });
        Ok(())
    }

    /// Gives a file that was written its properties, and takes note of its digests.
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
            // A time that the file system cannot hold is no reason to fail.
            let _ = file.set_times(FileTimes::new().set_modified(time));
        }
        self.extraction.checksums.note_written(&Stamp::of_open(file, &shown)?, digests);
        Ok(())
    }

    fn symlink(&mut self, path: PathBuf, target: &[u8]) -> Result<(), EntryError> {
        if target.is_empty() || target.contains(&0) {
            return Err(EntryError::EmptySymlink);
        }
        if let Some(location) = self.free_location(&path)? {
            let Ownership { uid, gid } = self.extraction.owner;
            location.create_symlink(target)?;
            location.give_to(uid, gid)?;
        }
        self.symlinks.insert(path.clone(), target.to_owned());
        self.add(path, EntryKind::Symlink { target: target.to_owned() });
        Ok(())
    }

    /// Makes another name of a file that was extracted before.
    fn hard_link(&mut self, path: PathBuf, target: &Path) -> Result<(), EntryError> {
        let is_file = |entry: &&ManifestEntry| matches!(entry.kind, EntryKind::File { .. });
        let Some(entry) = self.entries.get(target).filter(is_file).cloned() else {
            return Err(EntryError::HardLinkToMissing);
        };
        if path == target {
            return Ok(());
        }
        if let (Some(location), Some(tree)) = (self.free_location(&path)?, &self.tree) {
            location.remove()?;
            tree.place(target).link_to(&location)?;
        }
        self.add(path, entry.kind);
        Ok(())
    }

    /// Returns the location of a file or symlink, if it is to be written, after the directories above it have been made.
    fn free_location(&mut self, path: &Path) -> Result<Option<PathHandle>, EntryError> {
        self.make_parents(path)?;
        match self.entries.get(path) {
            Some(entry) if entry.is_directory() => Err(EntryError::AlsoDirectory),
            // As with tar, the last entry of a name counts.
            _ => Ok(self.tree.as_ref().map(|tree| tree.place(path))),
        }
    }

    fn add(&mut self, path: PathBuf, kind: EntryKind) {
        if !matches!(kind, EntryKind::Symlink { .. }) {
            self.symlinks.remove(&path);
        }
        self.entries.insert(path, ManifestEntry { kind, owner: self.extraction.owner });
    }

    fn finish(self) -> Result<BTreeMap<PathBuf, ManifestEntry>, ExtractError> {
        for (link, target) in &self.symlinks {
            if names::leads_out(link, target, &self.symlinks, self.extraction.top) {
                return Err(EntryError::LeadsOut(target.as_slice().into()).in_entry(link.as_os_str().as_bytes()));
            }
        }
        Ok(self.entries)
    }
}

/// A reader of a content that also writes it to a file, if there is one.
struct Tee<'a, 'p, 'o, R> {
    content: &'a mut R,
    file: Option<&'a mut File>,
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
        if let Some(file) = &mut self.file {
            io::Write::write_all(file, buffer.get(..length).unwrap_or_default())?;
        }
        Ok(length)
    }
}

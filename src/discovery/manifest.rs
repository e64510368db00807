//! Stamps of files, which are taken once and compared later, all of them or a few.
//!
//! The directories on the way to a file count too: another directory or symlink in the place of one of them leads to
//! other files, even if the file itself has not changed.

use crate::generations::hasher;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::{Witness, WitnessKind};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, open, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ffi::CStr;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::time::SystemTime;
use std::{io, thread};

/// The number of files that are compared by one thread.
const PER_THREAD: usize = 2048;
/// The maximum number of threads that compare files.
const MAX_THREADS: usize = 8;

/// The number of absent names in changed directories up to which looking for each costs less than writing a new manifest. A directory of
/// holo's own changes in each run.
const FEW: usize = 100;

/// The stamp of a file that does not exist.
const NONE: u64 = 0;
/// The stamp of a file that cannot be examined, or that has changed while it was. It is equal to no stamp.
const UNKNOWN: u64 = u64::MAX;

/// The stamps of files, and of the directories that lead to them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Every directory comes after its parent.
    directories: Vec<Directory>,
    /// Files of the same directory follow each other.
    files: Vec<File>,
    /// The names of the files, each followed by a NUL, so that they are read at once and need not be copied.
    names: BString,
}

/// The index of a file in a manifest.
pub(super) type FileIndex = u32;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Directory {
    path: BString,
    parent: Option<u32>,
    /// What the path refers to: the digest of device, inode, mode and owner; of a symlink, with its times.
    identity: u64,
    /// The digest of the times, which stand for the names in it. [`NONE`] if they prove nothing yet.
    names: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct File {
    directory: u32,
    /// The end of its name, with the NUL, in the names of all files.
    name_end: u32,
    kind: WitnessKind,
    stamp: u64,
}

/// A file with its name.
#[derive(Clone, Debug)]
struct NamedFile {
    directory: u32,
    name: BString,
    kind: WitnessKind,
    stamp: u64,
}

/// A directory compared with its state when the manifest was made.
#[derive(Clone, Copy, Debug, Default)]
struct Compared {
    /// Whether its path leads to the same directory.
    is_same: bool,
    /// Whether it contains the same names.
    has_same_names: bool,
}

impl Manifest {
    /// Returns for each file whether it is unchanged, and whether the times of directories are outdated, which makes
    /// comparisons much slower.
    pub(super) fn compare(&self) -> (Vec<bool>, bool) {
        let mut compared: Vec<Compared> = Vec::with_capacity(self.directories.len());
        for directory in &self.directories {
            let is_led_to =
                directory.parent.is_none_or(|parent| at(&compared, parent).is_some_and(|parent| parent.is_same));
            compared.push(if is_led_to { directory.compare() } else { Compared::default() });
        }
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let threads = (self.files.len() / PER_THREAD + 1).min(processors).min(MAX_THREADS);
        let (size, compared) = (self.files.len().div_ceil(threads).max(1), &compared);
        let mut parts = (0..self.files.len()).step_by(size).map(|begin| begin..(begin + size).min(self.files.len()));
        let own = parts.next().unwrap_or_default();
        let same = thread::scope(|scope| {
            let others: Vec<_> = parts.map(|part| scope.spawn(|| self.compare_part(part, compared))).collect();
            let mut same = self.compare_part(own, compared);
            for other in others {
                same.extend(other.join().unwrap_or_default());
            }
            // If a thread has failed, its files count as changed.
            same.resize(self.files.len(), false);
            same
        });
        let absent = self.files.iter().filter(|file| file.kind == WitnessKind::Absent);
        let above = absent.filter_map(|file| at(compared, file.directory));
        let outdated = above.filter(|compared| compared.is_same && !compared.has_same_names);
        (same, outdated.take(FEW + 1).count() > FEW)
    }

    /// Returns true if no file has changed, and comparisons are fast.
    pub(super) fn is_unchanged(&self) -> bool {
        let (same, is_outdated) = self.compare();
        !is_outdated && same.into_iter().all(|is_same| is_same)
    }

    fn compare_part(&self, part: Range<usize>, compared: &[Compared]) -> Vec<bool> {
        let mut opened: Option<(u32, io::Result<OwnedFd>)> = None;
        let mut same = Vec::with_capacity(part.len());
        for (index, file) in part.clone().zip(self.files.get(part).unwrap_or_default()) {
            let (Some(directory), Some(compared)) =
                (at(&self.directories, file.directory), at(compared, file.directory))
            else {
                same.push(false);
                continue;
            };
            same.push(if !compared.is_same {
                false
            } else if file.kind == WitnessKind::Absent && compared.has_same_names {
                true
            } else {
                if opened.as_ref().is_none_or(|(index, _)| *index != file.directory) {
                    opened = Some((file.directory, directory.open()));
                }
                match &opened {
                    Some((_, Ok(opened))) => file.is_same_in(opened, self.name(index)),
                    _ => file.stamp == NONE && directory.identity == NONE,
                }
            });
        }
        same
    }

    /// Returns true if these files are unchanged.
    pub(super) fn compare_some(&self, files: &[FileIndex]) -> bool {
        files.iter().all(|&index| {
            let Some((file, name)) = self.file(index) else { return false };
            let mut above = Some(file.directory);
            while let Some(directory) = above.and_then(|index| at(&self.directories, index)) {
                if !directory.compare().is_same {
                    return false;
                }
                above = directory.parent;
            }
            let directory = at(&self.directories, file.directory);
            directory.is_some_and(|directory| match directory.open() {
                Ok(opened) => file.is_same_in(&opened, name),
                Err(_) => file.stamp == NONE && directory.identity == NONE,
            })
        })
    }

    fn file(&self, index: FileIndex) -> Option<(&File, &CStr)> {
        let index = usize::try_from(index).ok()?;
        Some((self.files.get(index)?, self.name(index)))
    }

    fn name(&self, index: usize) -> &CStr {
        let end = |index| self.files.get(index).and_then(|file: &File| usize::try_from(file.name_end).ok());
        let begin = index.checked_sub(1).and_then(end).unwrap_or_default();
        let name = self.names.get(begin..end(index).unwrap_or_default()).unwrap_or_default();
        CStr::from_bytes_with_nul(name).unwrap_or_default()
    }
}

impl File {
    fn is_same_in(&self, directory: &impl AsFd, name: &CStr) -> bool {
        self.stamp != UNKNOWN && self.stamp == stamp(directory, name)
    }
}

impl NamedFile {
    fn key(&self) -> (u32, &BStr, WitnessKind) {
        (self.directory, self.name.as_ref(), self.kind)
    }
}

impl Directory {
    fn compare(&self) -> Compared {
        let (identity, names) = directory_digests(self.path.as_ref(), None);
        let is_same = identity == self.identity;
        // A missing directory contains no names.
        let has_same_names = if identity == NONE { is_same } else { self.names != NONE && names == self.names };
        Compared { is_same, has_same_names }
    }

    fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        open(self.path.as_slice(), flags, Mode::empty()).map_err(io::Error::from)
    }
}

fn at<T>(items: &[T], index: u32) -> Option<&T> {
    items.get(usize::try_from(index).ok()?)
}

/// Returns the digests of what a path refers to, and of the names in it. If a time is given, the latter proves nothing
/// unless the directory was last changed before.
fn directory_digests(path: &BStr, before: Option<SystemTime>) -> (u64, u64) {
    let Ok(link) = statat(CWD, path.as_bytes(), AtFlags::SYMLINK_NOFOLLOW) else { return (NONE, NONE) };
    let is_symlink = FileType::from_raw_mode(link.st_mode) == FileType::Symlink;
    let stat = if is_symlink { statat(CWD, path.as_bytes(), AtFlags::empty()).ok() } else { Some(link) };
    let Some(stat) = stat else { return (NONE, NONE) };
    let of = |stat: &Stat| (stat.st_dev, stat.st_ino, stat.st_mode, stat.st_uid, stat.st_gid);
    let is_settled = before.is_none_or(|moment| is_settled(&stat, moment));
    let names = if is_settled { digest(&times(&stat)) } else { NONE };
    (digest(&(of(&stat), is_symlink.then(|| (of(&link), times(&link))))), names)
}

/// Returns the stamp of a file in a directory; [`NONE`] if it does not exist.
fn stamp(directory: &impl AsFd, name: &CStr) -> u64 {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stamp_of(&stat),
        Err(Errno::NOENT) => NONE,
        Err(_) => UNKNOWN,
    }
}

fn stamp_of(stat: &Stat) -> u64 {
    let (mode, uid, gid) = (u64::from(stat.st_mode), u64::from(stat.st_uid), u64::from(stat.st_gid));
    let size = stat.st_size.cast_unsigned();
    // Arrays are hashed faster than tuples.
    digest(&([stat.st_dev, stat.st_ino, mode, uid, gid, stat.st_rdev, size], times(stat)))
}

fn times(stat: &Stat) -> [u64; 4] {
    [stat.st_mtime.cast_unsigned(), stat.st_mtime_nsec, stat.st_ctime.cast_unsigned(), stat.st_ctime_nsec]
}

/// Returns a digest that is neither [`NONE`] nor [`UNKNOWN`].
pub(super) fn digest(value: &impl Hash) -> u64 {
    let mut hasher = hasher();
    value.hash(&mut hasher);
    hasher.finish().clamp(NONE + 1, UNKNOWN - 1)
}

/// Returns true if a change after this moment results in other times.
fn is_settled(stat: &Stat, moment: SystemTime) -> bool {
    holo_change::is_settled(stat.st_mtime.max(stat.st_ctime).try_into().unwrap_or_default(), moment)
}

/// Makes a manifest.
pub(super) struct Builder {
    /// The start of the run: files that were changed later may have been changed again since they were read.
    began: SystemTime,
    directories: Vec<Directory>,
    files: Vec<NamedFile>,
    /// The indexes of the directories by their paths.
    indexes: HashMap<BString, u32>,
}

impl Builder {
    pub(super) fn new(began: SystemTime) -> Builder {
        Builder { began, directories: Vec::new(), files: Vec::new(), indexes: HashMap::new() }
    }

    /// Adds a file with its present stamp. `None` if that would prove nothing, because the file has changed too
    /// recently, or is not as the witness says. With `follows`, a symlink proves nothing.
    pub(super) fn add(&mut self, witness: &Witness, follows: bool) -> Option<FileIndex> {
        let path = witness.path.strip_suffix(b"/").unwrap_or(&witness.path);
        let (parent, name) = path.rsplit_once_str("/")?;
        let is_plain = |name: &[u8]| !matches!(name, b"" | b"." | b"..");
        if !path.split_str("/").skip(1).all(is_plain) {
            return None;
        }
        let stat = match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(_) => return None,
        };
        let stamp = match (witness.kind, stat) {
            (WitnessKind::Absent, Some(_)) | (WitnessKind::Claims, _) => return None,
            (_, None) => NONE,
            (WitnessKind::File, Some(stat)) => {
                let is_symlink = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
                if follows && is_symlink || !is_settled(&stat, self.began) {
                    return None;
                }
                stamp_of(&stat)
            }
        };
        let directory = self.directory(parent.as_bstr())?;
        self.insert(NamedFile { directory, name: name.into(), kind: witness.kind, stamp })
    }

    /// Adds a file of another manifest with the stamp that it has there.
    pub(super) fn copy(&mut self, other: &Manifest, index: FileIndex) -> Option<FileIndex> {
        let (file, name) = other.file(index)?;
        let path = &at(&other.directories, file.directory)?.path;
        // Absent names have been looked for in this run, so the present times of the directory may prove their absence.
        let directory = self.directory(if path == "/" { BStr::new("") } else { path.as_bstr() })?;
        self.insert(NamedFile { directory, name: name.to_bytes().into(), kind: file.kind, stamp: file.stamp })
    }

    /// Returns the manifest, and the new index of each file that was added. A file that was added twice with different
    /// stamps has changed meanwhile, and is never the same again.
    pub(super) fn finish(self) -> (Manifest, Vec<FileIndex>) {
        let mut indexes = vec![0; self.files.len()];
        let mut sorted: Vec<(usize, NamedFile)> = self.files.into_iter().enumerate().collect();
        sorted.sort_by(|(_, one), (_, other)| one.key().cmp(&other.key()));
        let mut files: Vec<NamedFile> = Vec::with_capacity(sorted.len());
        for (old, file) in sorted {
            match files.last_mut().filter(|last| last.key() == file.key()) {
                Some(last) if last.stamp == file.stamp => {}
                Some(last) => last.stamp = UNKNOWN,
                None => files.push(file),
            }
            if let (Some(index), Ok(new)) = (indexes.get_mut(old), u32::try_from(files.len() - 1)) {
                *index = new;
            }
        }
        let mut names = BString::default();
        let files = files.into_iter().map(|NamedFile { directory, name, kind, stamp }| {
            names.extend_from_slice(&name);
            names.push(0);
            // Names beyond this end are not found, and their files count as changed.
            let name_end = u32::try_from(names.len()).unwrap_or(u32::MAX);
            File { directory, name_end, kind, stamp }
        });
        let files = files.collect();
        (Manifest { directories: self.directories, files, names }, indexes)
    }

    fn insert(&mut self, file: NamedFile) -> Option<FileIndex> {
        let index = u32::try_from(self.files.len()).ok()?;
        self.files.push(file);
        Some(index)
    }

    fn directory(&mut self, path: &BStr) -> Option<u32> {
        if let Some(&index) = self.indexes.get(path) {
            return Some(index);
        }
        let parent = match path.rsplit_once_str("/") {
            Some((parent, _)) => Some(self.directory(parent.as_bstr())?),
            None => None,
        };
        let path_or_root = if path.is_empty() { BStr::new("/") } else { path };
        let (identity, names) = directory_digests(path_or_root, Some(self.began));
        let index = u32::try_from(self.directories.len()).ok()?;
        self.directories.push(Directory { path: path_or_root.into(), parent, identity, names });
        self.indexes.insert(path.into(), index);
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::time::Duration;

    #[test]
    fn names_in_missing_directories_are_absent() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("missing/name");
        let mut builder = Builder::new(SystemTime::now() + Duration::from_secs(10));
        let witness = Witness::new(WitnessKind::Absent, path.as_os_str().as_bytes());
        assert_eq!(builder.add(&witness, false), Some(0));
        let (manifest, _) = builder.finish();
        assert_eq!(manifest.compare(), (vec![true], false));
        fs::create_dir(root.path().join("missing")).unwrap();
        assert_eq!(manifest.compare().0, [false]);
        fs::write(path, "").unwrap();
        assert_eq!(manifest.compare().0, [false]);
    }
}

//! Files that are changed in place instead of being replaced, and the detection of files that are open for writing.

use crate::error::{PathError, Result, at};
use crate::path_handle::PathHandle;
use crate::resolution;
use rustix::fs::{AtFlags, FileType, OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Checks that a file can safely be changed in place.
pub(crate) fn check_in_place(stat: &Stat, place: &PathHandle) -> Result<()> {
    let shown = place.shown();
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(PathError::new("chmod", shown, Errno::INVAL));
    }
    let folder = rustix::fs::fstat(place.open_directory()?).map_err(at("stat", &shown))?;
    if stat.st_nlink > 1 && !resolution::is_trusted(folder.st_uid) {
        let words = "it has several names, in a directory of another user";
        return Err(PathError::new("chmod", shown, io::Error::new(io::ErrorKind::PermissionDenied, words)));
    }
    Ok(())
}

/// Returns true if the content may be the result of a kill during an overwrite: each byte is that of the old or the new
/// content.
#[must_use]
pub fn is_between(current: &[u8], old: &[u8], new: &[u8]) -> bool {
    let is_between = |(index, byte): (usize, &u8)| {
        // A block that has not been written to disk is zero.
        new.get(index) == Some(byte) || old.get(index).map_or(*byte == 0, |old| old == byte)
    };
    let lengths = old.len().min(new.len())..=old.len().max(new.len());
    lengths.contains(&current.len()) && current.iter().enumerate().all(is_between)
}

/// Adds a hint to the error for a file that cannot be replaced.
pub(crate) fn with_hint(error: PathError) -> PathError {
    if Errno::from_io_error(&error.error) != Some(Errno::BUSY) {
        return error;
    }
    let words = "something is mounted on it, so that it cannot be replaced; in_place = true writes to it instead";
    PathError::new(error.operation, error.path, io::Error::other(words))
}

const PROCESSES: &str = "/proc";
/// The suffix that the kernel adds to the path of an unlinked file.
const DELETED: &[u8] = b" (deleted)";

/// Returns for each file whether a process has it open for writing, under its path or another path with the same file
/// name.
///
/// The open descriptors of all processes are examined. Files that are mapped and closed are not detected, nor are files
/// of processes that this process may not examine. If no process can be examined, all files are reported as open.
///
/// # Errors
/// If a file cannot be examined.
pub fn are_open_for_writing(files: &[PathHandle]) -> Result<Vec<bool>> {
    let named: Vec<_> = files.iter().map(|place| (place.path().file_name().unwrap_or_default(), place)).collect();
    are_open_by_name(&named)
}

/// Like [`are_open_for_writing`], for files that may have been opened under other file names.
///
/// # Errors
/// If a file cannot be examined.
fn are_open_by_name(files: &[(&OsStr, &PathHandle)]) -> Result<Vec<bool>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let names = files.iter().map(|(name, _)| *name).collect();
    let Ok(found) = search(&names) else { return Ok(vec![true; files.len()]) };
    let is_found =
        |(_, place): &(&OsStr, &PathHandle)| Ok(place.raw_stat()?.is_some_and(|stat| found.contains(&identity(&stat))));
    if found.is_empty() { Ok(vec![false; files.len()]) } else { files.iter().map(is_found).collect() }
}

type Identity = (u64, u64);

fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// Finds files with these names that are open for writing.
fn search(names: &HashSet<&OsStr>) -> io::Result<HashSet<Identity>> {
    // This process can examine itself, unless /proc is not a procfs.
    fs::read_dir("/proc/self/fd")?;
    let mut found = HashSet::new();
    for process in fs::read_dir(PROCESSES)? {
        // A process may end at any time.
        let Ok(process) = process else { continue };
        if process.file_name().as_bytes().iter().all(u8::is_ascii_digit) {
            for opened in fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
                found.extend(written_to(&process.path(), &opened, names));
            }
        }
    }
    Ok(found)
}

/// Returns the file of a descriptor, if it has one of the names and is open for writing.
fn written_to(process: &Path, opened: &DirEntry, names: &HashSet<&OsStr>) -> Option<Identity> {
    // A stat call could block if a file server does not respond.
    let path = fs::read_link(opened.path()).ok()?;
    let path = path.as_os_str().as_bytes();
    let path = path.strip_suffix(DELETED).unwrap_or(path);
    let name = Path::new(OsStr::from_bytes(path)).file_name()?;
    if !names.contains(name) {
        return None;
    }
    let information = fs::read_to_string(process.join("fdinfo").join(opened.file_name())).ok()?;
    let flags = information.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = OFlags::from_bits_retain(u32::from_str_radix(flags.trim(), 8).ok()?);
    if !flags.intersects(OFlags::WRONLY | OFlags::RDWR) || flags.contains(OFlags::PATH) {
        return None;
    }
    let stat = rustix::fs::statat(rustix::fs::CWD, opened.path(), AtFlags::empty()).ok()?;
    Some(identity(&stat))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_handle::Tree;
    use std::fs::File;

    #[test]
    fn writers_are_found_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        for name in ["written", "read", "closed", "replaced"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let writer = |name: &str| File::options().append(true).open(folder.path().join(name)).unwrap();
        let held = [writer("written"), File::open(folder.path().join("read")).unwrap(), writer("replaced")];
        drop(writer("closed"));
        fs::create_dir(folder.path().join("kept")).unwrap();
        fs::hard_link(folder.path().join("replaced"), folder.path().join("kept/replaced")).unwrap();
        fs::rename(folder.path().join("closed"), folder.path().join("replaced")).unwrap();
        let are_open = || {
            let files =
                ["written", "read", "kept/replaced", "replaced", "missing"].map(|name| tree.place(Path::new(name)));
            are_open_for_writing(&files).unwrap()
        };
        assert_eq!(are_open(), [true, false, true, false, false]);
        drop(held);
        assert_eq!(are_open(), [false; 5]);
        assert!(are_open_for_writing(&[]).unwrap().is_empty());
    }
}

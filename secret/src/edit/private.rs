//! A temporary directory that other users cannot access, in memory if possible.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PREFIX: &str = "holo-secret-";
/// Locked while the directory is in use.
const LOCK: &str = ".lock";

/// A directory that is removed when it is dropped.
///
/// If the process is killed, the next directory created at the same place removes it.
#[derive(Debug)]
pub(super) struct PrivateDirectory {
    directory: TempDir,
    _lock: File,
}

impl PrivateDirectory {
    pub(super) fn make() -> io::Result<PrivateDirectory> {
        let mut made = Err(io::ErrorKind::NotFound.into());
        for place in places() {
            remove_leftovers(&place);
            let mode = Permissions::from_mode(0o700);
            made = tempfile::Builder::new().prefix(PREFIX).permissions(mode).tempdir_in(&place);
            if made.is_ok() {
                break;
            }
        }
        let directory = made?;
        let lock = new_file(&directory.path().join(LOCK))?;
        lock.lock()?;
        Ok(PrivateDirectory { directory, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Creates a file that other users cannot read.
    pub(super) fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        new_file(path)?.write_all(content)
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Returns possible locations, best first: those in memory never reach a disk.
fn places() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|own| own.is_absolute());
    own.into_iter().chain(["/dev/shm".into(), std::env::temp_dir()]).filter(|place| place.is_dir()).collect()
}

/// Removes this user's directories that are no longer in use.
fn remove_leftovers(place: &Path) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        // A directory that is just being created has no lock yet.
        let lock = File::open(entry.path().join(LOCK)).ok().filter(|_| is_ours);
        if lock.is_some_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

//! A directory that nobody else can look into, in memory where that is possible, and that is gone afterwards.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PREFIX: &str = "holo-secret-";
/// Locked as long as the directory is in use.
const LOCK: &str = ".lock";

/// A directory that is removed when it is dropped.
///
/// A kill cannot be noticed; the next one that is made beside it removes what is left then.
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

    /// Makes a file that nobody else can read.
    pub(super) fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        new_file(path)?.write_all(content)
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Returns where such a directory may be, the best first: what is in memory is on no disk.
fn places() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|own| own.is_absolute());
    own.into_iter().chain(["/dev/shm".into(), std::env::temp_dir()]).filter(|place| place.is_dir()).collect()
}

/// Removes our own directories that nobody uses any more.
fn remove_leftovers(place: &Path) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        // One that is just being made has no lock yet.
        let lock = File::open(entry.path().join(LOCK)).ok().filter(|_| is_ours);
        if lock.is_some_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

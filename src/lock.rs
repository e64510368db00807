//! The lock: one apply at a time.

use crate::error;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::process::{Pid, test_kill_process};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The lock file is ours; it is removed when this is dropped.
///
/// The file's existence is the lock that other versions of Holo know, so it is made whole or not at all. We hold the system's lock on it
/// too, so that of two who find a lock left by a crash only one takes it over.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    _held: File,
}

/// A lock, and what became of an earlier one.
#[derive(Debug)]
pub struct Acquired {
    /// The lock.
    pub lock: Lock,
    /// The process that left its lock behind, if one did.
    pub taken_over_from: Option<i32>,
}

/// Why there is no lock to be had.
#[derive(Debug, thiserror::Error)]
#[error("Cannot create lock file {path}: {reason}", path = path.display())]
pub struct LockError {
    path: PathBuf,
    reason: String,
    /// Whether the lock is somebody else's.
    pub exists: bool,
}

impl Lock {
    /// Takes the lock.
    ///
    /// # Errors
    /// If another process has it, or the file cannot be made.
    pub fn acquire(path: &Path) -> Result<Acquired, LockError> {
        Lock::try_acquire(path).map_err(|error| LockError {
            path: path.to_owned(),
            reason: error::at("open", path, &error),
            exists: error.kind() == io::ErrorKind::AlreadyExists,
        })
    }

    fn try_acquire(path: &Path) -> io::Result<Acquired> {
        let exists = match create(path) {
            Ok(held) => {
                let lock = Lock { path: path.to_owned(), _held: held };
                return Ok(Acquired { lock, taken_over_from: None });
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => error,
            Err(error) => return Err(error),
        };
        let (held, left_by) = take_over(path).ok().flatten().ok_or(exists)?;
        let lock = Lock { path: path.to_owned(), _held: held };
        Ok(Acquired { lock, taken_over_from: Some(left_by) })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever removed it before us meant it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes the file with its content and the system's lock in one step: a process that dies meanwhile leaves nothing.
fn create(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let Ok(unnamed) = rustix::fs::open(folder, flags, Mode::from_raw_mode(0o644)) else {
        return create_in_steps(path);
    };
    let mut held = File::from(unnamed);
    sign(&mut held)?;
    let by_descriptor = format!("/proc/self/fd/{}", held.as_raw_fd());
    match rustix::fs::linkat(CWD, by_descriptor, CWD, path, AtFlags::SYMLINK_FOLLOW) {
        Ok(()) => Ok(held),
        Err(exists @ rustix::io::Errno::EXIST) => Err(exists.into()),
        // No /proc, or a file system without unnamed files.
        Err(_) => create_in_steps(path),
    }
}

fn create_in_steps(path: &Path) -> io::Result<File> {
    let mut held = OpenOptions::new().write(true).create_new(true).open(path)?;
    sign(&mut held)?;
    Ok(held)
}

fn sign(held: &mut File) -> io::Result<()> {
    rustix::fs::flock(&*held, FlockOperation::NonBlockingLockExclusive)?;
    writeln!(held, "{}", std::process::id())
}

/// Takes the lock over from a process that does not exist any more; nothing if it is respected.
fn take_over(path: &Path) -> io::Result<Option<(File, i32)>> {
    let mut held = OpenOptions::new().read(true).write(true).open(path)?;
    rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive)?;
    let mut content = String::new();
    held.read_to_string(&mut content)?;
    let Some(left_by) = content.trim().parse().ok().filter(|&pid: &i32| pid > 0) else {
        return Ok(None);
    };
    let is_alive = Pid::from_raw(left_by).is_none_or(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH));
    // It may have been released, and taken by another, since we opened it.
    let (ours, there) = (held.metadata()?, fs::metadata(path)?);
    if is_alive || (ours.dev(), ours.ino()) != (there.dev(), there.ino()) {
        return Ok(None);
    }
    // One write over all that was there: at no moment does the file hold anything but one process's number.
    let line = format!("{}\n", std::process::id());
    rustix::io::pwrite(&held, format!("{line:\n<width$}", width = content.len()).as_bytes(), 0)?;
    held.set_len(line.len() as u64)?;
    Ok(Some((held, left_by)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("holo.pid");
        (folder, path)
    }

    fn dead_process() -> u32 {
        // The highest number that the kernel gives is 2^22.
        (1 << 22) + 1
    }

    #[test]
    fn holds_the_pid_and_goes_away() {
        let (_folder, path) = folder();
        let acquired = Lock::acquire(&path).unwrap();
        assert_eq!(acquired.taken_over_from, None);
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        let error = Lock::acquire(&path).unwrap_err();
        assert!(error.exists);
        let shown = path.display();
        assert_eq!(error.to_string(), format!("Cannot create lock file {shown}: open {shown}: file exists"));
        drop(acquired);
        assert!(!path.exists());
    }

    #[test]
    fn only_one_of_many_gets_it() {
        let (_folder, path) = folder();
        for left_behind in [false, true] {
            if left_behind {
                fs::write(&path, format!("{}\n", dead_process())).unwrap();
            }
            let all: Vec<_> = std::thread::scope(|scope| {
                let contenders: Vec<_> = (0..8).map(|_| scope.spawn(|| Lock::acquire(&path))).collect();
                contenders.into_iter().map(|contender| contender.join().unwrap()).collect()
            });
            assert_eq!(all.iter().filter(|acquired| acquired.is_ok()).count(), 1);
        }
    }

    #[test]
    fn is_taken_over_from_the_dead_only() {
        let (_folder, path) = folder();
        for respected in ["0\n", "-1\n", "", "garbage\n", "1\n", &format!("{}\n", std::process::id())] {
            fs::write(&path, respected).unwrap();
            assert!(Lock::acquire(&path).unwrap_err().exists, "{respected:?}");
            assert_eq!(fs::read_to_string(&path).unwrap(), respected);
        }
        fs::write(&path, format!("{}\n\n\n\n\n\n", dead_process())).unwrap();
        let acquired = Lock::acquire(&path).unwrap();
        assert_eq!(acquired.taken_over_from.map(i32::unsigned_abs), Some(dead_process()));
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
    }

    #[test]
    fn says_what_else_is_wrong() {
        let error = Lock::acquire(Path::new("/nowhere/holo.pid")).unwrap_err();
        assert!(!error.exists);
        assert_eq!(
            error.to_string(),
            "Cannot create lock file /nowhere/holo.pid: open /nowhere/holo.pid: no such file or directory"
        );
    }
}

//! Facts gathered once a run: the first caller gathers them and leaves them in a file of the run.

use super::Facts;
use crate::document;
use crate::warning::Warning;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The longest wait for another process that gathers. It ends long before, unless that process has been stopped.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Returns the content of the file, or else gathers the facts and writes them there.
///
/// A file that cannot be shared costs time, no facts: then they are gathered again.
pub(super) fn once(file: &Path, gather: impl FnOnce() -> (Facts, Vec<Warning>)) -> (Facts, Vec<Warning>) {
    if let Some(facts) = read(file) {
        return (facts, Vec::new());
    }
    let Ok(_lock) = lock(&file.with_extension("lock")) else { return gather() };
    if let Some(facts) = read(file) {
        return (facts, Vec::new());
    }
    let gathered = gather();
    // There is nobody to tell; the next caller gathers for itself.
    let _ = write(file, gathered.0.value());
    gathered
}

/// Reads a file of facts that is our own or root's.
fn read(path: &Path) -> Option<Facts> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let owner = rustix::fs::fstat(&file).ok()?.st_uid;
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return None;
    }
    let content = holo_system::content(file).ok()?;
    document::json(path.display(), &content).ok().map(|facts| Facts(Value::Object(facts)))
}

/// Waits until nobody else gathers. The lock is released when it is dropped, or with the process.
fn lock(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    let give_up = Instant::now() + PATIENCE;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < give_up => thread::sleep(LOOK_EVERY),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Puts the file in place at once: nobody sees half of it.
fn write(path: &Path, facts: &Value) -> io::Result<()> {
    let new = path.with_extension("new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(&new, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(facts.to_string().as_bytes())?;
    std::fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holo_definitions::LocatedError;
    use serde_json::json;
    use std::os::unix::fs::MetadataExt;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn facts() -> (Facts, Vec<Warning>) {
        (Facts(json!({"a": 1})), vec![Warning(LocatedError::new("x", "y"))])
    }

    #[test]
    fn of_many_who_ask_at_once_one_gathers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("facts.json");
        let (gathered, warned) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let (found, warnings) = once(&file, || {
                        gathered.fetch_add(1, Ordering::SeqCst);
                        facts()
                    });
                    warned.fetch_add(warnings.len(), Ordering::SeqCst);
                    assert_eq!(found, facts().0);
                });
            }
        });
        assert_eq!((gathered.into_inner(), warned.into_inner()), (1, 1));
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn facts_that_cannot_be_shared_are_gathered() {
        assert_eq!(once(Path::new("/nowhere/facts.json"), facts), facts());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("facts.json");
        std::fs::write(&file, "{").unwrap();
        assert_eq!(once(&file, facts), facts());
        assert_eq!(once(&file, || panic!("it is there now")).0, facts().0);
    }
}

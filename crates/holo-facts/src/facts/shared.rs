//! Facts gathered once per run: the first caller gathers them and writes them to a file of the run.

use super::Facts;
use crate::document;
use crate::warning::Warning;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The maximum time to wait for another process that gathers facts. It finishes much earlier unless it was stopped.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Returns the facts in the file, or gathers them and writes them there.
///
/// The file is its own lock and is written in place: a partial table is not valid, so that readers wait for the lock.
/// No temporary files can be left behind. If the file cannot be shared, facts are not lost, but gathered again.
pub(super) fn once(path: &Path, gather: impl FnOnce() -> (Facts, Vec<Warning>)) -> (Facts, Vec<Warning>) {
    if let Some(facts) = open(path, OFlags::RDONLY).and_then(|file| read(path, file)) {
        return (facts, Vec::new());
    }
    let Some(mut file) = open(path, OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW) else {
        return gather();
    };
    if lock(&file).is_err() {
        return gather();
    }
    if let Some(facts) = file.try_clone().ok().and_then(|file| read(path, file)) {
        return (facts, Vec::new());
    }
    let gathered = gather();
    // This error need not be reported; the next caller gathers the facts itself.
    let _ = write(&mut file, gathered.0.value());
    gathered
}

/// Opens a facts file if it is owned by the current user or root.
fn open(path: &Path, flags: OFlags) -> Option<File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).ok()?;
    let owner = rustix::fs::fstat(&file).ok()?.st_uid;
    (owner == 0 || owner == rustix::process::geteuid().as_raw()).then(|| file.into())
}

fn read(path: &Path, file: File) -> Option<Facts> {
    let content = holo_system::content(file.into()).ok()?;
    document::json(path.display(), &content).ok().map(|facts| Facts(Value::Object(facts)))
}

/// Waits until no other process gathers facts. The lock is released when the file is closed or the process ends.
fn lock(file: &File) -> io::Result<()> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < give_up => thread::sleep(LOOK_EVERY),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Replaces the content of the file, which is empty or was left by a killed process.
fn write(file: &mut File, facts: &Value) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(facts.to_string().as_bytes())
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

    fn names_in(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
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
        assert_eq!(names_in(folder.path()), ["facts.json"]);
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn facts_that_cannot_be_shared_are_gathered() {
        assert_eq!(once(Path::new("/nowhere/facts.json"), facts), facts());
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("facts");
        std::fs::create_dir(&directory).unwrap();
        assert_eq!(once(&directory, facts), facts());
        assert_eq!(names_in(folder.path()), ["facts"]);
    }

    #[test]
    fn what_somebody_has_left_half_written_is_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("facts.json");
        std::fs::write(&file, "{\"a\": 1, \"something that is longer\": [").unwrap();
        assert_eq!(once(&file, facts), facts());
        assert_eq!(once(&file, || panic!("it is there now")).0, facts().0);
        assert_eq!(names_in(folder.path()), ["facts.json"]);
    }
}

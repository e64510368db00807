//! State that the archives in one process share.

use holo_change::Tree;
use holo_change::error::Result;
use holo_plugin::Host;
use rustix::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<StateLock>,
    pub(crate) queue: PathQueue,
    /// Held while directories that several archives may need are created or removed.
    pub(crate) directories: Arc<Mutex<()>>,
}

/// The lock of the state directory. The plugin of a killed dispatcher may still be using it, and other plugins take
/// over paths.
#[derive(Debug, Default)]
struct StateLock {
    locked: Option<OwnedFd>,
    /// The number of archives that are being processed.
    users: usize,
    is_tidy: bool,
}

/// A guard that keeps the state directory locked.
pub(crate) struct LockedState<'a>(&'a Shared);

impl Drop for LockedState<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.users -= 1;
        if state.users == 0 {
            state.locked = None;
        }
    }
}

impl Shared {
    /// Locks the state directory against other processes, until no archive is being processed any more. The first call
    /// removes incomplete files of killed processes with `tidy`.
    pub(crate) fn lock_state(&self, host: &Host, tidy: impl FnOnce() -> Result<()>) -> Result<LockedState<'_>> {
        let mut state = self.state();
        if !state.is_tidy {
            let locked = Tree::open(host.state_dir())?.hold()?;
            tidy()?;
            (state.locked, state.is_tidy) = (Some(locked), true);
        } else if state.locked.is_none() {
            state.locked = Some(Tree::open(host.state_dir())?.hold()?);
        }
        state.users += 1;
        Ok(LockedState(self))
    }

    fn state(&self) -> MutexGuard<'_, StateLock> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The canonical paths that an archive uses: its download, and its current and former target directories.
pub(crate) type WorkPaths = Vec<PathBuf>;

/// A queue that serializes archives of a set that use the same paths, in the order of the plan.
///
/// An archive is only begun after all preceding ones have been, so waiting for them cannot cause a deadlock.
#[derive(Debug, Default)]
pub(crate) struct PathQueue {
    waiting: Mutex<Vec<(String, WorkPaths)>>,
    left: Condvar,
}

impl PathQueue {
    /// Enters the archives of a set, in order.
    pub(crate) fn enter(&self, set: impl IntoIterator<Item = (String, WorkPaths)>) {
        *self.waiting() = set.into_iter().collect();
    }

    /// Waits until all preceding archives that use some of the same paths have left.
    pub(crate) fn wait(&self, id: &str) {
        let is_free = |waiting: &Vec<(String, WorkPaths)>| {
            let before = waiting.iter().position(|(other, _)| other == id).unwrap_or(0);
            let (earlier, rest) = waiting.split_at(before);
            rest.first().is_none_or(|(_, own)| earlier.iter().all(|(_, paths)| !overlap(own, paths)))
        };
        let mut waiting = self.waiting();
        while !is_free(&waiting) {
            waiting = self.left.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Removes an archive that was processed, successfully or not.
    pub(crate) fn leave(&self, id: &str) {
        self.waiting().retain(|(other, _)| other != id);
        self.left.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<(String, WorkPaths)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn overlap(one: &[PathBuf], other: &[PathBuf]) -> bool {
    one.iter().any(|one| other.iter().any(|other| are_nested(one, other)))
}

/// Returns true if two paths are equal, or one is below the other.
fn are_nested(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn archives_that_share_a_directory_are_worked_on_in_order() {
        let queue = PathQueue::default();
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<WorkPaths>();
        queue.enter([
            ("a".to_owned(), paths(&["/srv/a", "/opt"])),
            ("b".to_owned(), paths(&["/srv/b", "/usr"])),
            ("c".to_owned(), paths(&["/srv/c", "/opt/app"])),
        ]);
        // Neither the first archives nor those that have not entered have to wait.
        ["a", "b", "x"].iter().for_each(|id| queue.wait(id));
        thread::scope(|scope| {
            let (sender, come) = mpsc::channel();
            let queue = &queue;
            scope.spawn(move || {
                queue.wait("c");
                sender.send(()).unwrap();
            });
            assert!(come.recv_timeout(Duration::from_millis(50)).is_err());
            queue.leave("b");
            assert!(come.recv_timeout(Duration::from_millis(50)).is_err());
            queue.leave("a");
            come.recv_timeout(Duration::from_secs(10)).unwrap();
        });
        assert!(are_nested(Path::new("/"), Path::new("/x")) && !are_nested(Path::new("/opt/a"), Path::new("/opt/ab")));
    }
}

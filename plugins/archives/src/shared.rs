//! State that the archives of one process share.

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
    /// Held while directories are made or removed that more than one archive may need.
    pub(crate) directories: Arc<Mutex<()>>,
}

/// The lock of the state directory: the plugin of a dispatcher that was killed may still work in it, and other plugins take paths over.
#[derive(Debug, Default)]
struct StateLock {
    locked: Option<OwnedFd>,
    /// The number of archives that are being worked on.
    users: usize,
    is_tidy: bool,
}

/// Keeps the state directory locked.
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
    /// Keeps other processes out of the state directory, until no archive is worked on any more. The first time, `tidy` removes what killed
    /// ones have left.
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

/// The canonical paths that an archive works on: its download, and the directories that it is, or was, extracted to.
pub(crate) type WorkPaths = Vec<PathBuf>;

/// A queue that lets archives of one set that work on the same paths do so one after the other, in the plan's order.
///
/// An archive is not begun before all that precede it have been, so that waiting for those comes to an end.
#[derive(Debug, Default)]
pub(crate) struct PathQueue {
    waiting: Mutex<Vec<(String, WorkPaths)>>,
    left: Condvar,
}

impl PathQueue {
    /// Enters the archives of a set, in their order.
    pub(crate) fn enter(&self, set: impl IntoIterator<Item = (String, WorkPaths)>) {
        *self.waiting() = set.into_iter().collect();
    }

    /// Waits until all archives have left that precede this one and work on some of its paths.
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

    /// Removes an archive whose work has ended, successfully or not.
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

/// Returns true if two paths are the same, or one is in the other.
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
        // Neither the first ones nor those that have not entered wait for anything.
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

//! State that the archives in one process share.

use holo_change::Tree;
use holo_change::claims::Claims;
use holo_change::error::Result;
use holo_change::tree_store::SharedTrees;
use holo_plugin::Host;
use rustix::fd::OwnedFd;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<StateLock>,
    pub(crate) queue: PathQueue,
    /// Held while directories that several archives may need are created or removed.
    pub(crate) directories: Arc<Mutex<()>>,
    set: Mutex<Option<Arc<SharedBySet>>>,
}

/// What the archives of a set know about others, which would take quadratic time to read for each of them.
#[derive(Debug, Default)]
pub(crate) struct SharedBySet {
    pub(crate) trees: Arc<SharedTrees>,
    /// The claims of entities of other plugins.
    pub(crate) claims: OnceLock<Arc<Claims>>,
    /// Set when all records were read, with the message about one that is unreadable.
    pub(crate) unreadable: OnceLock<Option<String>>,
    /// True if all directories that archives have created were examined, including those that a killed run has left.
    pub(crate) has_swept: AtomicBool,
}

/// A guard that ends a set.
pub(crate) struct BegunSet<'a>(&'a Shared);

impl Drop for BegunSet<'_> {
    fn drop(&mut self) {
        *self.0.set.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
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
    /// Begins a set. Until the guard is dropped, its archives share what they know about others.
    pub(crate) fn begin_set(&self) -> BegunSet<'_> {
        *self.set.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::default());
        BegunSet(self)
    }

    /// Returns what the archives of the set share. Outside of sets, nothing is shared.
    pub(crate) fn by_set(&self) -> Arc<SharedBySet> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }

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
    /// The archives that have not left, each with the preceding ones that use some of the same paths.
    waiting: Mutex<HashMap<String, BTreeSet<Arc<str>>>>,
    left: Condvar,
}

impl PathQueue {
    /// Enters the archives of a set, in order.
    pub(crate) fn enter(&self, set: impl IntoIterator<Item = (String, WorkPaths)>) {
        let mut users: BTreeMap<PathBuf, Vec<Arc<str>>> = BTreeMap::new();
        let mut waiting = HashMap::new();
        for (id, paths) in set {
            let above = paths.iter().flat_map(|path| path.ancestors()).filter_map(|above| users.get(above));
            let mut preceding: BTreeSet<Arc<str>> = above.flatten().cloned().collect();
            for path in &paths {
                let below = users.range(path.clone()..).take_while(|(below, _)| below.starts_with(path));
                preceding.extend(below.flat_map(|(_, users)| users).cloned());
            }
            let user: Arc<str> = id.as_str().into();
            paths.into_iter().for_each(|path| users.entry(path).or_default().push(Arc::clone(&user)));
            waiting.insert(id, preceding);
        }
        *self.waiting() = waiting;
    }

    /// Waits until all preceding archives that use some of the same paths have left.
    pub(crate) fn wait(&self, id: &str) {
        let mut waiting = self.waiting();
        let is_blocked = |waiting: &HashMap<String, BTreeSet<Arc<str>>>| {
            waiting.get(id).is_some_and(|preceding| preceding.iter().any(|other| waiting.contains_key(&**other)))
        };
        while is_blocked(&waiting) {
            waiting = self.left.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Removes an archive that was processed, successfully or not.
    pub(crate) fn leave(&self, id: &str) {
        self.waiting().remove(id);
        self.left.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, BTreeSet<Arc<str>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
            ("d".to_owned(), paths(&["/opt-d", "/srv/d"])),
        ]);
        // Neither the first archives nor those that have not entered have to wait.
        ["a", "b", "d", "x"].iter().for_each(|id| queue.wait(id));
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
    }
}

//! Collecting changes in groups, which are committed in a background thread while the next group is collected.

use crate::group::{Store, commit};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, panic};

/// A completed change, the caller's data for it, and its result.
pub type Ended<S, T> = (<S as Store>::Change, T, Result<(), <S as Store>::Error>);

/// Changes with the caller's data.
type Group<S, T> = Vec<(<S as Store>::Change, T)>;

/// The maximum number of changes per group. The new contents are stored next to the targets until the commit, so this
/// bounds the required disk space.
const GROUP_SIZE: usize = 4096;
/// The memory limit of a group, in bytes.
const GROUP_BYTES: usize = 16 << 20;
/// The maximum time for which changes are collected, so that progress is visible even if single changes take long.
const GROUP_TIME: Duration = Duration::from_secs(1);

/// Changes that are being committed in groups, one group after the other.
pub struct Commits<S: Store, T> {
    /// The collected changes.
    group: Group<S, T>,
    bytes: usize,
    /// The time at which the group is committed, regardless of its size.
    group_ends: Instant,
    /// The thread, started when a second group is needed.
    thread: Option<CommitThread<S, T>>,
}

struct CommitThread<S: Store, T> {
    groups: Sender<Group<S, T>>,
    ended: Receiver<Vec<Ended<S, T>>>,
    is_busy: bool,
    /// `None` after the thread was joined.
    handle: Option<JoinHandle<()>>,
}

impl<S: Store, T> fmt::Debug for Commits<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commits").field("gathered", &self.group.len()).finish_non_exhaustive()
    }
}

impl<S: Store, T> Default for Commits<S, T> {
    fn default() -> Self {
        Commits { group: Vec::new(), bytes: 0, group_ends: Instant::now() + GROUP_TIME, thread: None }
    }
}

impl<S, T> Commits<S, T>
where
    S: Store<Change: Send, Error: Send> + Send + 'static,
    T: Send + 'static,
{
    /// Adds a change to the group.
    pub fn add(&mut self, change: S::Change, given: T, store: &S) {
        self.bytes += store.bytes(&change);
        self.group.push((change, given));
    }

    /// Starts the commit of the group if it is large or old enough, and returns the results of completed changes.
    /// Unless `in_background` is set, these include the group itself.
    pub fn poll(&mut self, store: &S, in_background: bool) -> Vec<Ended<S, T>> {
        let is_large = self.group.len() >= GROUP_SIZE || self.bytes > GROUP_BYTES;
        if !is_large && (self.group.is_empty() || Instant::now() <= self.group_ends) {
            return self.thread.as_mut().map(CommitThread::poll).unwrap_or_default();
        }
        let ended = self.thread.as_mut().map(CommitThread::finish).unwrap_or_default();
        if self.thread.is_none() && in_background {
            self.thread = CommitThread::start(store);
        }
        let Some(thread) = &mut self.thread else {
            // Without a thread, groups are committed synchronously.
            return self.flush(store);
        };
        self.bytes = 0;
        thread.begin(std::mem::take(&mut self.group));
        self.group_ends = Instant::now() + GROUP_TIME;
        ended
    }

    /// Commits the group, and returns the results of all outstanding changes.
    pub fn flush(&mut self, store: &S) -> Vec<Ended<S, T>> {
        let mut ended = self.thread.as_mut().map(CommitThread::finish).unwrap_or_default();
        self.bytes = 0;
        ended.extend(commit_group(store, std::mem::take(&mut self.group)));
        self.group_ends = Instant::now() + GROUP_TIME;
        ended
    }
}

fn commit_group<S: Store, T>(store: &S, group: Group<S, T>) -> Vec<Ended<S, T>> {
    let (mut changes, given): (Vec<S::Change>, Vec<T>) = group.into_iter().unzip();
    let results = commit(store, &mut changes);
    changes.into_iter().zip(given).zip(results).map(|((change, given), result)| (change, given, result)).collect()
}

impl<S, T> CommitThread<S, T>
where
    S: Store<Change: Send, Error: Send> + Send + 'static,
    T: Send + 'static,
{
    /// Starts the thread; `None` on failure.
    fn start(store: &S) -> Option<CommitThread<S, T>> {
        // Threads that share open directories would contend for them.
        let store = store.reopen().ok()?;
        let (groups, given) = channel();
        let (ending, ended) = channel();
        let work = move || {
            for group in given {
                // Programs that have run in the meantime may have moved directories.
                store.forget_directories();
                if ending.send(commit_group(&store, group)).is_err() {
                    break;
                }
            }
        };
        let handle = Some(Builder::new().spawn(work).ok()?);
        Some(CommitThread { groups, ended, is_busy: false, handle })
    }

    /// Passes a group to the thread. The previous group must be [finished](CommitThread::finish).
    fn begin(&mut self, group: Group<S, T>) {
        self.is_busy = true;
        // Sending only fails if the thread has panicked. The panic is resumed in the thread that waits for the result.
        let _ = self.groups.send(group);
    }

    /// Returns the results of the current group if it is complete.
    fn poll(&mut self) -> Vec<Ended<S, T>> {
        let ended = self.ended.try_recv().ok();
        self.is_busy &= ended.is_none();
        ended.unwrap_or_default()
    }

    /// Waits for the current group, and returns its results.
    fn finish(&mut self) -> Vec<Ended<S, T>> {
        if !std::mem::take(&mut self.is_busy) {
            return Vec::new();
        }
        self.ended.recv().unwrap_or_else(|_| self.raise())
    }

    /// Resumes the panic of the thread, which is the only reason for it to end during a group.
    fn raise(&mut self) -> Vec<Ended<S, T>> {
        match self.handle.take().map(JoinHandle::join) {
            Some(Err(panicked)) => panic::resume_unwind(panicked),
            _ => Vec::new(),
        }
    }
}

//! Gathers changes in groups, and commits them on a thread of its own while the next group is gathered.

use crate::group::{Store, commit};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, panic};

/// A change that has ended, what the caller gave with it, and the result.
pub type Ended<S, T> = (<S as Store>::Change, T, Result<(), <S as Store>::Error>);

/// Changes, each with something of the caller's.
type Group<S, T> = Vec<(<S as Store>::Change, T)>;

/// The number of changes that are made durable together. New contents lie beside the targets meanwhile, so this bounds their space.
const GROUP_SIZE: usize = 4096;
/// The number of bytes in memory from which on a group does not grow.
const GROUP_BYTES: usize = 16 << 20;
/// The time for which changes are gathered: what is done shall be seen, even if single changes take long.
const GROUP_TIME: Duration = Duration::from_secs(1);

/// Changes on their way to the disk: they are gathered in groups, which are committed one after the other.
pub struct Commits<S: Store, T> {
    /// The changes that have been gathered.
    group: Group<S, T>,
    bytes: usize,
    /// The time when the group is begun, however small it is.
    group_ends: Instant,
    /// It is started when a group has another one after it.
    thread: Option<CommitThread<S, T>>,
}

struct CommitThread<S: Store, T> {
    groups: Sender<Group<S, T>>,
    ended: Receiver<Vec<Ended<S, T>>>,
    is_busy: bool,
    /// Until it has been waited for.
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

    /// Begins to commit the group if it is large or old enough, and returns the results of changes that have ended. Unless `in_background`,
    /// those of the group are among them.
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
            // Without a thread, one thing is done after the other.
            return self.flush(store);
        };
        self.bytes = 0;
        thread.begin(std::mem::take(&mut self.group));
        self.group_ends = Instant::now() + GROUP_TIME;
        ended
    }

    /// Commits the group, and returns the results of all changes that had not ended yet.
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
    /// Starts it; `None` if there can be none.
    fn start(store: &S) -> Option<CommitThread<S, T>> {
        // Threads with the same open directories would wait for one another.
        let store = store.reopen().ok()?;
        let (groups, given) = channel();
        let (ending, ended) = channel();
        let work = move || {
            for group in given {
                // Programs that were run since may have moved any directory.
                store.forget_directories();
                if ending.send(commit_group(&store, group)).is_err() {
                    break;
                }
            }
        };
        let handle = Some(Builder::new().spawn(work).ok()?);
        Some(CommitThread { groups, ended, is_busy: false, handle })
    }

    /// Gives it a group. It has to be [finished](CommitThread::finish) with the one before.
    fn begin(&mut self, group: Group<S, T>) {
        self.is_busy = true;
        // It takes everything, unless it has panicked; then the thread that waits for it panics too.
        let _ = self.groups.send(group);
    }

    /// Returns the result of the group that was at work, if it has ended.
    fn poll(&mut self) -> Vec<Ended<S, T>> {
        let ended = self.ended.try_recv().ok();
        self.is_busy &= ended.is_none();
        ended.unwrap_or_default()
    }

    /// Waits for the group that is at work, and returns its result.
    fn finish(&mut self) -> Vec<Ended<S, T>> {
        if !std::mem::take(&mut self.is_busy) {
            return Vec::new();
        }
        self.ended.recv().unwrap_or_else(|_| self.raise())
    }

    /// Resumes the panic of the thread: only one that panics ends while it is at work.
    fn raise(&mut self) -> Vec<Ended<S, T>> {
        match self.handle.take().map(JoinHandle::join) {
            Some(Err(panicked)) => panic::resume_unwind(panicked),
            _ => Vec::new(),
        }
    }
}

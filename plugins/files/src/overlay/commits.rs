//! Commits groups of changes on a thread of its own, while the next group is prepared.

use crate::overlay::change::{self, Change, Ended};
use crate::overlay::context::Context;
use crate::overlay::layout::Layout;
use holo_plugin::Host;
use std::panic;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

/// Groups of changes on their way to the disk: one at a time, in the order in which they are given.
#[derive(Default)]
pub(crate) struct Commits {
    /// It is started when a group has another one after it.
    thread: Option<CommitThread>,
}

struct CommitThread {
    groups: Sender<Vec<Change>>,
    ended: Receiver<Vec<Ended>>,
    is_busy: bool,
    /// Until it has been waited for.
    handle: Option<JoinHandle<()>>,
}

impl Commits {
    /// Begins to commit a group as soon as the one before has ended, and returns the result of that.
    pub(crate) fn begin(&mut self, group: Vec<Change>, context: &Context<'_>) -> Vec<Ended> {
        let ended = self.finish();
        if self.thread.is_none() && context.commits_in_background() {
            self.thread = CommitThread::start(context.host);
        }
        match &mut self.thread {
            Some(thread) => {
                thread.begin(group);
                ended
            }
            // Without a thread, one thing is done after the other.
            None => self.end(group, context),
        }
    }

    /// Commits the last group, and returns the results of all that had not ended yet.
    pub(crate) fn end(&mut self, group: Vec<Change>, context: &Context<'_>) -> Vec<Ended> {
        let mut ended = self.finish();
        ended.extend(change::commit(group, &context.layout));
        ended
    }

    /// Returns the result of the group that was at work, if it has ended.
    pub(crate) fn look(&mut self) -> Vec<Ended> {
        self.thread.as_mut().map(CommitThread::look).unwrap_or_default()
    }

    /// Waits for the group that is at work, and returns its result.
    pub(crate) fn finish(&mut self) -> Vec<Ended> {
        self.thread.as_mut().map(CommitThread::finish).unwrap_or_default()
    }
}

impl CommitThread {
    /// Starts it; `None` if there can be none.
    fn start(host: &Host) -> Option<CommitThread> {
        // Threads with the same open directories would wait for one another.
        let layout = Layout::open(host).ok()?;
        let (groups, given) = channel();
        let (ending, ended) = channel();
        let work = move || {
            for group in given {
                // Programs that were run since may have moved any directory.
                layout.forget();
                if ending.send(change::commit(group, &layout)).is_err() {
                    break;
                }
            }
        };
        let handle = Some(Builder::new().spawn(work).ok()?);
        Some(CommitThread { groups, ended, is_busy: false, handle })
    }

    /// Gives it a group. It has to be [finished](CommitThread::finish) with the one before.
    fn begin(&mut self, group: Vec<Change>) {
        self.is_busy = true;
        // It takes everything, unless it has panicked; then the thread that waits for it panics too.
        let _ = self.groups.send(group);
    }

    /// Returns the result of the group that was at work, if it has ended.
    fn look(&mut self) -> Vec<Ended> {
        let ended = self.ended.try_recv().ok();
        self.is_busy &= ended.is_none();
        ended.unwrap_or_default()
    }

    /// Waits for the group that is at work, and returns its result.
    fn finish(&mut self) -> Vec<Ended> {
        if !std::mem::take(&mut self.is_busy) {
            return Vec::new();
        }
        self.ended.recv().unwrap_or_else(|_| self.raise())
    }

    /// Resumes the panic of the thread: only one that panics ends while it is at work.
    fn raise(&mut self) -> Vec<Ended> {
        match self.handle.take().map(JoinHandle::join) {
            Some(Err(panicked)) => panic::resume_unwind(panicked),
            _ => Vec::new(),
        }
    }
}

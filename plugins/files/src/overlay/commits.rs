//! Commits groups of changes, on a thread of their own, while the next group is prepared.

use crate::overlay::change::{self, Change, Ended};
use crate::overlay::layout::Layout;
use holo_plugin::Host;
use holo_plugin::error::Result;
use std::panic;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

/// Groups of changes on their way to the disk: one at a time, in the order in which they are given.
pub(crate) struct Commits {
    layout: Arc<Layout>,
    /// Whether there may be a thread; it is started when a group has another one after it.
    in_background: bool,
    thread: Option<CommitThread>,
}

struct CommitThread {
    groups: Sender<Vec<Change>>,
    ended: Receiver<Vec<Ended>>,
    is_busy: bool,
    handle: JoinHandle<()>,
}

impl Commits {
    pub(crate) fn new(host: &Host, in_background: bool) -> Result<Commits> {
        // Threads with the same open directories would wait for one another.
        let layout = Arc::new(Layout::open(host)?);
        Ok(Commits { layout, in_background, thread: None })
    }

    /// Begins to commit a group as soon as the one before has ended; how that has ended.
    pub(crate) fn begin(&mut self, group: Vec<Change>) -> Vec<Ended> {
        let mut ended = self.finish();
        self.layout.forget();
        if self.thread.is_none() && self.in_background {
            self.thread = CommitThread::start(&self.layout);
        }
        match &mut self.thread {
            Some(thread) => thread.begin(group),
            None => ended.extend(change::commit(group, &self.layout)),
        }
        ended
    }

    /// Commits the last group; how all have ended that had not yet.
    pub(crate) fn end(&mut self, group: Vec<Change>) -> Vec<Ended> {
        let mut ended = self.finish();
        if !group.is_empty() {
            self.layout.forget();
            ended.extend(change::commit(group, &self.layout));
        }
        ended
    }

    /// How the group has ended that was at work, if it has.
    pub(crate) fn look(&mut self) -> Vec<Ended> {
        let Some(thread) = self.thread.as_mut().filter(|thread| thread.is_busy) else { return Vec::new() };
        let ended = thread.ended.try_recv().ok();
        thread.is_busy = ended.is_none();
        ended.unwrap_or_default()
    }

    /// Waits for the group that is at work; how it has ended.
    pub(crate) fn finish(&mut self) -> Vec<Ended> {
        match self.thread.take_if(|thread| thread.is_busy) {
            None => Vec::new(),
            Some(mut thread) => match thread.ended.recv() {
                Ok(ended) => {
                    thread.is_busy = false;
                    self.thread = Some(thread);
                    ended
                }
                // Only a thread that panics ends while it is at work.
                Err(_) => match thread.handle.join() {
                    Err(panicked) => panic::resume_unwind(panicked),
                    Ok(()) => Vec::new(),
                },
            },
        }
    }
}

impl CommitThread {
    fn start(layout: &Arc<Layout>) -> Option<CommitThread> {
        let (groups, given) = channel::<Vec<Change>>();
        let (ending, ended) = channel();
        let layout = Arc::clone(layout);
        let work = move || {
            for group in given {
                if ending.send(change::commit(group, &layout)).is_err() {
                    break;
                }
            }
        };
        // Without a thread, one thing is done after the other.
        let handle = Builder::new().spawn(work).ok()?;
        Some(CommitThread { groups, ended, is_busy: false, handle })
    }

    fn begin(&mut self, group: Vec<Change>) {
        self.is_busy = true;
        // It takes everything, unless it has panicked; then whoever waits for it goes the same way.
        let _ = self.groups.send(group);
    }
}

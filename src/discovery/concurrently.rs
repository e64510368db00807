//! Queries several plugins concurrently, as far as file descriptors suffice, and delivers their output as if they had
//! been queried one after the other.

use crate::error::FatalError;
use holo_protocol::session::Stream;
use holo_protocol::words::reason;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, Builder};

/// Output or answer that belongs to an item.
pub enum Heard<'a, A> {
    /// A piece of output.
    Output(Stream, &'a [u8]),
    /// The answer, which comes last.
    Answer(A),
}

/// Runs `ask` on up to `at_once` items at a time, each in its own thread, and delivers output and answers to `hear` in
/// the order of the items.
///
/// Output of the first unfinished item is delivered immediately, that of the others when their turn comes. If `hear`
/// returns an error, the run ends, and output of later items is dropped.
///
/// # Errors
/// The first error of `hear`, or a thread that cannot be started.
pub fn concurrently<T: Send, A: Send>(
    items: impl IntoIterator<Item = T>,
    at_once: usize,
    ask: impl Fn(T, &mut dyn FnMut(Stream, &[u8])) -> A + Sync,
    mut hear: impl FnMut(usize, Heard<'_, A>) -> Result<(), FatalError>,
) -> Result<(), FatalError> {
    let (ask, permits) = (&ask, &Permits::new(at_once));
    thread::scope(|scope| {
        let mut asked = Vec::new();
        for item in items {
            let (sender, receiver) = channel();
            let work = move || {
                let _permit = permits.take();
                // The receiver is gone if an earlier item has ended the run.
                ask(item, &mut |stream, bytes| drop(sender.send((stream, bytes.to_vec()))))
            };
            let thread = Builder::new()
                .spawn_scoped(scope, work)
                .map_err(|error| FatalError::could_not_run(ThreadError::NotStarted(error)))?;
            asked.push((receiver, thread));
        }
        for (index, (receiver, thread)) in asked.into_iter().enumerate() {
            for (stream, bytes) in receiver {
                hear(index, Heard::Output(stream, &bytes))?;
            }
            let answer = thread.join().map_err(|_| FatalError::could_not_run(ThreadError::EndedEarly))?;
            hear(index, Heard::Answer(answer))?;
        }
        Ok(())
    })
}

/// A counting semaphore that limits the number of threads at work.
struct Permits {
    left: Mutex<usize>,
    given_back: Condvar,
}

/// A permit, which is returned on drop.
struct Permit<'a>(&'a Permits);

impl Permits {
    fn new(count: usize) -> Permits {
        Permits { left: Mutex::new(count.max(1)), given_back: Condvar::new() }
    }

    /// Waits for a permit.
    fn take(&self) -> Permit<'_> {
        // The counter is consistent even if a thread panicked while holding the lock.
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = self.given_back.wait_while(left, |left| *left == 0).unwrap_or_else(PoisonError::into_inner);
        *left -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}

/// A plugin cannot be queried in a thread of its own.
#[derive(Debug, thiserror::Error)]
enum ThreadError {
    #[error("cannot ask a plugin in a thread: {}", reason(.0))]
    NotStarted(io::Error),
    #[error("cannot ask a plugin in a thread: it ended early")]
    EndedEarly,
}

/// The number of descriptors that a plugin takes while it starts: its pipes, and the notification of its exit.
const PER_PLUGIN: u64 = 12;
/// The number of descriptors reserved for everything else.
const RESERVE: u64 = 64;

/// Raises the limit of open files for this number of plugins, as far as the system allows. Returns the number of
/// plugins that fit, at least 1.
///
/// The limit is raised no further than needed because child processes inherit it, and some of them close every
/// descriptor up to the limit.
pub(crate) fn make_room(plugins: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let count = u64::try_from(plugins).unwrap_or(u64::MAX);
    let needed = count.saturating_mul(PER_PLUGIN).saturating_add(RESERVE);
    let raised = maximum.map_or(needed, |maximum| needed.min(maximum));
    let limit = match current {
        None => return plugins.max(1),
        Some(current) if current >= raised => current,
        Some(current) => match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
            Ok(()) => raised,
            Err(_) => current,
        },
    };
    let room = limit.saturating_sub(RESERVE) / PER_PLUGIN;
    usize::try_from(room).unwrap_or(usize::MAX).clamp(1, plugins.max(1))
}

//! Asks several plugins at the same time, and hands on what they say as if they had been asked one after the other.

use crate::error::FatalError;
use holo_protocol::session::Stream;
use holo_protocol::words::reason;
use std::io;
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, Builder};

/// Something that was said about an item.
pub enum Heard<'a, A> {
    /// A piece of output.
    Output(Stream, &'a [u8]),
    /// The answer, which is the last.
    Answer(A),
}

/// Has `ask` work on up to `at_once` items at a time, each in a thread of its own, and hands on what is said in the order of the items.
///
/// Output about the first item that is not done with is handed on at once, and that about the others when it is their turn. An error of
/// `hear` ends the run, and nothing is heard about later items any more.
///
/// # Errors
/// The first error of `hear`, or that there are no threads left.
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
                // If nobody listens, an earlier item has ended the run.
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

/// Lets only so many threads work at a time.
struct Permits {
    left: Mutex<usize>,
    given_back: Condvar,
}

/// A permit, which is given back when it is dropped.
struct Permit<'a>(&'a Permits);

impl Permits {
    fn new(count: usize) -> Permits {
        Permits { left: Mutex::new(count.max(1)), given_back: Condvar::new() }
    }

    /// Waits for a permit.
    fn take(&self) -> Permit<'_> {
        // A number is whole whatever became of a thread that held it.
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

/// A plugin cannot be asked in a thread of its own.
#[derive(Debug, thiserror::Error)]
enum ThreadError {
    #[error("cannot ask a plugin in a thread: {}", reason(.0))]
    NotStarted(io::Error),
    #[error("cannot ask a plugin in a thread: it ended early")]
    EndedEarly,
}

//! SIGINT and SIGTERM as something that can be waited for beside pipes.

use crate::error::FatalError;
use holo_protocol::words::reason;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The number that is kept instead of a signal when a run's time is over.
const TIME_IS_OVER: usize = usize::MAX;

/// Signals cannot be caught.
#[derive(Debug, thiserror::Error)]
#[error("cannot catch signals: {}", reason(.0))]
pub struct SignalError(#[from] io::Error);

/// It cannot be known when a time is over.
#[derive(Debug, thiserror::Error)]
#[error("cannot watch the time: {}", reason(.0))]
pub struct TimerError(#[from] io::Error);

/// Remembers that a signal asked for the end, or that the time for it is over.
///
/// Without it a signal would end the process at once, and leave the cache directory and the lock behind.
#[derive(Debug)]
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
    wake: OwnedFd,
    waker: OwnedFd,
}

impl Interrupt {
    /// Catches the signals from now on.
    ///
    /// # Errors
    /// If the system has no pipe left.
    pub fn install() -> Result<Interrupt, SignalError> {
        let signal = Arc::new(AtomicUsize::new(0));
        let (wake, write_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        let ignored = holo_process::ignored_signals();
        for (number, value) in [(SIGINT, 2), (SIGTERM, 15), (SIGHUP, 1)] {
            // With nohup, or in the background of a script, the signal is to stay ignored.
            if ignored & (1 << (value - 1)) != 0 {
                continue;
            }
            signal_hook::flag::register_usize(number, Arc::clone(&signal), value)?;
            signal_hook::low_level::pipe::register(number, write_end.try_clone()?)?;
        }
        Ok(Interrupt { signal, wake, waker: write_end })
    }

    /// Ends the run when so much time is over.
    ///
    /// # Errors
    /// If the system has no descriptor or no thread left.
    pub fn after(&self, time: Duration) -> Result<(), TimerError> {
        let (signal, waker) = (Arc::clone(&self.signal), self.waker.try_clone()?);
        std::thread::Builder::new().spawn(move || {
            std::thread::sleep(time);
            // A signal that came before has its own exit code.
            let _ = signal.compare_exchange(0, TIME_IS_OVER, Ordering::Relaxed, Ordering::Relaxed);
            let _ = rustix::io::write(&waker, b"!");
        })?;
        Ok(())
    }

    /// Ends the run, as by SIGPIPE, when nobody reads a pipe any more. Nothing happens until then.
    ///
    /// # Errors
    /// If the system has no descriptor or no thread left.
    pub fn when_unread(&self, pipe: OwnedFd) -> Result<(), TimerError> {
        let (signal, waker) = (Arc::clone(&self.signal), self.waker.try_clone()?);
        std::thread::Builder::new().spawn(move || {
            // Of a pipe's end that is written to, this is the only event that is seen without asking for it.
            while poll(&mut [PollFd::new(&pipe, PollFlags::empty())], None) == Err(rustix::io::Errno::INTR) {}
            let _ = signal.compare_exchange(0, 13, Ordering::Relaxed, Ordering::Relaxed);
            let _ = rustix::io::write(&waker, b"!");
        })?;
        Ok(())
    }

    /// Returns the signal that asked for the end, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        i32::try_from(self.signal.load(Ordering::Relaxed)).ok().filter(|&signal| signal != 0)
    }

    /// Waits for so long, unless the run is to end.
    ///
    /// # Errors
    /// As [`check`](Interrupt::check).
    pub fn pause(&self, time: Duration) -> Result<(), FatalError> {
        let timeout = Timespec::try_from(time).ok();
        // An error here can only mean that the wait ends earlier than needed.
        let _ = poll(&mut [PollFd::new(self, PollFlags::IN)], timeout.as_ref());
        self.check()
    }

    /// Waits for a signal that asks for the end.
    #[must_use]
    pub fn wait(&self) -> i32 {
        loop {
            if let Some(signal) = self.signal() {
                return signal;
            }
            // The signal tells what has ended the waiting.
            let _ = poll(&mut [PollFd::new(self, PollFlags::IN)], None);
        }
    }

    /// Ends the run if a signal asked for it.
    ///
    /// # Errors
    /// [`FatalError::Interrupted`] if so, [`FatalError::TimeIsOver`] if its time is over.
    pub fn check(&self) -> Result<(), FatalError> {
        match self.signal.load(Ordering::Relaxed) {
            0 => Ok(()),
            TIME_IS_OVER => Err(FatalError::TimeIsOver { at_work: Vec::new() }),
            _ => Err(FatalError::Interrupted { signal: self.signal().unwrap_or_default(), at_work: Vec::new() }),
        }
    }
}

impl AsFd for Interrupt {
    /// Becomes readable when a signal arrives, and stays so.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl holo_process::Interrupt for Interrupt {
    fn signal(&self) -> Option<i32> {
        // That our reader is gone is no matter of programs; most of them do not listen to this signal.
        self.signal().filter(|&signal| signal != SIGPIPE)
    }
}

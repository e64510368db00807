//! Makes SIGINT, SIGTERM and SIGHUP available as a file descriptor that can be polled together with pipes.

use crate::error::FatalError;
use holo_protocol::words::reason;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Stored in place of a signal number when the run has exceeded its time limit.
const TIME_IS_OVER: usize = usize::MAX;

/// Signal handlers cannot be installed.
#[derive(Debug, thiserror::Error)]
#[error("cannot catch signals: {}", reason(.0))]
pub struct SignalError(#[from] io::Error);

/// A timer cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot watch the time: {}", reason(.0))]
pub struct TimerError(#[from] io::Error);

/// The interval at which a process shows that it is alive, if [asked](Interrupt::show_life).
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(20);

/// Records that a signal or the time limit requested the end of the run.
///
/// With the default action, a signal would end the process at once, leaving the cache directory and the lock behind.
#[derive(Debug)]
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
    wake: OwnedFd,
    waker: OwnedFd,
    created: Instant,
    sign_of_life: OnceLock<(OwnedFd, Vec<u8>)>,
    /// The time of the next sign of life, in seconds since the creation.
    next_sign: AtomicU64,
}

impl Interrupt {
    /// Installs the signal handlers.
    ///
    /// # Errors
    /// If no pipe can be created.
    pub fn install() -> Result<Interrupt, SignalError> {
        let signal = Arc::new(AtomicUsize::new(0));
        let (wake, write_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        let ignored = holo_process::ignored_signals();
        for (number, value) in [(SIGINT, 2), (SIGTERM, 15), (SIGHUP, 1)] {
            // Under nohup, or in the background of a script, the signal must stay ignored.
            if ignored & (1 << (value - 1)) != 0 {
                continue;
            }
            signal_hook::flag::register_usize(number, Arc::clone(&signal), value)?;
            signal_hook::low_level::pipe::register(number, write_end.try_clone()?)?;
        }
        Ok(Interrupt {
            signal,
            wake,
            waker: write_end,
            created: Instant::now(),
            sign_of_life: OnceLock::new(),
            next_sign: AtomicU64::new(u64::MAX),
        })
    }

    /// Writes a short line to a pipe about every 20 seconds during waits from now on. A process that is stopped, or that
    /// hangs elsewhere than in a wait, writes none.
    pub fn show_life(&self, pipe: OwnedFd, line: Vec<u8>) {
        self.next_sign.store(SIGN_OF_LIFE_EVERY.as_secs(), Ordering::Relaxed);
        let _ = self.sign_of_life.set((pipe, line));
    }

    /// Shows that the process is alive, if that is asked for and due. Any thread that waits calls this, when all other
    /// output has been written.
    pub fn note_wait(&self) {
        let Some((pipe, line)) = self.sign_of_life.get() else { return };
        let (now, due) = (self.created.elapsed().as_secs(), self.next_sign.load(Ordering::Relaxed));
        let next = now + SIGN_OF_LIFE_EVERY.as_secs();
        if due <= now && self.next_sign.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            // A pipe takes a short line as a whole.
            let _ = rustix::io::write(pipe, line);
        }
    }

    /// Ends the run when this time has passed.
    ///
    /// # Errors
    /// If no descriptor or thread is available.
    pub fn after(&self, time: Duration) -> Result<(), TimerError> {
        let (signal, waker) = (Arc::clone(&self.signal), self.waker.try_clone()?);
        std::thread::Builder::new().spawn(move || {
            std::thread::sleep(time);
            // An earlier signal takes precedence because it has its own exit code.
            let _ = signal.compare_exchange(0, TIME_IS_OVER, Ordering::Relaxed, Ordering::Relaxed);
            let _ = rustix::io::write(&waker, b"!");
        })?;
        Ok(())
    }

    /// Ends the run, as by SIGPIPE, when the reader of a pipe is gone.
    ///
    /// # Errors
    /// If no descriptor or thread is available.
    pub fn when_unread(&self, pipe: OwnedFd) -> Result<(), TimerError> {
        let (signal, waker) = (Arc::clone(&self.signal), self.waker.try_clone()?);
        std::thread::Builder::new().spawn(move || {
            // For the write end of a pipe, POLLERR is the only event reported without being requested.
            while poll(&mut [PollFd::new(&pipe, PollFlags::empty())], None) == Err(rustix::io::Errno::INTR) {}
            let _ = signal.compare_exchange(0, 13, Ordering::Relaxed, Ordering::Relaxed);
            let _ = rustix::io::write(&waker, b"!");
        })?;
        Ok(())
    }

    /// Returns the signal that requested the end, if any.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        i32::try_from(self.signal.load(Ordering::Relaxed)).ok().filter(|&signal| signal != 0)
    }

    /// Sleeps, unless the run is ended first.
    ///
    /// # Errors
    /// Like [`check`](Interrupt::check).
    pub fn pause(&self, time: Duration) -> Result<(), FatalError> {
        self.note_wait();
        let timeout = Timespec::try_from(time).ok();
        // An error here can only make the wait end early.
        let _ = poll(&mut [PollFd::new(self, PollFlags::IN)], timeout.as_ref());
        self.check()
    }

    /// Waits for a signal that requests the end.
    #[must_use]
    pub fn wait(&self) -> i32 {
        loop {
            if let Some(signal) = self.signal() {
                return signal;
            }
            // The loop checks what ended the wait.
            let _ = poll(&mut [PollFd::new(self, PollFlags::IN)], None);
        }
    }

    /// Checks whether the run must end.
    ///
    /// # Errors
    /// [`FatalError::Interrupted`] after a signal, [`FatalError::TimeIsOver`] after the time limit.
    pub fn check(&self) -> Result<(), FatalError> {
        match self.signal.load(Ordering::Relaxed) {
            0 => Ok(()),
            TIME_IS_OVER => Err(FatalError::TimeIsOver { at_work: Vec::new() }),
            _ => Err(FatalError::Interrupted { signal: self.signal().unwrap_or_default(), at_work: Vec::new() }),
        }
    }
}

impl AsFd for Interrupt {
    /// Returns a descriptor that becomes readable when a signal arrives, and stays readable.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl holo_process::Interrupt for Interrupt {
    fn signal(&self) -> Option<i32> {
        // SIGPIPE is about our own output; most programs that we run do not handle it.
        self.signal().filter(|&signal| signal != SIGPIPE)
    }
}

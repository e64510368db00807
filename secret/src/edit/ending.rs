//! Signals while there is a plaintext: it is removed before one of them ends this process.

use holo_process::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::{flag, low_level};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Signals that request termination.
#[derive(Debug)]
pub(super) struct EndingSignals {
    /// The number of the last one; 0 if there was none.
    received: Arc<AtomicUsize>,
    /// Readable from the first one on.
    readable: UnixStream,
}

impl EndingSignals {
    /// Handles signals from now on. Those that a terminal sends for its keys are meant for the editor and ignored.
    pub(super) fn take() -> io::Result<EndingSignals> {
        let (readable, writable) = UnixStream::pair()?;
        let received = Arc::new(AtomicUsize::new(0));
        for signal in [SIGTERM, SIGHUP] {
            flag::register_usize(signal, Arc::clone(&received), usize::try_from(signal).unwrap_or_default())?;
            low_level::pipe::register(signal, writable.try_clone()?)?;
        }
        for signal in [SIGINT, SIGQUIT] {
            flag::register(signal, Arc::default())?;
        }
        Ok(EndingSignals { received, readable })
    }
}

impl AsFd for EndingSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

impl Interrupt for EndingSignals {
    fn signal(&self) -> Option<i32> {
        i32::try_from(self.received.load(Ordering::Acquire)).ok().filter(|signal| *signal != 0)
    }
}

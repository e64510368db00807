//! A small process between us and a program with a time limit: whatever the program starts stays below it in the tree of processes.
//!
//! A process whose parent ends is given to the nearest ancestor that asks for such; without one it would go to the first process of the
//! system, and nobody could tell that it was the program's. So what has left the program's session, or was started by a process that has
//! ended since, is found when the time is over. A program that ends by itself may leave such behind: then they go their way.

use crate::ended::end_by;
use rustix::process::{
    Pid, Resource, Rlimit, WaitOptions, WaitStatus, getrlimit, set_child_subreaper, setrlimit, wait,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::os::fd::RawFd;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The state that makes a process a supervisor, before it starts the program.
pub(crate) struct Supervisor {
    /// True if the program was asked to end.
    is_ending: Arc<AtomicBool>,
}

impl Supervisor {
    /// From now on, what loses its parent becomes ours.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn new(ignored_signals: u64) -> io::Result<Supervisor> {
        // Any number but 0 says yes.
        set_child_subreaper(Some(Pid::INIT))?;
        let is_ending = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            // A signal that is caught here has its default action in the program; an ignored one stays ignored.
            if ignored_signals & (1 << (signal - 1)) == 0 {
                signal_hook::flag::register(signal, Arc::clone(&is_ending))?;
            }
        }
        Ok(Supervisor { is_ending })
    }

    /// Waits for the program, and ends as it has ended. If it was asked to end, everything that it has started is waited for as well.
    /// Descriptors up to `last` are closed.
    pub(crate) fn oversee(&self, program: &Child, last: RawFd) -> ! {
        // Descriptors that are ours by inheritance would keep their readers waiting.
        for number in 0..=last {
            let _ = nix::unistd::close(number);
        }
        let own = Pid::from_child(program);
        let mut end = None;
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if pid == own => {
                    end = Some(status);
                    if !self.is_ending.load(Ordering::Relaxed) {
                        break;
                    }
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if let Some(signal) = end.and_then(WaitStatus::terminating_signal) {
            // The program has left the picture of its memory, if any.
            let limit = Rlimit { current: Some(0), ..getrlimit(Resource::Core) };
            let _ = setrlimit(Resource::Core, limit);
            end_by(signal);
        }
        std::process::exit(end.and_then(WaitStatus::exit_status).unwrap_or(1));
    }
}

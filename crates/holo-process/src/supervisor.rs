//! A small process between us and a program with a timeout, which keeps all processes of the program below it in the
//! process tree.
//!
//! A process whose parent exits is adopted by the nearest ancestor that is a subreaper. Without one, it would be
//! adopted by the init process, and could no longer be attributed to the program. With the supervisor, processes that
//! have left the program's session, or whose parent has exited, are found when the timeout expires. If the program
//! exits by itself, such processes may keep running.

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

/// The state of a supervisor, which is set up before the program is started.
pub(crate) struct Supervisor {
    /// True if the program was told to terminate.
    is_ending: Arc<AtomicBool>,
}

impl Supervisor {
    /// Makes this process the subreaper of its descendants.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn new(ignored_signals: u64) -> io::Result<Supervisor> {
        // Any PID other than 0 enables it.
        set_child_subreaper(Some(Pid::INIT))?;
        let is_ending = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            // A caught signal has its default action in the program; an ignored one remains ignored.
            if ignored_signals & (1 << (signal - 1)) == 0 {
                signal_hook::flag::register(signal, Arc::clone(&is_ending))?;
            }
        }
        Ok(Supervisor { is_ending })
    }

    /// Waits for the program, and exits with its status. If the program was told to terminate, waits for all processes
    /// that it has started. Descriptors up to `last` are closed.
    pub(crate) fn oversee(&self, program: &Child, last: RawFd) -> ! {
        // Inherited descriptors would keep the readers of their pipes waiting.
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
            // The program has already dumped its core, if enabled.
            let limit = Rlimit { current: Some(0), ..getrlimit(Resource::Core) };
            let _ = setrlimit(Resource::Core, limit);
            end_by(signal);
        }
        std::process::exit(end.and_then(WaitStatus::exit_status).unwrap_or(1));
    }
}

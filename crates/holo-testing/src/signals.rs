//! Signals as a program expects them to be, whoever has started the tests.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};

/// The signals that those who start tests may have ignored: `nohup`, a shell's background jobs, some CI.
const USUAL: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Has programs that are started from now on not inherit that a signal is ignored. This process goes on ignoring it.
///
/// A signal that is caught, by whatever handler, is not caught in a new program, but does there what it usually does.
pub fn reset() {
    static RESET: Once = Once::new();
    RESET.call_once(|| {
        let ignored = holo_process::ignored_signals();
        for signal in USUAL.into_iter().filter(|signal| ignored & (1 << (signal - 1)) != 0) {
            // Tests that depend on it would say so.
            let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
        }
    });
}

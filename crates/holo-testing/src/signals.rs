//! Signal dispositions as programs expect them, regardless of how the tests were started.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};

/// The signals that may be ignored when tests are started, such as by `nohup`, as a background job of a shell, or in
/// CI.
const USUAL: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Ensures that programs started from now on do not inherit ignored signals. This process still ignores them.
///
/// A signal with a handler is not inherited: the new program gets its default action.
pub fn reset() {
    static RESET: Once = Once::new();
    RESET.call_once(|| {
        let ignored = holo_process::ignored_signals();
        for signal in USUAL.into_iter().filter(|signal| ignored & (1 << (signal - 1)) != 0) {
            // Tests that depend on it would fail.
            let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
        }
    });
}

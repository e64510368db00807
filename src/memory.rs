//! The memory of a process that mostly waits.
//!
//! What a look at everything takes, glibc keeps, as if as much were needed again at once: the blocks between those that stay, and a heap
//! for each thread that there ever was. It can be told not to, but only before the program begins.

use std::env;

/// The variable that glibc reads, and the value by which it gives memory back.
pub(crate) const VARIABLE: &str = "GLIBC_TUNABLES";
const VALUE: &str = "glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0:glibc.malloc.top_pad=16384:\
                     glibc.malloc.trim_threshold=131072:glibc.malloc.mmap_threshold=32768";

/// Begins the process anew with a C library that gives memory back, unless it has been begun so, or somebody has told that library something
/// else. If that is not possible, it goes on as it is.
pub(crate) fn give_back() {
    if cfg!(target_env = "gnu") && env::var_os(VARIABLE).is_none() {
        let _ = holo_process::start_again(VARIABLE, VALUE);
    }
}

/// Returns true if this process has been begun so.
pub(crate) fn is_given_back() -> bool {
    env::var_os(VARIABLE).is_some_and(|value| value == VALUE)
}

//! Reduces the memory of a process that mostly waits.
//!
//! glibc keeps freed memory for reuse: the blocks between those that are still in use, and an arena for each thread
//! that ever ran. After a full scan that is most of the memory of the process. The tunables that prevent this are read
//! only when a program starts.

use std::env;

/// The environment variable that glibc reads, and the value that makes it return memory.
pub(crate) const VARIABLE: &str = "GLIBC_TUNABLES";
const VALUE: &str = "glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0:glibc.malloc.top_pad=16384:\
                     glibc.malloc.trim_threshold=131072:glibc.malloc.mmap_threshold=32768";

/// Restarts the process with tunables that make glibc return memory, unless it was restarted already or the user has
/// set tunables. If the restart fails, the process continues as it is.
pub(crate) fn give_back() {
    if cfg!(target_env = "gnu") && env::var_os(VARIABLE).is_none() {
        let _ = holo_process::start_again(VARIABLE, VALUE);
    }
}

/// Returns true if this process was restarted in that way.
pub(crate) fn is_given_back() -> bool {
    env::var_os(VARIABLE).is_some_and(|value| value == VALUE)
}

//! The internal commands of our own binary, the descriptors that it inherits, and its re-execution.

use std::env;
use std::ffi::OsStr;
use std::io::{self};
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// The path of the running binary, even if the file was moved or deleted.
pub(crate) const OURSELVES: &str = "/proc/self/exe";
/// The descriptor of the optional extra pipe of a program.
pub(crate) const EXTRA_FD: RawFd = 3;
/// The descriptor on which the launcher reports why it could not execute the program.
pub(crate) const REPORT_FD: RawFd = 4;

/// The prefix for the environment variables of a program in the environment of its launcher. It prevents the dynamic
/// linker from interpreting them, which must not load another user's library into a launcher that is still root.
pub(crate) const CARRIED: &str = "+";

pub(crate) const LAUNCH: &str = "holo-process:launch";
/// Like [`LAUNCH`], but the program is a child.
pub(crate) const SUPERVISE: &str = "holo-process:supervise";
/// Followed by the PID of the process whose programs are guarded.
pub(crate) const WATCH: &str = "holo-process:watch";
/// Followed by a directory and a program, which runs in a container with this root.
pub(crate) const CONTAIN: &str = "holo-process:contain";
/// The first process in the container.
pub(crate) const INSIDE: &str = "holo-process:inside";
pub(crate) const HOLD: &str = "holo-process:hold-lock";

/// True if our binary implements the internal commands.
static SERVED: AtomicBool = AtomicBool::new(false);

/// Records that our binary implements the internal commands.
pub(crate) fn set_served() {
    SERVED.store(true, Ordering::Relaxed);
}

/// Returns true if [`serve_if_asked`](crate::serve_if_asked) was called, so that our own binary can be started with
/// internal commands.
pub(crate) fn is_served() -> bool {
    SERVED.load(Ordering::Relaxed)
}

/// Returns the signals that this process ignores, as the bit mask of the kernel.
#[must_use]
pub fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}

/// Replaces this process with a new instance of the same program, with the same arguments and an additional environment
/// variable. This is meant for settings that must be made before a program starts.
///
/// The process keeps its PID and its inheritable descriptors. All other state is lost, so this must be called before
/// any state that needs cleanup exists. Returns only on failure, with the error.
#[must_use]
pub fn start_again(variable: &str, value: &str) -> io::Error {
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut arguments = env::args_os();
    #[expect(clippy::disallowed_methods, reason = "this crate is the one place that starts programs")]
    let mut command = Command::new(&program);
    command.arg0(arguments.next().unwrap_or_else(|| program.into()));
    command.args(arguments).env(variable, value).exec()
}

/// Returns a program that is installed with this one: that in the directory from which this one was called, or in which
/// it is, or else the one in `PATH`.
#[must_use]
pub fn beside(name: &str) -> PathBuf {
    // This may be a link to a program elsewhere that contains several.
    let called = env::args_os().next().map(PathBuf::from);
    let programs = called.into_iter().chain(env::current_exe()).map(|program| program.with_file_name(name));
    { programs }.find(|path| path.is_absolute() && path.exists()).unwrap_or_else(|| name.into())
}

/// Replaces this process by a program, which is searched in `PATH`, with its environment and streams. Returns only if
/// that fails.
#[must_use]
pub fn become_program(name: impl AsRef<OsStr>, arguments: &[&str]) -> io::Error {
    #[expect(clippy::disallowed_methods, reason = "this crate is the one place that starts programs")]
    let mut command = Command::new(name);
    command.args(arguments).exec()
}

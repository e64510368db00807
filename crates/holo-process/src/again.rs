//! Re-execution of the current program.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

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

//! A process that becomes another one of its own program.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Replaces this process by one of the same program with the same arguments, which has a variable in its environment: for what is decided
/// before a program begins. It keeps its number and its descriptors that others inherit, and loses all else, so that this belongs before
/// anything that has to be cleaned up. Returns only if that cannot be done, with the reason.
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

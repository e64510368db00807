//! The way a command of a definition is called.

use crate::command::Command;
use crate::definition::Exec;
use holo_plugin::Mode;
use holo_plugin::process::Program;
use std::time::Duration;

/// The directory in which commands run if none is given.
const ROOT: &str = "/";
/// The search path of a command whose environment is clean.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The program that a command stands for, with everything that its definition says of it.
pub(crate) fn program(
    exec: &Exec,
    command: &Command,
    timeout: Option<Duration>,
    mode: Mode<'_>,
) -> Result<Program, String> {
    let mut words = command.words(exec.shell)?.into_iter();
    let mut program = Program::new(words.next().unwrap_or_default());
    program.args(words).current_dir(exec.cwd.as_deref().unwrap_or(ROOT)).identity(exec.identity());
    if exec.clean_environment {
        program.clear_env().path(DEFAULT_PATH);
    }
    mode.tell(&mut program);
    if let Some(path) = exec.search_path() {
        program.path(path);
    }
    for (name, value) in exec.variables() {
        program.env(name, value);
    }
    if let Some(timeout) = timeout {
        program.timeout(timeout);
    }
    Ok(program)
}
